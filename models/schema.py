"""What all tables share: naming of constraints, column kinds, storage of hot rows, JSON texts."""

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import ValidationError
from sqlalchemy import CheckConstraint, Column, DateTime, MetaData, Text, text

from umbel.contracts import Frozen
from umbel.errors import InvariantBroken

Stored = TypeVar("Stored", bound=Frozen)

metadata = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pk",
        "fk": "%(table_name)s_%(column_0_name)s_fk",
        "uq": "%(table_name)s_%(column_0_N_name)s_uq",
        "ix": "%(table_name)s_%(column_0_N_name)s_ix",
        "ck": "%(table_name)s_%(constraint_name)s",
    }
)

HOT_TABLE: dict[str, Any] = {"fillfactor": 60, "autovacuum_vacuum_scale_factor": 0.02}
"""Rows that change often leave room beside them, so that an update stays on its page."""

Id = Text(collation="C")
Moment = DateTime(timezone=True)
NOW = text("now()")


def one_of(column: str, values: Sequence[str]) -> CheckConstraint:
    """CHECK that `column` holds one of `values`."""
    listed = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({listed})", name=column)


def id_column(name: str, comment: str | None = None, *, primary_key: bool = False) -> Column[str]:
    """A column that holds an id: text that sorts by bytes."""
    return Column(name, Id, nullable=False, primary_key=primary_key, comment=comment)


def tenant_column() -> Column[str]:
    """The tenant stands in every table, so that every query can be closed over it."""
    return Column("tenant", Text, nullable=False, comment="who the row belongs to")


def parse_stored(kind: type[Stored], json_text: str) -> Stored:
    """The value that was stored as JSON text; never a fallback.

    Raises:
        InvariantBroken: the text does not parse.
    """
    try:
        return kind.model_validate_json(json_text)
    except ValidationError as error:
        # Without the text itself: it may hold what people or models wrote.
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"])) or "the text"
        raise InvariantBroken(
            f"A stored {kind.__name__} does not parse: {place}: {first['msg']}."
        ) from None
