"""Runs keep the window of their model; summaries stand for the beginning of a transcript."""

from typing import Final

from alembic import op

revision: Final = "0013"
down_revision: Final = "0012"

_UPGRADE: Final = """
ALTER TABLE run_specs
    ADD COLUMN window_tokens integer NOT NULL DEFAULT '32000',
    ADD COLUMN reserve_tokens integer NOT NULL DEFAULT '4096',
    ADD CONSTRAINT run_specs_window CHECK (window_tokens > 0 AND reserve_tokens > 0);
COMMENT ON COLUMN run_specs.window_tokens IS 'what the model takes and gives in one call';
COMMENT ON COLUMN run_specs.reserve_tokens IS 'part of it that is kept for the answer';
CREATE TABLE summaries (
    id text COLLATE "C" NOT NULL,
    tenant text NOT NULL,
    thread_id text COLLATE "C" NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    number integer NOT NULL,
    previous text COLLATE "C",
    step integer NOT NULL,
    attempt smallint,
    kind text NOT NULL,
    first_kept_run text COLLATE "C" NOT NULL,
    first_kept_step integer NOT NULL,
    steers integer NOT NULL,
    text text NOT NULL,
    unresolved text NOT NULL DEFAULT '',
    source_sha bytea,
    created_at timestamp with time zone NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT summaries_pk PRIMARY KEY (id),
    CONSTRAINT summaries_kind CHECK (kind IN ('summary', 'trim')),
    CONSTRAINT summaries_written_by CHECK (kind = 'trim' OR attempt IS NOT NULL),
    CONSTRAINT summaries_previous CHECK (previous IS NOT NULL OR number = 1),
    CONSTRAINT summaries_run_id_number_uq UNIQUE (run_id, number),
    CONSTRAINT summaries_run_id_fk FOREIGN KEY (run_id) REFERENCES runs (id)
);
COMMENT ON TABLE summaries IS
    'What stands in a request for the steps before the first that is kept.';
COMMENT ON COLUMN summaries.tenant IS 'who the row belongs to';
COMMENT ON COLUMN summaries.run_id IS 'whose requests it is in';
COMMENT ON COLUMN summaries.number IS 'counted per run from 1';
COMMENT ON COLUMN summaries.previous IS 'the summary that is merged into it';
COMMENT ON COLUMN summaries.step IS 'the step whose request first held it';
COMMENT ON COLUMN summaries.attempt IS 'the model call that wrote it; NULL: a plain cut';
COMMENT ON COLUMN summaries.first_kept_run IS 'everything before this run and step is left out';
COMMENT ON COLUMN summaries.steers IS
    'corrections of that run before that step: they stay, verbatim';
COMMENT ON COLUMN summaries.unresolved IS
    'changes that are left out and whose outcome nobody knew';
COMMENT ON COLUMN summaries.source_sha IS 'sha256 of what it was written from';
"""

_DOWNGRADE: Final = """
DROP TABLE summaries;
ALTER TABLE run_specs DROP CONSTRAINT run_specs_window;
ALTER TABLE run_specs DROP COLUMN reserve_tokens, DROP COLUMN window_tokens;
"""


def upgrade() -> None:
    op.execute(_UPGRADE)


def downgrade() -> None:
    op.execute(_DOWNGRADE)
