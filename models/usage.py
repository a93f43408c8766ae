"""What was used over many runs, by day, agent, model, purpose or owner: one read, nothing guessed.

Every attempt to get a reply has a row, with its tokens where they are known. Prices are no matter
of the record: the sums are such that a price times a sum is the cost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from sqlalchemy import (
    ColumnElement,
    Connection,
    Date,
    Select,
    cast,
    func,
    literal_column,
    select,
    text,
)

from models.query_parts import given_up_with, in_span
from models.tables import model_calls, run_specs, runs

Group = Literal["day", "agent", "model", "purpose", "owner"]
GROUPS: Final[tuple[Group, ...]] = ("day", "agent", "model", "purpose", "owner")
_TOO_LONG: Final = (
    "Adding up took too long and was given up; ask for a shorter time, for instance --age 7d."
)


@dataclass(frozen=True, slots=True)
class UsageFilter:
    """Which model calls are wanted; whatever is not given does not matter."""

    tenant: str | None = None
    """None: of every tenant, for who may see the whole database."""
    agent: str | None = None
    owner: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    age_seconds: float | None = None
    """Opened at most so long ago, by the database's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """What the model calls of one group, of one model, have used."""

    groups: Mapping[str, str]
    """The group by its names, such as `{"day": "2026-03-01"}`."""
    model: str
    """As the run asked for it: what prices are set for."""
    model_calls: int
    unreported_calls: int
    """Lost, open, or answered without a number."""
    is_estimated: bool
    input_tokens: int
    """All that is known of, also of calls that reported nothing else."""
    output_tokens: int
    priced_input_tokens: int
    """Of the calls that reported both numbers, as are the two below."""
    priced_output_tokens: int
    priced_cached_tokens: int


def read_usage(connection: Connection, wanted: UsageFilter, groups: Sequence[Group]) -> list[Used]:
    """The sums of each group and model, in the order of the groups.

    Raises:
        InvalidInput: it took longer than a statement may.
    """
    with given_up_with(_TOO_LONG):
        rows = connection.execute(usage_query(wanted, groups)).mappings().all()
    return [
        Used(
            groups={group: str(row[group]) for group in groups},
            model=row["asked_model"],
            **{name: row[name] for name in _SUMS},
        )
        for row in rows
    ]


def usage_query(wanted: UsageFilter, groups: Sequence[Group]) -> Select[Any]:
    """The statement of `read_usage`."""
    columns = [_GROUP_COLUMNS[group].label(group) for group in groups]
    sums = [column.label(name) for name, column in _SUMS.items()]
    return (
        select(*columns, run_specs.c.model.label("asked_model"), *sums)
        .select_from(model_calls)
        .join(runs, runs.c.id == model_calls.c.run_id)
        .join(run_specs, run_specs.c.run_id == model_calls.c.run_id)
        .where(*_conditions(wanted))
        .group_by(*columns, run_specs.c.model)
        .order_by(*columns, run_specs.c.model)
        .prefix_with(text("/* usage.read */"))
    )


_GROUP_COLUMNS: Final[dict[Group, ColumnElement[Any]]] = {
    "day": cast(func.timezone("UTC", model_calls.c.opened_at), Date),
    "agent": run_specs.c.agent,
    "model": run_specs.c.model,
    "purpose": model_calls.c.purpose,
    "owner": runs.c.owner,
}
_IS_REPORTED: Final = model_calls.c.input_tokens.is_not(None) & model_calls.c.output_tokens.is_not(
    None
)


def _sum(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """A whole number, 0 of nothing; a sum of big integers is a decimal otherwise."""
    return cast(func.coalesce(func.sum(column), literal_column("0")), model_calls.c.fence.type)


def _priced(column: ColumnElement[Any]) -> ColumnElement[Any]:
    total = func.sum(column).filter(_IS_REPORTED)
    return cast(func.coalesce(total, literal_column("0")), model_calls.c.fence.type)


_SUMS: Final[dict[str, ColumnElement[Any]]] = {
    "model_calls": func.count(),
    "unreported_calls": func.count().filter(~_IS_REPORTED),
    "is_estimated": func.bool_or(model_calls.c.is_estimated),
    "input_tokens": _sum(model_calls.c.input_tokens),
    "output_tokens": _sum(model_calls.c.output_tokens),
    "priced_input_tokens": _priced(model_calls.c.input_tokens),
    "priced_output_tokens": _priced(model_calls.c.output_tokens),
    # Some endpoints report more cached tokens than there were.
    "priced_cached_tokens": _priced(
        func.least(
            func.coalesce(model_calls.c.cached_input_tokens, literal_column("0")),
            model_calls.c.input_tokens,
        )
    ),
}


def _conditions(wanted: UsageFilter) -> list[ColumnElement[bool]]:
    equal = (
        (model_calls.c.tenant, wanted.tenant),
        (runs.c.owner, wanted.owner),
        (run_specs.c.agent, wanted.agent),
    )
    conditions = [column == value for column, value in equal if value is not None]
    return conditions + in_span(
        model_calls.c.opened_at, wanted.since, wanted.until, wanted.age_seconds
    )
