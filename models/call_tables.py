"""Tables about tool calls and what comes out of a run."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from models.schema import HOT_TABLE, NOW, Id, Moment, id_column, metadata, one_of, tenant_column
from umbel.names import (
    CALL_STATES,
    EFFECTS,
    PLACEMENTS,
    VERIFICATIONS,
)

calls = Table(
    "calls",
    metadata,
    id_column("id", "also the Celery task id and the evidence handle", primary_key=True),
    id_column("run_id"),
    tenant_column(),
    Column("step", Integer, nullable=False),
    Column(
        "position",
        SmallInteger,
        nullable=False,
        comment="as the model asked, from 1; below 0: read again before it is asked",
    ),
    Column("model_id", Text, nullable=False, comment="the id the model gave"),
    Column("tool", Text, nullable=False),
    Column("tool_version", Text, nullable=False),
    Column("effect", Text, nullable=False),
    Column("placement", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("args_text", Text, comment="the exact bytes that are hashed, shown, approved and sent"),
    Column("args_sha", LargeBinary),
    Column("steer_rev", Integer, nullable=False),
    Column("source_rev", Integer, nullable=False),
    Column("auth_rev", Integer, nullable=False),
    Column("attempt", SmallInteger, nullable=False, server_default="0"),
    Column("holder", Id, comment="the worker that runs it, or ran it last"),
    Column(
        "needs_approval",
        Boolean,
        nullable=False,
        server_default=text("false"),
        comment="it starts only with its owner's approval",
    ),
    Column("approved_sha", LargeBinary, comment="hash of the bytes that its owner approved"),
    Column(
        "approval_until",
        Moment,
        comment="until when it may be decided, once approved: started; NULL: no limit",
    ),
    Column(
        "resource_key",
        Text,
        comment="what a change touches, in its tenant: changes of one key run one at a time",
    ),
    Column(
        "quiet_until",
        Moment,
        comment="until when a change that its owner has looked into may still be on its way",
    ),
    Column("stall_seconds", Float, nullable=False),
    Column("deadline_at", Moment, comment="last progress and the tool's allowed silence"),
    Column("started_at", Moment),
    Column("settled_at", Moment),
    Column("ring_at", Moment),
    Column("rings", SmallInteger, nullable=False, server_default="0"),
    Column(
        "misses",
        SmallInteger,
        nullable=False,
        server_default="0",
        comment="looks of workers that lack its tool, while no living one had it",
    ),
    Column("refreshes", Id, comment="the call whose result it reads again"),
    Column("refresh_no", SmallInteger, comment="counted per result from 1: the last one counts"),
    one_of("effect", EFFECTS),
    one_of("placement", PLACEMENTS),
    one_of("state", CALL_STATES),
    UniqueConstraint("run_id", "step", "position"),
    CheckConstraint("effect <> 'mutation' OR placement = 'task'", name="mutation_is_task"),
    CheckConstraint(
        "state <> 'started' OR (holder IS NOT NULL AND started_at IS NOT NULL AND attempt > 0)",
        name="started_has_holder",
    ),
    CheckConstraint(
        "state <> 'started' OR effect <> 'mutation' OR deadline_at IS NOT NULL", name="deadline"
    ),
    CheckConstraint("effect <> 'mutation' OR attempt <= 1", name="mutation_once"),
    CheckConstraint(
        "(effect = 'mutation') = (resource_key IS NOT NULL)", name="change_has_resource_key"
    ),
    CheckConstraint(
        "(settled_at IS NOT NULL) ="
        " (state IN ('returned', 'refused', 'errored', 'skipped', 'unknown'))",
        name="settled",
    ),
    CheckConstraint(
        "args_text IS NOT NULL OR state IN ('refused', 'errored', 'skipped')", name="args_known"
    ),
    CheckConstraint(
        "(args_text IS NULL) = (args_sha IS NULL)"
        " AND (args_text IS NULL OR args_sha = sha256(convert_to(args_text, 'UTF8')))",
        name="args_sha",
    ),
    CheckConstraint("state <> 'awaiting_approval' OR needs_approval", name="asked"),
    CheckConstraint(
        "NOT needs_approval OR approved_sha IS NOT NULL"
        " OR state NOT IN ('planned', 'ready', 'started', 'returned', 'unknown')",
        name="approved_first",
    ),
    CheckConstraint(
        "approved_sha IS NULL"
        " OR (needs_approval AND approved_sha = args_sha AND approval_until IS NOT NULL)",
        name="approved_sha",
    ),
    Index(
        "calls_approval_ix",
        "tenant",
        "approval_until",
        postgresql_where=text("needs_approval AND settled_at IS NULL"),
    ),
    Index(
        "calls_ready_ix",
        "tenant",
        text("ring_at NULLS FIRST"),
        postgresql_where=text("state = 'ready'"),
    ),
    Index(
        "calls_one_change_uq",
        "tenant",
        "resource_key",
        unique=True,
        postgresql_where=text("effect = 'mutation' AND state IN ('started', 'unknown')"),
    ),
    Index(
        "calls_next_change_ix",
        "tenant",
        "resource_key",
        postgresql_where=text("effect = 'mutation' AND state = 'ready'"),
    ),
    Index(
        "calls_quiet_ix",
        "tenant",
        "resource_key",
        postgresql_where=text("quiet_until IS NOT NULL"),
    ),
    Index("calls_started_ix", "holder", postgresql_where=text("state = 'started'")),
    CheckConstraint(
        "(refreshes IS NULL) = (refresh_no IS NULL) AND (refreshes IS NULL) = (position > 0)",
        name="refresh",
    ),
    CheckConstraint("refreshes IS NULL OR effect <> 'mutation'", name="refresh_reads"),
    Index(
        "calls_refreshes_uq",
        "refreshes",
        "refresh_no",
        unique=True,
        postgresql_where=text("refreshes IS NOT NULL"),
    ),
    Index("calls_refreshed_ix", "run_id", postgresql_where=text("refreshes IS NOT NULL")),
    comment="One tool call of a step.",
    postgresql_with=HOT_TABLE,
)


receipts = Table(
    "receipts",
    metadata,
    id_column("call_id", "one intent per call, ever: the primary key says so", primary_key=True),
    id_column("run_id"),
    tenant_column(),
    Column("attempt", SmallInteger, nullable=False),
    Column("args_text", Text, nullable=False),
    Column("args_sha", LargeBinary, nullable=False),
    Column("intent_seq", Integer, nullable=False, comment="event that recorded the intent"),
    Column("intent_at", Moment, nullable=False, server_default=text("clock_timestamp()")),
    Column("outcome", Text, comment="NULL: sent or about to be, not heard of yet"),
    Column("is_late", Boolean, nullable=False, server_default=text("false")),
    Column("resources", JSONB, comment="ids the outside system returned"),
    Column("closed_at", Moment),
    Column("verified", Text, comment="what the owner found out about an unknown outcome"),
    Column("verified_by", Text),
    Column("verified_at", Moment),
    Column("verified_text", Text),
    Column("late_outcome", Text, comment="what the tool reported after the owner had spoken"),
    Column("late_body", Text),
    one_of("outcome", ("done", "not_done", "unknown")),
    one_of("verified", VERIFICATIONS),
    one_of("late_outcome", ("done", "not_done")),
    CheckConstraint(
        "(verified IS NULL) = (verified_at IS NULL)"
        " AND (verified IS NULL) = (verified_by IS NULL)"
        " AND (verified IS NULL) = (verified_text IS NULL)",
        name="verified_by_somebody",
    ),
    CheckConstraint(
        "verified IS NULL OR outcome IS NOT DISTINCT FROM 'unknown'", name="verified_is_unknown"
    ),
    CheckConstraint("late_outcome IS NULL OR verified IS NOT NULL", name="late_is_verified"),
    CheckConstraint("(outcome IS NULL) = (closed_at IS NULL)", name="closed"),
    CheckConstraint("args_sha = sha256(convert_to(args_text, 'UTF8'))", name="args_sha"),
    Index(None, "run_id"),
    Index(
        "receipts_done_after_all_ix",
        "args_sha",
        postgresql_where=text("late_outcome = 'done' AND verified <> 'happened'"),
    ),
    Index(
        "receipts_unknown_ix",
        "tenant",
        postgresql_where=text("outcome = 'unknown' AND verified IS NULL"),
    ),
    comment="A change to the outside world: intent first, outcome when it is known.",
)


evidence = Table(
    "evidence",
    metadata,
    id_column("call_id", "the handle", primary_key=True),
    id_column("run_id"),
    id_column("thread_id"),
    tenant_column(),
    Column("body", Text, comment="the whole result, JSON text; NULL: it is in chunks"),
    Column("view", Text, nullable=False, comment="what the prompt shows of it"),
    Column("sha256", LargeBinary, nullable=False),
    Column("total_chars", BigInteger, nullable=False),
    Column("is_escaped", Boolean, nullable=False, server_default=text("false")),
    Column("stored_at", Moment, nullable=False, server_default=text("clock_timestamp()")),
    Column("capture_id", Id, comment="its chunks and pictures, if it has any"),
    CheckConstraint("sha256 = sha256(convert_to(body, 'UTF8'))", name="sha256"),
    CheckConstraint("body IS NOT NULL OR capture_id IS NOT NULL", name="has_text"),
    Index(None, "run_id"),
    comment="The full, immutable result of a call.",
)


deliveries = Table(
    "deliveries",
    metadata,
    id_column("id", primary_key=True),
    tenant_column(),
    id_column("run_id"),
    Column("recipient", Text, nullable=False),
    Column("destination", Text, nullable=False, comment="`inbox`, or the name of an adapter"),
    Column("kind", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("external_id", Text, comment="the message id at the destination"),
    Column("created_at", Moment, nullable=False, server_default=NOW),
    Column("delivered_at", Moment),
    one_of("kind", ("text",)),
    one_of("state", ("delivered",)),
    UniqueConstraint("run_id", "destination"),
    ForeignKeyConstraint(["run_id"], ["runs.id"]),
    Index(None, "tenant", "recipient", "id"),
    comment="An answer on its way to a person: once per run and destination.",
)
