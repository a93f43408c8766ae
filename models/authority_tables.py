"""Tables about who may do what: what is said about everybody, and what owners say about a call."""

from sqlalchemy import (
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from models.schema import Moment, id_column, metadata, one_of, tenant_column
from umbel.names import APPROVAL_WORDS, PERMISSIONS, RULE_SCOPES

authority = Table(
    "authority",
    metadata,
    Column("tenant", Text, primary_key=True, comment="who the row belongs to"),
    Column("rev", Integer, primary_key=True, comment="counted per tenant from 1"),
    Column("scope", Text, nullable=False),
    Column("name", Text, nullable=False, comment="user, tool or target; empty for the tenant"),
    Column("permission", Text, nullable=False),
    Column("said_by", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("said_at", Moment, nullable=False, server_default=text("clock_timestamp()")),
    one_of("scope", RULE_SCOPES),
    one_of("permission", PERMISSIONS),
    CheckConstraint("(name = '') = (scope = 'tenant')", name="name"),
    comment="What runs of a tenant may do, whatever their mode: of each thing the last row counts."
    " Never updated.",
)


approvals = Table(
    "approvals",
    metadata,
    id_column("id", primary_key=True),
    tenant_column(),
    id_column("run_id"),
    id_column("call_id"),
    Column("word", Text, nullable=False),
    Column("said_by", Text, comment="NULL: time ran out"),
    Column("words", Text, nullable=False, comment="what the owner said beside it"),
    Column("tool", Text, nullable=False),
    Column("tool_version", Text, nullable=False),
    Column("args_sha", LargeBinary, nullable=False, comment="of the bytes it is about"),
    Column("steer_rev", Integer, nullable=False),
    Column("source_rev", Integer, nullable=False),
    Column("said_at", Moment, nullable=False, server_default=text("clock_timestamp()")),
    one_of("word", APPROVAL_WORDS),
    CheckConstraint("(said_by IS NULL) = (word = 'expired')", name="said_by"),
    UniqueConstraint("call_id", "word"),
    ForeignKeyConstraint(["run_id"], ["runs.id"]),
    Index(None, "run_id"),
    comment="What owners said about calls that asked for approval. Never updated: the call itself"
    " says what it may.",
)
