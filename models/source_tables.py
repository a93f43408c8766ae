"""Tables about sources: which ones changed, and which results rest on them."""

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    Index,
    Integer,
    Table,
    Text,
    text,
)

from models.schema import Id, Moment, id_column, metadata, tenant_column

sources = Table(
    "sources",
    metadata,
    Column("tenant", Text, primary_key=True, comment="who the row belongs to"),
    Column("source", Text, primary_key=True, comment="kind:id"),
    Column("seq", Integer, nullable=False, comment="notices that brought news, counted from 1"),
    Column("revision", Text, comment="as the last notice said it; NULL: it did not say"),
    Column("is_deleted", Boolean, nullable=False),
    Column("reason", Text, nullable=False, comment="what the last notice said beside it"),
    Column("changed_at", Moment, nullable=False, server_default=text("clock_timestamp()")),
    Column(
        "told_seq",
        Integer,
        nullable=False,
        server_default="0",
        comment="the notice that every run which rests on it has been told of",
    ),
    Column(
        "told_run",
        Id,
        nullable=False,
        server_default="",
        comment="of a newer notice, the last run told so far",
    ),
    CheckConstraint("seq >= 1 AND told_seq BETWEEN 0 AND seq", name="counted"),
    Index("sources_untold_ix", "changed_at", postgresql_where=text("told_seq < seq")),
    comment="Things outside that results rest on, once somebody has said that they changed.",
)


evidence_sources = Table(
    "evidence_sources",
    metadata,
    id_column("call_id", "the evidence that rests on it", primary_key=True),
    Column("source", Text, primary_key=True, comment="kind:id"),
    tenant_column(),
    id_column("run_id"),
    id_column("thread_id"),
    Column("revision", Text, comment="as the tool named it; NULL: gone, or not read yet"),
    Column(
        "seen_seq",
        Integer,
        nullable=False,
        server_default="0",
        comment="notices that were known before it was read",
    ),
    Column("named_at", Moment, nullable=False, server_default=text("clock_timestamp()")),
    Index(None, "tenant", "source"),
    Index(None, "thread_id"),
    Index(None, "run_id"),
    comment="Which sources, in which revision, a result rests on.",
)
