"""Who works, what was asked, where a run stands, what the model said."""

from typing import Final

from alembic import op

revision: Final = "0001"
down_revision: Final = None

_UPGRADE: Final = """
CREATE TABLE workers (
    id text COLLATE "C" NOT NULL,
    node text NOT NULL,
    role text NOT NULL,
    pool text NOT NULL,
    pid integer NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now(),
    beat_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT workers_pk PRIMARY KEY (id)
) WITH (fillfactor = 50);
CREATE INDEX workers_node_ix ON workers (node);
COMMENT ON TABLE workers IS
    'The only liveness the database believes: a row per process, beaten every few seconds.';
COMMENT ON COLUMN workers.id IS 'one process, one boot';
COMMENT ON COLUMN workers.node IS 'machine and worker name; one living process tree';

CREATE TABLE threads (
    id text COLLATE "C" NOT NULL,
    tenant text NOT NULL,
    owner text NOT NULL,
    location text NOT NULL DEFAULT '',
    visibility text NOT NULL DEFAULT 'private',
    title text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT threads_pk PRIMARY KEY (id),
    CONSTRAINT threads_visibility CHECK (visibility IN ('private', 'public'))
);
CREATE INDEX threads_tenant_owner_id_ix ON threads (tenant, owner, id);
COMMENT ON TABLE threads IS 'The owned, durable piece of work.';
COMMENT ON COLUMN threads.tenant IS 'who the row belongs to';
COMMENT ON COLUMN threads.location IS 'where the owner speaks';

CREATE TABLE runs (
    id text COLLATE "C" NOT NULL,
    tenant text NOT NULL,
    thread_id text COLLATE "C" NOT NULL,
    owner text NOT NULL,
    status text NOT NULL,
    reason text,
    detail text,
    work text NOT NULL,
    step integer NOT NULL DEFAULT '1',
    attempts smallint NOT NULL DEFAULT '0',
    losses smallint NOT NULL DEFAULT '0',
    failures smallint NOT NULL DEFAULT '0',
    corrections smallint NOT NULL DEFAULT '0',
    fence bigint NOT NULL DEFAULT '0',
    holder text COLLATE "C",
    open_calls integer NOT NULL DEFAULT '0',
    unknowns integer NOT NULL DEFAULT '0',
    calls_used integer NOT NULL DEFAULT '0',
    steer_rev integer NOT NULL DEFAULT '0',
    source_rev integer NOT NULL DEFAULT '0',
    auth_rev integer NOT NULL DEFAULT '0',
    stop_at timestamptz,
    next_seq integer NOT NULL DEFAULT '1',
    ring_at timestamptz,
    rings smallint NOT NULL DEFAULT '0',
    not_before timestamptz,
    answer text,
    accepted_at timestamptz NOT NULL DEFAULT now(),
    settled_at timestamptz,
    CONSTRAINT runs_pk PRIMARY KEY (id),
    CONSTRAINT runs_status CHECK (status IN ('queued', 'running', 'waiting', 'paused',
        'cancelling', 'completed', 'failed', 'cancelled')),
    CONSTRAINT runs_reason CHECK (reason IN ('approval_required', 'provider_retry', 'child_run',
        'unknown_outcome', 'tool_call_limit', 'iteration_limit', 'context_capacity', 'stall',
        'repeated_failure', 'empty_response', 'credentials', 'provider_error', 'lost_worker',
        'owner_stop', 'budget_exhausted', 'contract_mismatch', 'persistence_failed',
        'corrupt_record')),
    CONSTRAINT runs_work CHECK (work IN ('none', 'ready', 'held', 'calls')),
    CONSTRAINT runs_held_has_holder CHECK ((work = 'held') = (holder IS NOT NULL)),
    CONSTRAINT runs_work_is_active CHECK (work = 'none' OR status IN ('running', 'waiting',
        'cancelling')),
    CONSTRAINT runs_calls_are_open CHECK (work <> 'calls' OR open_calls > 0),
    CONSTRAINT runs_counters CHECK (open_calls >= 0 AND unknowns >= 0),
    CONSTRAINT runs_completed_has_answer CHECK (status <> 'completed' OR (answer IS NOT NULL AND
        open_calls = 0 AND unknowns = 0)),
    CONSTRAINT runs_reason_of_status CHECK ((reason IS NULL) = (status IN ('queued', 'running',
        'cancelling', 'completed'))),
    CONSTRAINT runs_settled CHECK ((settled_at IS NOT NULL) = (status IN ('paused', 'completed',
        'failed', 'cancelled'))),
    CONSTRAINT runs_thread_id_fk FOREIGN KEY(thread_id) REFERENCES threads (id)
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX runs_held_ix ON runs (holder) WHERE work = 'held';
CREATE UNIQUE INDEX runs_one_active_uq ON runs (thread_id) WHERE status IN ('running', 'waiting',
    'cancelling');
CREATE INDEX runs_queued_ix ON runs (thread_id, id) WHERE status = 'queued';
CREATE INDEX runs_ready_ix ON runs (ring_at NULLS FIRST) WHERE work = 'ready';
CREATE INDEX runs_tenant_owner_id_ix ON runs (tenant, owner, id);
COMMENT ON TABLE runs IS 'One request''s way through the loop.';
COMMENT ON COLUMN runs.tenant IS 'who the row belongs to';
COMMENT ON COLUMN runs.status IS 'what people are told';
COMMENT ON COLUMN runs.reason IS 'why it waits, is paused, failed or was cancelled';
COMMENT ON COLUMN runs.detail IS 'the reason in words, with the next action';
COMMENT ON COLUMN runs.work IS 'who acts next: nobody, anyone, its holder, its calls';
COMMENT ON COLUMN runs.attempts IS 'claims of this step';
COMMENT ON COLUMN runs.losses IS 'holders lost in this step';
COMMENT ON COLUMN runs.failures IS 'failed replies in this step';
COMMENT ON COLUMN runs.corrections IS 'steps in a row in which no call could be run';
COMMENT ON COLUMN runs.fence IS 'bumped by claim and takeover';
COMMENT ON COLUMN runs.holder IS 'the worker that holds the run now';
COMMENT ON COLUMN runs.open_calls IS 'calls of the step not settled';
COMMENT ON COLUMN runs.unknowns IS 'changes whose outcome nobody knows';
COMMENT ON COLUMN runs.next_seq IS 'number of the next event';
COMMENT ON COLUMN runs.ring_at IS 'when the step was last announced to the broker';
COMMENT ON COLUMN runs.not_before IS 'when a waiting run may go on';

CREATE TABLE run_specs (
    run_id text COLLATE "C" NOT NULL,
    tenant text NOT NULL,
    principal text NOT NULL,
    agent text NOT NULL,
    profile text NOT NULL,
    model text NOT NULL,
    wire text NOT NULL DEFAULT 'chat',
    instructions text NOT NULL,
    policy text NOT NULL,
    policy_sha bytea NOT NULL,
    tools text NOT NULL,
    tools_sha bytea NOT NULL,
    workspace text,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT run_specs_pk PRIMARY KEY (run_id),
    CONSTRAINT run_specs_wire CHECK (wire IN ('chat', 'responses')),
    CONSTRAINT run_specs_policy_sha CHECK (policy_sha = sha256(convert_to(policy, 'UTF8'))),
    CONSTRAINT run_specs_tools_sha CHECK (tools_sha = sha256(convert_to(tools, 'UTF8'))),
    CONSTRAINT run_specs_run_id_fk FOREIGN KEY(run_id) REFERENCES runs (id)
);
COMMENT ON TABLE run_specs IS 'What was frozen into a run when it was accepted. Never updated.';
COMMENT ON COLUMN run_specs.tenant IS 'who the row belongs to';
COMMENT ON COLUMN run_specs.principal IS 'who asked, from authentication';
COMMENT ON COLUMN run_specs.wire IS 'API of the endpoint';
COMMENT ON COLUMN run_specs.policy IS 'expanded policy, JSON text';
COMMENT ON COLUMN run_specs.tools IS 'offered tools with schemas, JSON text';
COMMENT ON COLUMN run_specs.workspace IS 'folder the run''s file tools may touch';

CREATE TABLE entries (
    id text COLLATE "C" NOT NULL,
    tenant text NOT NULL,
    thread_id text COLLATE "C" NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    author text NOT NULL,
    text text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT entries_pk PRIMARY KEY (id),
    CONSTRAINT entries_kind CHECK (kind IN ('request')),
    CONSTRAINT entries_run_id_fk FOREIGN KEY(run_id) REFERENCES runs (id)
);
CREATE INDEX entries_run_id_id_ix ON entries (run_id, id);
COMMENT ON TABLE entries IS
    'What people wrote, verbatim; the rest of a transcript is replies and evidence.';
COMMENT ON COLUMN entries.tenant IS 'who the row belongs to';

CREATE TABLE model_calls (
    run_id text COLLATE "C" NOT NULL,
    step integer NOT NULL,
    attempt smallint NOT NULL,
    tenant text NOT NULL,
    fence bigint NOT NULL,
    holder text COLLATE "C" NOT NULL,
    purpose text NOT NULL DEFAULT 'main',
    state text NOT NULL DEFAULT 'open',
    decision text,
    endpoint text,
    model text,
    manifest text,
    request_sha bytea,
    reply text,
    error_class text,
    input_tokens bigint,
    output_tokens bigint,
    total_tokens bigint,
    cached_input_tokens bigint,
    reasoning_tokens bigint,
    is_estimated boolean NOT NULL DEFAULT false,
    opened_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    closed_at timestamptz,
    CONSTRAINT model_calls_pk PRIMARY KEY (run_id, step, attempt),
    CONSTRAINT model_calls_state CHECK (state IN ('open', 'closed', 'lost')),
    CONSTRAINT model_calls_purpose CHECK (purpose IN ('main', 'compact')),
    CONSTRAINT model_calls_decision CHECK (decision IN ('answer', 'dispatch', 'retry', 'pause',
        'discard')),
    CONSTRAINT model_calls_decided_is_closed CHECK (decision IS NULL OR state = 'closed'),
    CONSTRAINT model_calls_closed_has_reply CHECK (state <> 'closed' OR reply IS NOT NULL),
    CONSTRAINT model_calls_closed_at CHECK ((closed_at IS NULL) = (state = 'open'))
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02);
CREATE UNIQUE INDEX model_calls_one_decision_uq ON model_calls (run_id, step) WHERE decision IN
    ('answer', 'dispatch');
COMMENT ON TABLE model_calls IS
    'One row per attempt to get a reply, opened by the claim: no spend is invisible.';
COMMENT ON COLUMN model_calls.tenant IS 'who the row belongs to';
COMMENT ON COLUMN model_calls.model IS 'as the endpoint reported it';
COMMENT ON COLUMN model_calls.manifest IS 'what the request was built from, JSON text';
COMMENT ON COLUMN model_calls.request_sha IS 'sha256 of the body that was sent';
COMMENT ON COLUMN model_calls.reply IS 'the normalised reply, JSON text';
COMMENT ON COLUMN model_calls.input_tokens IS 'NULL is unknown, never zero';

CREATE TABLE events (
    run_id text COLLATE "C" NOT NULL,
    seq integer NOT NULL,
    kind text NOT NULL,
    ref text COLLATE "C",
    data jsonb NOT NULL DEFAULT '{}'::jsonb,
    fence bigint NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT events_pk PRIMARY KEY (run_id, seq)
);
COMMENT ON TABLE events IS
    'What happened to a run, in order. Written in the transaction it tells of.';
COMMENT ON COLUMN events.seq IS 'numbered per run without gaps';
COMMENT ON COLUMN events.ref IS 'the call, step or delivery it is about';
"""
_DOWNGRADE: Final = """
DROP TABLE events, model_calls, entries, run_specs, runs, threads, workers;
"""


def upgrade() -> None:
    op.execute(_UPGRADE)


def downgrade() -> None:
    op.execute(_DOWNGRADE)
