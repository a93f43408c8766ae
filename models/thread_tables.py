"""The table of threads."""

from sqlalchemy import Boolean, Column, Index, Table, Text, text
from sqlalchemy.dialects.postgresql import ARRAY

from models.schema import NOW, Moment, id_column, metadata, one_of, tenant_column

threads = Table(
    "threads",
    metadata,
    id_column("id", primary_key=True),
    tenant_column(),
    Column("owner", Text, nullable=False),
    Column("location", Text, nullable=False, server_default="", comment="where the owner speaks"),
    Column("visibility", Text, nullable=False, server_default="private"),
    Column("title", Text, nullable=False, server_default=""),
    Column(
        "collaborators",
        ARRAY(Text),
        nullable=False,
        server_default=text("'{}'::text[]"),
        comment="who else may correct its runs while it is public",
    ),
    Column(
        "owner_must_approve",
        Boolean,
        nullable=False,
        server_default=text("false"),
        comment="a collaborator has corrected one of its runs: later ones know those words",
    ),
    Column("created_at", Moment, nullable=False, server_default=NOW),
    one_of("visibility", ("private", "public")),
    Index(None, "tenant", "owner", "id"),
    comment="The owned, durable piece of work.",
)
