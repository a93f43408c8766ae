"""A run's events with what they tell of: the call, the model call, the worker. Reads only."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import Connection, text

from models.events import Event, read_events
from models.runs import worker_name
from models.showing import ShownAttempt, ShownCall, attempts_in, calls_named
from umbel.contracts import RunId

BATCH: Final = 200
"""So many at a time: every one may bring a tool's arguments and a view of its result."""
_BEFORE_ITS_WORKER: Final = ("call.planned", "call.awaiting_approval", "call.ready")
# Rows of processes are forgotten; the events in which a worker says who it is stay.
_NAMES: Final = text("""
SELECT data ->> 'worker' AS id, data ->> 'node' AS node, data ->> 'pid' AS pid FROM events
WHERE run_id = :run_id AND data ? 'node' AND data ->> 'worker' = ANY(:ids)
UNION
SELECT id, node, pid::text FROM workers WHERE id = ANY(:ids)
""")


@dataclass(frozen=True, slots=True)
class Happening:
    """One durable event; the rows beside it may be ahead of it."""

    event: Event
    call: ShownCall | None
    attempt: ShownAttempt | None
    worker: str | None
    """As `role@host pid`; the id of one that is forgotten, in a record of an early version."""


def read_happenings(
    connection: Connection, run_id: RunId, after: int, *, since: datetime | None = None
) -> list[Happening]:
    """Up to BATCH events with a number above `after`, and not from before `since`, in order."""
    found = read_events(connection, run_id, after, BATCH, since=since)
    attempts = attempts_in(connection, run_id, sorted(set(_steps_with_replies(found))))
    calls = calls_named(connection, _call_ids(found))
    names = _worker_names(connection, run_id, found, calls)
    return [
        Happening(
            event,
            call=calls.get(event.ref or ""),
            attempt=_attempt_of(event, attempts),
            worker=_worker_of(event, calls.get(event.ref or ""), names),
        )
        for event in found
    ]


def _steps_with_replies(found: Sequence[Event]) -> Iterator[int]:
    for event in found:
        if "step" in event.data and ("attempt" in event.data or event.kind == "run.paused"):
            yield event.data["step"]


def _attempt_of(event: Event, attempts: Sequence[ShownAttempt]) -> ShownAttempt | None:
    """The model call that an event tells of; a pause names its step alone."""
    step = [attempt for attempt in attempts if attempt.step == event.data.get("step")]
    if "attempt" in event.data:
        number = event.data["attempt"]
        return next((attempt for attempt in step if attempt.attempt == number), None)
    if event.kind != "run.paused":
        return None
    # A reply that met a limit is kept undecided: it is decided when the run goes on.
    ends = [a for a in step if a.state == "closed" and a.decision in ("pause", None)]
    closed = [(a.closed_at, a) for a in ends if a.closed_at is not None]
    nearest = min(closed, key=lambda pair: abs(pair[0] - event.at), default=None)
    return nearest[1] if nearest is not None else None


def _call_ids(found: Sequence[Event]) -> list[str]:
    return [
        event.ref for event in found if event.ref and event.kind.startswith(("call.", "approval."))
    ]


def _worker_ids(found: Sequence[Event], calls: dict[str, ShownCall]) -> set[str]:
    of_events = {event.data["worker"] for event in found if "worker" in event.data}
    return of_events | {call.holder for call in calls.values() if call.holder is not None}


def _worker_names(
    connection: Connection, run_id: RunId, found: Sequence[Event], calls: dict[str, ShownCall]
) -> dict[str, str]:
    said = (event.data for event in found if "node" in event.data)
    names = {data["worker"]: worker_name(data["node"], data["pid"]) for data in said}
    missing = _worker_ids(found, calls) - names.keys()
    if missing:
        rows = connection.execute(_NAMES, {"run_id": run_id, "ids": list(missing)})
        names |= {row.id: worker_name(row.node, row.pid) for row in rows}
    return names


def _worker_of(event: Event, call: ShownCall | None, names: dict[str, str]) -> str | None:
    worker_id = event.data.get("worker")
    if worker_id is None and call is not None and event.kind not in _BEFORE_ITS_WORKER:
        worker_id = call.holder
    return None if worker_id is None else names.get(worker_id, worker_id)
