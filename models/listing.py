"""Finding runs among many: filters, newest first, a page at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, or_, select, text, tuple_

from models.query_parts import given_up_with, in_span
from models.runs import RUN_QUERY, RunRow, run_of
from models.tables import entries, run_specs, runs
from umbel.errors import NotFound
from umbel.names import Reason, RunStatus

MAX_WORDS: Final = 20
_TOO_LONG: Final = (
    "The search took too long and was given up; ask for less, for instance only for runs of the "
    "last day."
)


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs are wanted; whatever is not given does not matter."""

    tenant: str | None = None
    """None: of every tenant, for who may see the whole database."""
    statuses: Sequence[RunStatus] = ()
    reasons: Sequence[Reason] = ()
    agent: str | None = None
    owner: str | None = None
    thread_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    age_seconds: float | None = None
    """Accepted at most so long ago, by the database's clock."""
    words: Sequence[str] = ()
    """All of them stand in the request or in the answer, in capitals or not."""


@dataclass(frozen=True, slots=True)
class RunPage:
    """Some of the runs that were wanted."""

    rows: list[RunRow]
    has_more: bool


def list_runs(
    connection: Connection, wanted: RunFilter, *, limit: int = 20, after: str | None = None
) -> RunPage:
    """The newest runs first; with `after`, those that come behind this run.

    Raises:
        NotFound: there is no run `after`.
        InvalidInput: the search took longer than a statement may.
    """
    query = RUN_QUERY.where(*_conditions(wanted))
    if after is not None:
        query = query.where(tuple_(runs.c.accepted_at, runs.c.id) < _place_of(connection, after))
    query = query.order_by(runs.c.accepted_at.desc(), runs.c.id.desc()).limit(limit + 1)
    with given_up_with(_TOO_LONG):
        rows = connection.execute(query).mappings().all()
    return RunPage([run_of(row) for row in rows[:limit]], has_more=len(rows) > limit)


def _place_of(connection: Connection, run_id: str) -> ColumnElement[Any]:
    """Where a run stands in the order of the list."""
    query = select(runs.c.accepted_at, runs.c.id).where(runs.c.id == run_id)
    place = connection.execute(query).one_or_none()
    if place is None:
        raise NotFound(f"There is no run {run_id!r} to list on from; give the whole id.")
    return tuple_(place.accepted_at, place.id)


def _conditions(wanted: RunFilter) -> list[ColumnElement[bool]]:
    equal = (
        (runs.c.tenant, wanted.tenant),
        (runs.c.owner, wanted.owner),
        (runs.c.thread_id, wanted.thread_id),
        (run_specs.c.agent, wanted.agent),
    )
    conditions = [column == value for column, value in equal if value is not None]
    if wanted.statuses:
        conditions.append(runs.c.status.in_(wanted.statuses))
    if wanted.reasons:
        conditions.append(runs.c.reason.in_(wanted.reasons))
    conditions += in_span(runs.c.accepted_at, wanted.since, wanted.until, wanted.age_seconds)
    return conditions + [_holds(word) for word in wanted.words]


def _holds(word: str) -> ColumnElement[bool]:
    """The word stands in the request or the answer; `%` and `_` in it mean themselves."""
    columns = (entries.c.text, runs.c.answer)
    return or_(*(column.icontains(word, autoescape=True) for column in columns))


_LAST_SEQ: Final = "SELECT id, next_seq - 1 AS last_seq FROM runs"
_UNSETTLED: Final = text(f"""
{_LAST_SEQ} WHERE tenant = :tenant AND status IN ('running', 'waiting', 'cancelling')
UNION ALL
{_LAST_SEQ} WHERE tenant = :tenant AND status = 'queued'
""")
_ACCEPTED_SINCE: Final = text(
    f"{_LAST_SEQ} WHERE tenant = :tenant AND accepted_at > now() - make_interval(secs => :seconds)"
)
_OF_IDS: Final = text(f"{_LAST_SEQ} WHERE id = ANY(:run_ids)")


def unsettled_runs(connection: Connection, tenant: str) -> dict[str, int]:
    """Every run that may go on by itself, with the number of its newest event."""
    return _numbers(connection, _UNSETTLED, tenant=tenant)


def new_runs(connection: Connection, tenant: str, *, seconds: float) -> dict[str, int]:
    """The runs accepted in the last `seconds`, with the number of their newest event."""
    return _numbers(connection, _ACCEPTED_SINCE, tenant=tenant, seconds=seconds)


def last_events(connection: Connection, run_ids: Sequence[str]) -> dict[str, int]:
    """The number of the newest event of each run."""
    return _numbers(connection, _OF_IDS, run_ids=list(run_ids)) if run_ids else {}


def _numbers(connection: Connection, query: Any, **parameters: object) -> dict[str, int]:
    return {row.id: row.last_seq for row in connection.execute(query, parameters)}
