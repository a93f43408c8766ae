"""Tables of what a result holds beside its evidence row: long text in chunks, and pictures.

A capture is written while its call runs and counts for nothing until the evidence row names it, in
the commit that settles the call. A capture that no row names any more is swept.

Evidence, chunks and pictures are never updated: a trigger refuses it (migration 0012). Privileges
would not hold, as Umbel's role owns the tables, and an owner may grant itself anything.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    text,
)

from loop.pictures import PICTURE_TYPES
from models.schema import NOW, Moment, id_column, metadata, one_of, tenant_column

captures = Table(
    "captures",
    metadata,
    id_column("id", primary_key=True),
    id_column("call_id"),
    id_column("run_id"),
    tenant_column(),
    Column(
        "is_kept",
        Boolean,
        nullable=False,
        server_default=text("false"),
        comment="an evidence row names it",
    ),
    Column("begun_at", Moment, nullable=False, server_default=NOW),
    Index(None, "run_id"),
    Index("captures_loose_ix", "begun_at", postgresql_where=text("NOT is_kept")),
    comment="What one try of a call wrote beside its evidence row.",
)

evidence_chunks = Table(
    "evidence_chunks",
    metadata,
    id_column("capture_id"),
    Column("start_char", BigInteger, nullable=False, comment="characters of the result before it"),
    Column("start_line", BigInteger, nullable=False, comment="line ends of the result before it"),
    Column("body", Text, nullable=False, comment="never ends inside an escape"),
    PrimaryKeyConstraint("capture_id", "start_char"),
    ForeignKeyConstraint(["capture_id"], ["captures.id"], ondelete="CASCADE"),
    CheckConstraint(
        "start_char >= 0 AND start_line BETWEEN 0 AND start_char AND body <> ''", name="place"
    ),
    comment="A part of a result that is too long for one row.",
)

pictures = Table(
    "pictures",
    metadata,
    id_column("capture_id"),
    Column("number", SmallInteger, nullable=False, comment="order in the result, from 1"),
    Column("media_type", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("sha256", LargeBinary, nullable=False),
    one_of("media_type", PICTURE_TYPES),
    PrimaryKeyConstraint("capture_id", "number"),
    ForeignKeyConstraint(["capture_id"], ["captures.id"], ondelete="CASCADE"),
    CheckConstraint("sha256 = sha256(body)", name="sha256"),
    comment="A picture of a result, for models that take pictures.",
)
