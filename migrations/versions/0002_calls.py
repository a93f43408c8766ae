"""Tool calls, receipts, evidence, deliveries."""

from typing import Final

from alembic import op

revision: Final = "0002"
down_revision: Final = "0001"

_UPGRADE: Final = """
CREATE TABLE calls (
    id text COLLATE "C" NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    tenant text NOT NULL,
    step integer NOT NULL,
    position smallint NOT NULL,
    model_id text NOT NULL,
    tool text NOT NULL,
    tool_version text NOT NULL,
    effect text NOT NULL,
    placement text NOT NULL,
    state text NOT NULL,
    args_text text,
    args_sha bytea,
    steer_rev integer NOT NULL,
    source_rev integer NOT NULL,
    auth_rev integer NOT NULL,
    attempt smallint NOT NULL DEFAULT '0',
    holder text COLLATE "C",
    stall_seconds double precision NOT NULL,
    deadline_at timestamptz,
    started_at timestamptz,
    settled_at timestamptz,
    ring_at timestamptz,
    rings smallint NOT NULL DEFAULT '0',
    CONSTRAINT calls_pk PRIMARY KEY (id),
    CONSTRAINT calls_effect CHECK (effect IN ('read', 'idempotent', 'mutation')),
    CONSTRAINT calls_placement CHECK (placement IN ('inline', 'task')),
    CONSTRAINT calls_state CHECK (state IN ('planned', 'awaiting_approval', 'ready', 'started',
        'returned', 'refused', 'errored', 'skipped', 'unknown')),
    CONSTRAINT calls_run_id_step_position_uq UNIQUE (run_id, step, position),
    CONSTRAINT calls_mutation_is_task CHECK (effect <> 'mutation' OR placement = 'task'),
    CONSTRAINT calls_started_has_holder CHECK (state <> 'started' OR (holder IS NOT NULL AND
        started_at IS NOT NULL AND attempt > 0)),
    CONSTRAINT calls_deadline CHECK (state <> 'started' OR effect <> 'mutation' OR deadline_at IS
        NOT NULL),
    CONSTRAINT calls_mutation_once CHECK (effect <> 'mutation' OR attempt <= 1),
    CONSTRAINT calls_settled CHECK ((settled_at IS NOT NULL) = (state IN ('returned', 'refused',
        'errored', 'skipped', 'unknown'))),
    CONSTRAINT calls_args_known CHECK (args_text IS NOT NULL OR state IN ('refused', 'errored',
        'skipped')),
    CONSTRAINT calls_args_sha CHECK ((args_text IS NULL) = (args_sha IS NULL) AND (args_text IS
        NULL OR args_sha = sha256(convert_to(args_text, 'UTF8'))))
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX calls_ready_ix ON calls (ring_at NULLS FIRST) WHERE state = 'ready';
CREATE INDEX calls_started_ix ON calls (holder) WHERE state = 'started';
COMMENT ON TABLE calls IS 'One tool call of a step.';
COMMENT ON COLUMN calls.id IS 'also the Celery task id and the evidence handle';
COMMENT ON COLUMN calls.tenant IS 'who the row belongs to';
COMMENT ON COLUMN calls.position IS 'order in which the model asked, from 1';
COMMENT ON COLUMN calls.model_id IS 'the id the model gave';
COMMENT ON COLUMN calls.args_text IS 'the exact bytes that are hashed, shown, approved and sent';
COMMENT ON COLUMN calls.holder IS 'the worker that runs it, or ran it last';
COMMENT ON COLUMN calls.deadline_at IS 'last progress and the tool''s allowed silence';

CREATE TABLE receipts (
    call_id text COLLATE "C" NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    tenant text NOT NULL,
    attempt smallint NOT NULL,
    args_text text NOT NULL,
    args_sha bytea NOT NULL,
    intent_seq integer NOT NULL,
    intent_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    outcome text,
    is_late boolean NOT NULL DEFAULT false,
    resources jsonb,
    closed_at timestamptz,
    CONSTRAINT receipts_pk PRIMARY KEY (call_id),
    CONSTRAINT receipts_outcome CHECK (outcome IN ('done', 'not_done', 'unknown')),
    CONSTRAINT receipts_closed CHECK ((outcome IS NULL) = (closed_at IS NULL)),
    CONSTRAINT receipts_args_sha CHECK (args_sha = sha256(convert_to(args_text, 'UTF8')))
);
CREATE INDEX receipts_run_id_ix ON receipts (run_id);
CREATE INDEX receipts_unknown_ix ON receipts (tenant) WHERE outcome = 'unknown';
COMMENT ON TABLE receipts IS
    'A change to the outside world: intent first, outcome when it is known.';
COMMENT ON COLUMN receipts.call_id IS 'one intent per call, ever: the primary key says so';
COMMENT ON COLUMN receipts.tenant IS 'who the row belongs to';
COMMENT ON COLUMN receipts.intent_seq IS 'event that recorded the intent';
COMMENT ON COLUMN receipts.outcome IS 'NULL: sent or about to be, not heard of yet';
COMMENT ON COLUMN receipts.resources IS 'ids the outside system returned';

CREATE TABLE evidence (
    call_id text COLLATE "C" NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    thread_id text COLLATE "C" NOT NULL,
    tenant text NOT NULL,
    body text NOT NULL,
    view text NOT NULL,
    sha256 bytea NOT NULL,
    total_chars bigint NOT NULL,
    is_escaped boolean NOT NULL DEFAULT false,
    stored_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT evidence_pk PRIMARY KEY (call_id),
    CONSTRAINT evidence_sha256 CHECK (sha256 = sha256(convert_to(body, 'UTF8')))
);
CREATE INDEX evidence_run_id_ix ON evidence (run_id);
COMMENT ON TABLE evidence IS 'The full, immutable result of a call.';
COMMENT ON COLUMN evidence.call_id IS 'the handle';
COMMENT ON COLUMN evidence.tenant IS 'who the row belongs to';
COMMENT ON COLUMN evidence.body IS 'the whole result, JSON text';
COMMENT ON COLUMN evidence.view IS 'what the prompt shows of it';

CREATE TABLE deliveries (
    id text COLLATE "C" NOT NULL,
    tenant text NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    recipient text NOT NULL,
    destination text NOT NULL,
    kind text NOT NULL,
    state text NOT NULL,
    body text NOT NULL,
    external_id text,
    created_at timestamptz NOT NULL DEFAULT now(),
    delivered_at timestamptz,
    CONSTRAINT deliveries_pk PRIMARY KEY (id),
    CONSTRAINT deliveries_kind CHECK (kind IN ('text')),
    CONSTRAINT deliveries_state CHECK (state IN ('delivered')),
    CONSTRAINT deliveries_run_id_destination_uq UNIQUE (run_id, destination),
    CONSTRAINT deliveries_run_id_fk FOREIGN KEY(run_id) REFERENCES runs (id)
);
CREATE INDEX deliveries_tenant_recipient_id_ix ON deliveries (tenant, recipient, id);
COMMENT ON TABLE deliveries IS 'An answer on its way to a person: once per run and destination.';
COMMENT ON COLUMN deliveries.tenant IS 'who the row belongs to';
COMMENT ON COLUMN deliveries.destination IS '`inbox`, or the name of an adapter';
COMMENT ON COLUMN deliveries.external_id IS 'the message id at the destination';
"""
_DOWNGRADE: Final = """
DROP TABLE deliveries, evidence, receipts, calls;
"""


def upgrade() -> None:
    op.execute(_UPGRADE)


def downgrade() -> None:
    op.execute(_DOWNGRADE)
