"""The table of corrections."""

from sqlalchemy import (
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from models.schema import NOW, Moment, id_column, metadata, one_of, tenant_column
from umbel.names import STEER_MODES, STEER_STATES

steers = Table(
    "steers",
    metadata,
    id_column("id", primary_key=True),
    tenant_column(),
    id_column("run_id"),
    Column("rev", Integer, nullable=False, comment="counted per run from 1"),
    Column("author", Text, nullable=False),
    Column("mode", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column(
        "state",
        Text,
        nullable=False,
        server_default="accepted",
        comment="applied: a request held it; returned: the run ended without",
    ),
    Column("created_at", Moment, nullable=False, server_default=NOW),
    Column("settled_at", Moment),
    one_of("mode", STEER_MODES),
    one_of("state", STEER_STATES),
    CheckConstraint("(settled_at IS NULL) = (state = 'accepted')", name="settled"),
    UniqueConstraint("run_id", "rev"),
    ForeignKeyConstraint(["run_id"], ["runs.id"]),
    Index("steers_accepted_ix", "run_id", postgresql_where=text("state = 'accepted'")),
    comment="Corrections of a run by people: what was accepted is never lost.",
)
