"""What owners may do to a run: correct it, stop it, say how an unknown change ended."""

from typing import Final

from alembic import op

revision: Final = "0004"
down_revision: Final = "0003"

_UPGRADE: Final = """
CREATE TABLE steers (
    id text COLLATE "C" NOT NULL,
    tenant text NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    rev integer NOT NULL,
    author text NOT NULL,
    mode text NOT NULL,
    text text NOT NULL,
    state text NOT NULL DEFAULT 'accepted',
    created_at timestamptz NOT NULL DEFAULT now(),
    settled_at timestamptz,
    CONSTRAINT steers_pk PRIMARY KEY (id),
    CONSTRAINT steers_run_id_rev_uq UNIQUE (run_id, rev),
    CONSTRAINT steers_mode CHECK (mode IN ('redirect', 'append')),
    CONSTRAINT steers_state CHECK (state IN ('accepted', 'applied', 'deferred', 'returned')),
    CONSTRAINT steers_settled CHECK ((settled_at IS NULL) = (state = 'accepted')),
    CONSTRAINT steers_run_id_fk FOREIGN KEY (run_id) REFERENCES runs (id)
);
CREATE INDEX steers_accepted_ix ON steers (run_id) WHERE state = 'accepted';
COMMENT ON TABLE steers IS 'Corrections of a run by people: what was accepted is never lost.';
COMMENT ON COLUMN steers.tenant IS 'who the row belongs to';
COMMENT ON COLUMN steers.rev IS 'counted per run from 1';
COMMENT ON COLUMN steers.state IS 'applied: a request held it; returned: the run ended without';

ALTER TABLE runs ADD COLUMN steers integer NOT NULL DEFAULT '0';
ALTER TABLE runs ADD COLUMN quarantine jsonb;
COMMENT ON COLUMN runs.steers IS 'corrections accepted, whatever their mode';
COMMENT ON COLUMN runs.quarantine IS 'changes that may not be sent again yet: tool, hash, until';
ALTER TABLE model_calls ADD COLUMN steers integer NOT NULL DEFAULT '0';
COMMENT ON COLUMN model_calls.steers IS 'corrections its request held';

ALTER TABLE receipts ADD COLUMN verified text;
ALTER TABLE receipts ADD COLUMN verified_by text;
ALTER TABLE receipts ADD COLUMN verified_at timestamptz;
ALTER TABLE receipts ADD COLUMN verified_text text;
ALTER TABLE receipts ADD COLUMN late_outcome text;
ALTER TABLE receipts ADD COLUMN late_body text;
ALTER TABLE receipts ADD CONSTRAINT receipts_verified
    CHECK (verified IN ('happened', 'not_happened', 'partial'));
ALTER TABLE receipts ADD CONSTRAINT receipts_verified_by_somebody CHECK (
    (verified IS NULL) = (verified_at IS NULL) AND (verified IS NULL) = (verified_by IS NULL)
    AND (verified IS NULL) = (verified_text IS NULL));
ALTER TABLE receipts ADD CONSTRAINT receipts_verified_is_unknown
    CHECK (verified IS NULL OR outcome IS NOT DISTINCT FROM 'unknown');
ALTER TABLE receipts ADD CONSTRAINT receipts_late_outcome
    CHECK (late_outcome IN ('done', 'not_done'));
ALTER TABLE receipts ADD CONSTRAINT receipts_late_is_verified
    CHECK (late_outcome IS NULL OR verified IS NOT NULL);
DROP INDEX receipts_unknown_ix;
CREATE INDEX receipts_unknown_ix ON receipts (tenant)
    WHERE outcome = 'unknown' AND verified IS NULL;
COMMENT ON COLUMN receipts.verified IS 'what the owner found out about an unknown outcome';
COMMENT ON COLUMN receipts.late_outcome IS 'what the tool reported after the owner had spoken';
"""
_DOWNGRADE: Final = """
DROP INDEX receipts_unknown_ix;
ALTER TABLE receipts DROP COLUMN late_body, DROP COLUMN late_outcome, DROP COLUMN verified_text,
    DROP COLUMN verified_at, DROP COLUMN verified_by, DROP COLUMN verified;
CREATE INDEX receipts_unknown_ix ON receipts (tenant) WHERE outcome = 'unknown';
ALTER TABLE model_calls DROP COLUMN steers;
ALTER TABLE runs DROP COLUMN quarantine, DROP COLUMN steers;
DROP TABLE steers;
"""


def upgrade() -> None:
    op.execute(_UPGRADE)


def downgrade() -> None:
    op.execute(_DOWNGRADE)
