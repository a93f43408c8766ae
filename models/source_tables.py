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

from models.schema import Id, Moment, id_column, metadata, one_of, tenant_column

sources = Table(
    "sources",
    metadata,
    Column("tenant", Text, primary_key=True, comment="who the row belongs to"),
    Column("source", Text, primary_key=True, comment="kind:id"),
    Column("seq", Integer, nullable=False, comment="notices that brought news, counted from 1"),
    Column("revision", Text, comment="as the last notice said it; NULL: it did not say"),
    Column("is_deleted", Boolean, nullable=False),
    Column("reason", Text, nullable=False, comment="what the last notice said beside it"),
    Column("text", Text, comment="what it says now, if the last notice brought that"),
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


given_sources = Table(
    "given_sources",
    metadata,
    id_column("run_id", primary_key=True),
    Column("source", Text, primary_key=True, comment="kind:id"),
    Column(
        "source_rev",
        Integer,
        primary_key=True,
        comment="from this source revision of the run on, it is shown so",
    ),
    tenant_column(),
    id_column("thread_id"),
    Column("place", Integer, nullable=False, comment="in the order in which they were given"),
    Column("author", Text, nullable=False),
    Column("text", Text, comment="NULL: there is nothing to show any more"),
    Column("gap", Text, comment="why"),
    Column("reason", Text, nullable=False, server_default="", comment="in words"),
    Column("seen_seq", Integer, nullable=False, comment="notices that it knows of"),
    Column("step", Integer, nullable=False, comment="where the run stood when it changed"),
    Column("given_at", Moment, nullable=False, server_default=text("clock_timestamp()")),
    one_of("gap", ("deleted", "unreadable")),
    CheckConstraint("(text IS NULL) = (gap IS NOT NULL)", name="shown"),
    Index(None, "tenant", "source"),
    Index(None, "thread_id"),
    comment="Texts given to a run beside its request, as each of its requests has shown them.",
)
