"""The table of what stands for the beginning of a transcript."""

from sqlalchemy import (
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from models.schema import Id, Moment, id_column, metadata, one_of, tenant_column

summaries = Table(
    "summaries",
    metadata,
    id_column("id", primary_key=True),
    tenant_column(),
    id_column("thread_id"),
    id_column("run_id", "whose requests it is in"),
    Column("number", Integer, nullable=False, comment="counted per run from 1"),
    Column("previous", Id, comment="the summary that is merged into it"),
    Column("step", Integer, nullable=False, comment="the step whose request first held it"),
    Column("attempt", SmallInteger, comment="the model call that wrote it; NULL: a plain cut"),
    Column("kind", Text, nullable=False),
    id_column("first_kept_run", "everything before this run and step is left out"),
    Column("first_kept_step", Integer, nullable=False),
    Column(
        "steers",
        Integer,
        nullable=False,
        comment="corrections of that run before that step: they stay, verbatim",
    ),
    Column("text", Text, nullable=False),
    Column(
        "unresolved",
        Text,
        nullable=False,
        server_default="",
        comment="changes that are left out and whose outcome nobody knew",
    ),
    Column("source_sha", LargeBinary, comment="sha256 of what it was written from"),
    Column("created_at", Moment, nullable=False, server_default=text("clock_timestamp()")),
    one_of("kind", ("summary", "trim")),
    CheckConstraint("kind = 'trim' OR attempt IS NOT NULL", name="written_by"),
    CheckConstraint("previous IS NOT NULL OR number = 1", name="previous"),
    UniqueConstraint("run_id", "number"),
    ForeignKeyConstraint(["run_id"], ["runs.id"]),
    comment="What stands in a request for the steps before the first that is kept.",
)
