"""A further request in a thread, and what becomes of the run that is busy there."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from models import hot, hot_owner
from models.hot_sweep import PROMOTE
from models.input_checks import check_id
from models.owner import STOPPED_BODY, Steered, steering
from models.runs import Accepted, RunRequest, accept_run, active_run, lock_id, lock_thread
from models.tables import runs, steers
from umbel.contracts import RunId, ThreadId
from umbel.errors import Conflict
from umbel.names import OnBusy


@dataclass(frozen=True, slots=True)
class FollowedUp:
    """A further request that was accepted as a run of its own."""

    accepted: Accepted
    stopped: RunId | None = None
    """The run that was stopped for it."""
    promoted: tuple[tuple[RunId, int], ...] = ()
    """Runs of the thread whose turn it is because of that, with their step."""


@dataclass(frozen=True, slots=True)
class HandedOver:
    """A further request that became a correction of the run at work."""

    run_id: RunId
    steered: Steered


def follow_up(
    connection: Connection,
    request: RunRequest,
    *,
    run_id: RunId,
    thread_id: ThreadId,
    on_busy: OnBusy,
) -> FollowedUp | HandedOver:
    """Accept a further request; idempotent by `run_id`, whatever became of it the first time.

    A busy thread lets it wait (`enqueue`), refuses it (`reject`), stops the run at work for it
    (`interrupt`; what was queued before keeps its turn), or gives it to that run as a correction
    (`steer`; where the run hears nothing more, it waits as its own run).

    Raises:
        Conflict: the thread is busy and `on_busy` is `reject`.
        InvalidInput: as `accept_run`.
    """
    check_id("run_id", run_id, "run")
    lock_id(connection, run_id)
    if on_busy == "enqueue" or _is_known(connection, run_id):
        return FollowedUp(_accept(connection, request, run_id, thread_id))
    if known := _known_steer(connection, request, run_id):
        return known
    lock_thread(connection, thread_id, request)
    busy = active_run(connection, thread_id)
    if busy is not None and on_busy == "reject":
        raise Conflict(
            f"{busy} is at work in this thread; wait for it, or choose another --on-busy."
        )
    if busy is not None and on_busy == "steer":
        handed = _steer(connection, busy, request, run_id)
        if handed is not None:
            return handed
    accepted = _accept(connection, request, run_id, thread_id)
    if busy is None or on_busy != "interrupt":
        return FollowedUp(accepted)
    return _interrupt(connection, busy, accepted, request)


def _accept(
    connection: Connection, request: RunRequest, run_id: RunId, thread_id: ThreadId
) -> Accepted:
    return accept_run(connection, request, run_id=run_id, thread_id=thread_id)


def _is_known(connection: Connection, run_id: RunId) -> bool:
    query = select(runs.c.id).where(runs.c.id == run_id)
    return connection.execute(query).first() is not None


def _known_steer(connection: Connection, request: RunRequest, run_id: RunId) -> HandedOver | None:
    query = select(steers.c.run_id, steers.c.id, steers.c.rev).where(
        steers.c.id == _steer_id(run_id),
        steers.c.tenant == request.principal.tenant,
        steers.c.author == request.principal.user,
    )
    row = connection.execute(query).one_or_none()
    return HandedOver(row.run_id, Steered(row.id, row.rev, None)) if row is not None else None


def _steer(
    connection: Connection, busy: RunId, request: RunRequest, run_id: RunId
) -> HandedOver | None:
    parameters = _by(request, busy) | steering(_steer_id(run_id), request.input, "redirect")
    _run(connection, hot.LOCK_RUN, parameters)
    rows = _run(connection, hot_owner.STEER, parameters)
    if not rows:
        return None
    return HandedOver(busy, Steered(_steer_id(run_id), rows[0]["rev"], rows[0]["next_step"]))


def _interrupt(
    connection: Connection, busy: RunId, accepted: Accepted, request: RunRequest
) -> FollowedUp:
    parameters = _by(request, busy) | {"skipped_body": STOPPED_BODY}
    _run(connection, hot.LOCK_RUN, parameters)
    stopped = _run(connection, hot_owner.STOP, parameters)
    promoted = _run(connection, PROMOTE, {"thread_id": accepted.thread_id, "limit": 1})
    return FollowedUp(
        accepted,
        stopped=busy if stopped else None,
        promoted=tuple((RunId(row["id"]), row["step"]) for row in promoted),
    )


def _by(request: RunRequest, run_id: RunId) -> dict[str, Any]:
    who = request.principal
    return {"run_id": run_id, "tenant": who.tenant, "owner": who.user, "key": None}


def _steer_id(run_id: RunId) -> str:
    """The correction that a request becomes is named as its run would have been."""
    return f"str_{run_id.partition('_')[2]}"


def _run(
    connection: Connection, statement: str, parameters: Mapping[str, Any]
) -> list[Mapping[str, Any]]:
    rows = connection.exec_driver_sql(statement, dict(parameters)).mappings().all()
    return [dict(row) for row in rows]
