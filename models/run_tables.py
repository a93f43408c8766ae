"""Tables about runs: who works, what was asked, where a run stands, what the model said."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from models.schema import HOT_TABLE, NOW, Id, Moment, id_column, metadata, one_of, tenant_column
from umbel.names import DECISION_KINDS, REASONS, RUN_STATUSES, WIRES, WORKS

workers = Table(
    "workers",
    metadata,
    id_column("id", "one process, one boot", primary_key=True),
    Column(
        "node", Text, nullable=False, comment="machine and worker name; one living process tree"
    ),
    Column("role", Text, nullable=False),
    Column("pool", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("started_at", Moment, nullable=False, server_default=NOW),
    Column("beat_at", Moment, nullable=False, server_default=NOW),
    Column(
        "slots",
        Integer,
        nullable=False,
        server_default="0",
        comment="steps or calls the process carries at once",
    ),
    Column(
        "queues",
        ARRAY(Text),
        nullable=False,
        server_default=text("'{}'::text[]"),
        comment="what it consumes",
    ),
    Column(
        "tools",
        ARRAY(Text),
        nullable=False,
        server_default=text("'{}'::text[]"),
        comment="digests of the tools it has, as a run freezes them",
    ),
    Index(None, "node"),
    comment="The only liveness the database believes: a row per process, beaten every few seconds.",
    postgresql_with={"fillfactor": 50},
)


runs = Table(
    "runs",
    metadata,
    id_column("id", primary_key=True),
    tenant_column(),
    id_column("thread_id"),
    Column("owner", Text, nullable=False),
    Column("status", Text, nullable=False, comment="what people are told"),
    Column("reason", Text, comment="why it waits, is paused, failed or was cancelled"),
    Column("detail", Text, comment="the reason in words, with the next action"),
    Column(
        "work", Text, nullable=False, comment="who acts next: nobody, anyone, its holder, its calls"
    ),
    Column("step", Integer, nullable=False, server_default="1"),
    Column(
        "attempts", SmallInteger, nullable=False, server_default="0", comment="claims of this step"
    ),
    Column(
        "losses",
        SmallInteger,
        nullable=False,
        server_default="0",
        comment="holders lost in this step",
    ),
    Column(
        "failures",
        SmallInteger,
        nullable=False,
        server_default="0",
        comment="failed replies in this step",
    ),
    Column(
        "corrections",
        SmallInteger,
        nullable=False,
        server_default="0",
        comment="steps in a row in which no call could be run",
    ),
    Column(
        "fence",
        BigInteger,
        nullable=False,
        server_default="0",
        comment="bumped by claim and takeover",
    ),
    Column("holder", Id, comment="the worker that holds the run now"),
    Column(
        "open_calls",
        Integer,
        nullable=False,
        server_default="0",
        comment="calls of the step not settled",
    ),
    Column(
        "open_approvals",
        Integer,
        nullable=False,
        server_default="0",
        comment="calls of the step that wait for the owner's approval",
    ),
    Column(
        "unknowns",
        Integer,
        nullable=False,
        server_default="0",
        comment="changes whose outcome nobody knows",
    ),
    Column("calls_used", Integer, nullable=False, server_default="0"),
    Column("steer_rev", Integer, nullable=False, server_default="0"),
    Column("source_rev", Integer, nullable=False, server_default="0"),
    Column(
        "stale_step",
        Integer,
        comment="from this step on: whether sources have changed is looked at before it is asked",
    ),
    Column("auth_rev", Integer, nullable=False, server_default="0"),
    Column("stop_at", Moment),
    Column(
        "pause_reason", Text, comment="why it pauses when the last open call of its step has ended"
    ),
    Column("pause_detail", Text, comment="the same in words, with the next action"),
    Column(
        "owner_must_approve",
        Boolean,
        nullable=False,
        server_default=text("false"),
        comment="it knows words of a collaborator: its changes need the owner, whatever its mode",
    ),
    Column(
        "policy_rev",
        SmallInteger,
        nullable=False,
        server_default="0",
        comment="bumped by a resume that sets other limits",
    ),
    Column(
        "steers",
        Integer,
        nullable=False,
        server_default="0",
        comment="corrections accepted, whatever their mode",
    ),
    Column(
        "next_seq", Integer, nullable=False, server_default="1", comment="number of the next event"
    ),
    Column("ring_at", Moment, comment="when the step was last announced to the broker"),
    Column("rings", SmallInteger, nullable=False, server_default="0"),
    Column("not_before", Moment, comment="when a waiting run may go on"),
    Column("answer", Text),
    Column("accepted_at", Moment, nullable=False, server_default=NOW),
    Column("settled_at", Moment),
    one_of("status", RUN_STATUSES),
    one_of("reason", REASONS),
    one_of("pause_reason", REASONS),
    one_of("work", WORKS),
    CheckConstraint("(work = 'held') = (holder IS NOT NULL)", name="held_has_holder"),
    CheckConstraint(
        "work = 'none' OR status IN ('running', 'waiting', 'cancelling')", name="work_is_active"
    ),
    CheckConstraint("work <> 'calls' OR open_calls > 0", name="calls_are_open"),
    CheckConstraint("open_calls >= 0 AND unknowns >= 0", name="counters"),
    CheckConstraint("(pause_reason IS NULL) = (pause_detail IS NULL)", name="pause_in_words"),
    CheckConstraint(
        "open_approvals BETWEEN 0 AND open_calls"
        " AND (open_approvals > 0) = (reason IS NOT DISTINCT FROM 'approval_required')",
        name="open_approvals",
    ),
    CheckConstraint(
        "status <> 'completed' OR (answer IS NOT NULL AND open_calls = 0 AND unknowns = 0)",
        name="completed_has_answer",
    ),
    CheckConstraint(
        "(reason IS NULL) = (status IN ('queued', 'running', 'cancelling', 'completed'))",
        name="reason_of_status",
    ),
    CheckConstraint(
        "(settled_at IS NOT NULL) = (status IN ('paused', 'completed', 'failed', 'cancelled'))",
        name="settled",
    ),
    ForeignKeyConstraint(["thread_id"], ["threads.id"]),
    Index(
        "runs_ready_ix",
        "tenant",
        text("ring_at NULLS FIRST"),
        postgresql_where=text("work = 'ready'"),
    ),
    Index("runs_held_ix", "holder", postgresql_where=text("work = 'held'")),
    Index("runs_queued_ix", "thread_id", "id", postgresql_where=text("status = 'queued'")),
    Index("runs_paused_ix", "reason", postgresql_where=text("status = 'paused'")),
    Index(
        "runs_one_active_uq",
        "thread_id",
        unique=True,
        postgresql_where=text("status IN ('running', 'waiting', 'cancelling')"),
    ),
    Index(None, "tenant", "owner", "id"),
    Index(None, "tenant", "accepted_at", "id"),
    Index(None, "thread_id"),  # removing a thread asks whether a run refers to it
    comment="One request's way through the loop.",
    postgresql_with=HOT_TABLE,
)


run_specs = Table(
    "run_specs",
    metadata,
    id_column("run_id", primary_key=True),
    tenant_column(),
    Column("principal", Text, nullable=False, comment="who asked, from authentication"),
    Column("agent", Text, nullable=False),
    Column("profile", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("wire", Text, nullable=False, server_default="chat", comment="API of the endpoint"),
    Column("instructions", Text, nullable=False),
    Column("policy", Text, nullable=False, comment="expanded policy, JSON text"),
    Column("policy_sha", LargeBinary, nullable=False),
    Column("tools", Text, nullable=False, comment="offered tools with schemas, JSON text"),
    Column("tools_sha", LargeBinary, nullable=False),
    Column("workspace", Text, comment="folder the run's file tools may touch"),
    Column("created_at", Moment, nullable=False, server_default=NOW),
    Column("traceparent", Text, comment="trace of the caller, as W3C Trace Context writes it"),
    Column(
        "window_tokens",
        Integer,
        nullable=False,
        server_default="32000",
        comment="what the model takes and gives in one call",
    ),
    Column(
        "reserve_tokens",
        Integer,
        nullable=False,
        server_default="4096",
        comment="part of it that is kept for the answer",
    ),
    Column(
        "takes_pictures",
        Boolean,
        nullable=False,
        server_default=text("false"),
        comment="its model is shown the pictures of results",
    ),
    one_of("wire", WIRES),
    CheckConstraint(
        "traceparent ~ '^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$'", name="traceparent"
    ),
    CheckConstraint("policy_sha = sha256(convert_to(policy, 'UTF8'))", name="policy_sha"),
    CheckConstraint("tools_sha = sha256(convert_to(tools, 'UTF8'))", name="tools_sha"),
    CheckConstraint("window_tokens > 0 AND reserve_tokens > 0", name="window"),
    ForeignKeyConstraint(["run_id"], ["runs.id"]),
    comment="What was frozen into a run when it was accepted. Only a resume may set other limits.",
)


entries = Table(
    "entries",
    metadata,
    id_column("id", primary_key=True),
    tenant_column(),
    id_column("thread_id"),
    id_column("run_id"),
    Column("kind", Text, nullable=False),
    Column("author", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("created_at", Moment, nullable=False, server_default=NOW),
    one_of("kind", ("request",)),
    ForeignKeyConstraint(["run_id"], ["runs.id"]),
    Index(None, "run_id", "id"),
    Index(None, "thread_id", "run_id"),
    comment="What people wrote, verbatim; the rest of a transcript is replies and evidence.",
)


model_calls = Table(
    "model_calls",
    metadata,
    id_column("run_id", primary_key=True),
    Column("step", Integer, primary_key=True),
    Column("attempt", SmallInteger, primary_key=True),
    tenant_column(),
    Column("fence", BigInteger, nullable=False),
    Column("holder", Id, nullable=False),
    Column("purpose", Text, nullable=False, server_default="main"),
    Column(
        "steers",
        Integer,
        nullable=False,
        server_default="0",
        comment="corrections its request held",
    ),
    Column("state", Text, nullable=False, server_default="open"),
    Column("decision", Text),
    Column("endpoint", Text),
    Column("model", Text, comment="as the endpoint reported it"),
    Column("manifest", Text, comment="what the request was built from, JSON text"),
    Column("request_sha", LargeBinary, comment="sha256 of the body that was sent"),
    Column("reply", Text, comment="the normalised reply, JSON text"),
    Column("error_class", Text),
    Column("input_tokens", BigInteger, comment="NULL is unknown, never zero"),
    Column("output_tokens", BigInteger),
    Column("total_tokens", BigInteger),
    Column("cached_input_tokens", BigInteger),
    Column("reasoning_tokens", BigInteger),
    Column("is_estimated", Boolean, nullable=False, server_default=text("false")),
    Column("opened_at", Moment, nullable=False, server_default=text("clock_timestamp()")),
    Column("closed_at", Moment),
    one_of("state", ("open", "closed", "lost")),
    one_of("purpose", ("main", "compact")),
    one_of("decision", DECISION_KINDS),
    CheckConstraint("decision IS NULL OR state = 'closed'", name="decided_is_closed"),
    CheckConstraint("state <> 'closed' OR reply IS NOT NULL", name="closed_has_reply"),
    CheckConstraint("(closed_at IS NULL) = (state = 'open')", name="closed_at"),
    Index(
        "model_calls_one_decision_uq",
        "run_id",
        "step",
        unique=True,
        postgresql_where=text("decision IN ('answer', 'dispatch')"),
    ),
    # What was used in some days is read from their part of the table. A B-tree would be written to
    # with every attempt; this is a few pages, for rows stand in the order in which they come.
    Index("model_calls_opened_ix", "opened_at", postgresql_using="brin"),
    comment="One row per attempt to get a reply, opened by the claim: no spend is invisible.",
    postgresql_with=HOT_TABLE,
)


events = Table(
    "events",
    metadata,
    id_column("run_id", primary_key=True),
    Column("seq", Integer, primary_key=True, comment="numbered per run without gaps"),
    Column("kind", Text, nullable=False),
    Column("ref", Id, comment="the call, step or delivery it is about"),
    Column("data", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
    Column("fence", BigInteger, nullable=False),
    Column("at", Moment, nullable=False, server_default=text("clock_timestamp()")),
    comment="What happened to a run, in order. Written in the transaction it tells of.",
)
