"""Reads everything back through the functions that show runs to people; prints a run's trace."""

from collections.abc import Iterator
from typing import Final

from sqlalchemy import Connection

from models.database import Database
from models.evidence import ThreadEvidence
from models.happenings import BATCH, Happening, read_happenings
from models.listing import RunFilter, list_runs
from models.runs import RunRow, find_run
from models.showing import attempts_of, calls_of
from providers.chat import ChatProvider
from providers.contract import Endpoint, ModelProvider
from tasks.rebuilding import rebuild_request
from tests.chaos.harness.judge import Violation
from umbel.contracts import RunId, ThreadId
from umbel.errors import NotFound, UmbelError
from umbel.names import WireName

_PAGE: Final = 50
_PROVIDERS: Final[dict[WireName, ModelProvider]] = {
    "chat": ChatProvider(Endpoint(base_url="http://127.0.0.1/v1", api_key=""))
}


def read_back(database: Database) -> tuple[int, list[Violation]]:
    """How many rows were read, and the runs that cannot be."""
    rows, broken = 0, []
    with database.begin() as connection:
        runs = list(_all_runs(connection))
    for run in runs:
        try:
            rows += _read(database, run)
        except (UmbelError, ValueError, KeyError, TypeError, AssertionError) as error:
            broken.append(Violation("unreadable row", repr(error), run.run_id))
    return rows, broken


def trace_of(database: Database, run_id: str) -> list[str]:
    """A run's events, a line each, with what they tell of."""
    with database.begin() as connection:
        run = find_run(connection, run_id)
        lines = [f"{run_id}: no such run" if run is None else f"{run_id}: {run.status}"]
        lines += [
            f"  {h.event.seq:3} {h.event.at:%H:%M:%S.%f} fence {h.event.fence} {h.event.kind} "
            f"{h.event.ref} {h.event.data}" + (f" by {h.worker}" if h.worker else "")
            for h in _events(connection, RunId(run_id))
        ]
        lines += [
            f"  step {call.step}.{call.position} {call.call_id} {call.tool} {call.args_text}: "
            f"{call.state}, receipt {call.receipt}"
            for call in calls_of(connection, RunId(run_id))
        ]
        lines += [
            f"  step {a.step} attempt {a.attempt}: {a.state}, {a.decision}, {a.error_class}"
            for a in attempts_of(connection, RunId(run_id))
        ]
    return lines


def _all_runs(connection: Connection) -> Iterator[RunRow]:
    after: str | None = None
    while True:
        page = list_runs(connection, RunFilter(), limit=_PAGE, after=after)
        yield from page.rows
        if not page.has_more:
            return
        after = page.rows[-1].run_id


def _events(connection: Connection, run_id: RunId) -> Iterator[Happening]:
    after = 0
    while found := read_happenings(connection, run_id, after):
        yield from found
        after = found[-1].event.seq
        if len(found) < BATCH:
            return


def _read(database: Database, run: RunRow) -> int:
    run_id = RunId(run.run_id)
    with database.begin() as connection:
        assert find_run(connection, run_id) is not None
        calls = calls_of(connection, run_id)
        attempts = attempts_of(connection, run_id)
        events = list(_events(connection, run_id))
    evidence = ThreadEvidence(database, ThreadId(run.thread_id), run.tenant)
    for call in calls:
        if call.result_chars is not None:
            page = evidence.read(call.call_id, 0, 1_000)
            assert page.total_chars == call.result_chars
    for attempt in attempts:
        try:
            rebuild_request(database, _PROVIDERS, run_id, attempt.step, attempt.attempt)
        except NotFound:
            continue  # it was lost before its reply was recorded
    return 1 + len(calls) + len(attempts) + len(events)
