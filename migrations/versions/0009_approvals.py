"""Approvals of calls by their owner, and rules of authority that stand above every run."""

from typing import Final

from alembic import op

revision: Final = "0009"
down_revision: Final = "0008"

_UPGRADE: Final = """
CREATE TABLE authority (
    tenant text NOT NULL,
    rev integer NOT NULL,
    scope text NOT NULL,
    name text NOT NULL,
    permission text NOT NULL,
    said_by text NOT NULL,
    why text NOT NULL,
    said_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT authority_pk PRIMARY KEY (tenant, rev),
    CONSTRAINT authority_scope CHECK (scope IN ('tenant', 'user', 'tool', 'target')),
    CONSTRAINT authority_permission CHECK (permission IN ('allow', 'ask', 'deny')),
    CONSTRAINT authority_name CHECK ((name = '') = (scope = 'tenant'))
);
COMMENT ON TABLE authority IS 'What runs of a tenant may do, whatever their mode: of each thing the last row counts. Never updated.';
COMMENT ON COLUMN authority.tenant IS 'who the row belongs to';
COMMENT ON COLUMN authority.rev IS 'counted per tenant from 1';
COMMENT ON COLUMN authority.name IS 'user, tool or target; empty for the tenant';

CREATE TABLE approvals (
    id text COLLATE "C" NOT NULL,
    tenant text NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    call_id text COLLATE "C" NOT NULL,
    word text NOT NULL,
    said_by text,
    words text NOT NULL,
    tool text NOT NULL,
    tool_version text NOT NULL,
    args_sha bytea NOT NULL,
    steer_rev integer NOT NULL,
    source_rev integer NOT NULL,
    said_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT approvals_pk PRIMARY KEY (id),
    CONSTRAINT approvals_call_id_word_uq UNIQUE (call_id, word),
    CONSTRAINT approvals_word CHECK (word IN ('granted', 'denied', 'expired')),
    CONSTRAINT approvals_said_by CHECK ((said_by IS NULL) = (word = 'expired')),
    CONSTRAINT approvals_run_id_fk FOREIGN KEY (run_id) REFERENCES runs (id)
);
CREATE INDEX approvals_run_id_ix ON approvals (run_id);
COMMENT ON TABLE approvals IS 'What owners said about calls that asked for approval. Never updated: the call itself says what it may.';
COMMENT ON COLUMN approvals.tenant IS 'who the row belongs to';
COMMENT ON COLUMN approvals.said_by IS 'NULL: time ran out';
COMMENT ON COLUMN approvals.words IS 'what the owner said beside it';
COMMENT ON COLUMN approvals.args_sha IS 'of the bytes it is about';

ALTER TABLE calls ADD COLUMN needs_approval boolean NOT NULL DEFAULT false;
ALTER TABLE calls ADD COLUMN approved_sha bytea;
ALTER TABLE calls ADD COLUMN approval_until timestamptz;
ALTER TABLE calls ADD CONSTRAINT calls_asked
    CHECK (state <> 'awaiting_approval' OR needs_approval);
ALTER TABLE calls ADD CONSTRAINT calls_approved_first CHECK (
    NOT needs_approval OR approved_sha IS NOT NULL
    OR state NOT IN ('planned', 'ready', 'started', 'returned', 'unknown'));
ALTER TABLE calls ADD CONSTRAINT calls_approved_sha CHECK (
    approved_sha IS NULL
    OR (needs_approval AND approved_sha = args_sha AND approval_until IS NOT NULL));
CREATE INDEX calls_approval_ix ON calls (tenant, approval_until)
    WHERE needs_approval AND settled_at IS NULL;
COMMENT ON COLUMN calls.needs_approval IS 'it starts only with its owner''s approval';
COMMENT ON COLUMN calls.approved_sha IS 'hash of the bytes that its owner approved';
COMMENT ON COLUMN calls.approval_until IS 'until when it may be decided, once approved: started; NULL: no limit';

ALTER TABLE runs ADD COLUMN open_approvals integer NOT NULL DEFAULT '0';
ALTER TABLE runs ADD CONSTRAINT runs_open_approvals CHECK (
    open_approvals BETWEEN 0 AND open_calls
    AND (open_approvals > 0) = (reason IS NOT DISTINCT FROM 'approval_required'));
COMMENT ON COLUMN runs.open_approvals IS 'calls of the step that wait for the owner''s approval';
"""  # noqa: E501 - a comment is one line

_DOWNGRADE: Final = """
ALTER TABLE runs DROP COLUMN open_approvals;
DROP INDEX calls_approval_ix;
ALTER TABLE calls DROP COLUMN approval_until, DROP COLUMN approved_sha, DROP COLUMN needs_approval;
DROP TABLE approvals;
DROP TABLE authority;
"""


def upgrade() -> None:
    op.execute(_UPGRADE)


def downgrade() -> None:
    op.execute(_DOWNGRADE)
