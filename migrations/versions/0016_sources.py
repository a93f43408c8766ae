"""Sources of results, notices that they changed, and results that are read again."""

from typing import Final

from alembic import op

revision: Final = "0016"
down_revision: Final = "0015"

_UPGRADE: Final = """
CREATE TABLE sources (
    tenant text NOT NULL,
    source text NOT NULL,
    seq integer NOT NULL,
    revision text,
    is_deleted boolean NOT NULL,
    reason text NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    told_seq integer NOT NULL DEFAULT 0,
    told_run text COLLATE "C" NOT NULL DEFAULT '',
    CONSTRAINT sources_pk PRIMARY KEY (tenant, source),
    CONSTRAINT sources_counted CHECK (seq >= 1 AND told_seq BETWEEN 0 AND seq)
);
CREATE INDEX sources_untold_ix ON sources (changed_at) WHERE told_seq < seq;
COMMENT ON TABLE sources IS 'Things outside that results rest on, once somebody has said that they changed.';
COMMENT ON COLUMN sources.tenant IS 'who the row belongs to';
COMMENT ON COLUMN sources.source IS 'kind:id';
COMMENT ON COLUMN sources.seq IS 'notices that brought news, counted from 1';
COMMENT ON COLUMN sources.revision IS 'as the last notice said it; NULL: it did not say';
COMMENT ON COLUMN sources.reason IS 'what the last notice said beside it';
COMMENT ON COLUMN sources.told_seq IS 'the notice that every run which rests on it has been told of';
COMMENT ON COLUMN sources.told_run IS 'of a newer notice, the last run told so far';

CREATE TABLE evidence_sources (
    call_id text COLLATE "C" NOT NULL,
    source text NOT NULL,
    tenant text NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    thread_id text COLLATE "C" NOT NULL,
    revision text,
    seen_seq integer NOT NULL DEFAULT 0,
    named_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT evidence_sources_pk PRIMARY KEY (call_id, source)
);
CREATE INDEX evidence_sources_tenant_source_ix ON evidence_sources (tenant, source);
CREATE INDEX evidence_sources_thread_id_ix ON evidence_sources (thread_id);
CREATE INDEX evidence_sources_run_id_ix ON evidence_sources (run_id);
COMMENT ON TABLE evidence_sources IS 'Which sources, in which revision, a result rests on.';
COMMENT ON COLUMN evidence_sources.call_id IS 'the evidence that rests on it';
COMMENT ON COLUMN evidence_sources.source IS 'kind:id';
COMMENT ON COLUMN evidence_sources.tenant IS 'who the row belongs to';
COMMENT ON COLUMN evidence_sources.revision IS 'as the tool named it; NULL: gone, or not read yet';
COMMENT ON COLUMN evidence_sources.seen_seq IS 'notices that were known before it was read';

ALTER TABLE runs ADD COLUMN stale_step integer;
COMMENT ON COLUMN runs.stale_step IS 'from this step on: whether sources have changed is looked at before it is asked';

ALTER TABLE calls ADD COLUMN refreshes text COLLATE "C";
ALTER TABLE calls ADD COLUMN refresh_no smallint;
ALTER TABLE calls ADD CONSTRAINT calls_refresh CHECK ((refreshes IS NULL) = (refresh_no IS NULL) AND (refreshes IS NULL) = (position > 0));
ALTER TABLE calls ADD CONSTRAINT calls_refresh_reads CHECK (refreshes IS NULL OR effect <> 'mutation');
CREATE UNIQUE INDEX calls_refreshes_uq ON calls (refreshes, refresh_no) WHERE refreshes IS NOT NULL;
CREATE INDEX calls_refreshed_ix ON calls (run_id) WHERE refreshes IS NOT NULL;
COMMENT ON COLUMN calls.position IS 'as the model asked, from 1; below 0: read again before it is asked';
COMMENT ON COLUMN calls.refreshes IS 'the call whose result it reads again';
COMMENT ON COLUMN calls.refresh_no IS 'counted per result from 1: the last one counts';
"""  # noqa: E501
_DOWNGRADE: Final = """
DELETE FROM evidence WHERE call_id IN (SELECT id FROM calls WHERE refreshes IS NOT NULL);
DELETE FROM calls WHERE refreshes IS NOT NULL;
DROP INDEX calls_refreshed_ix;
DROP INDEX calls_refreshes_uq;
ALTER TABLE calls DROP CONSTRAINT calls_refresh_reads;
ALTER TABLE calls DROP CONSTRAINT calls_refresh;
ALTER TABLE calls DROP COLUMN refresh_no;
ALTER TABLE calls DROP COLUMN refreshes;
COMMENT ON COLUMN calls.position IS 'order in which the model asked, from 1';
ALTER TABLE runs DROP COLUMN stale_step;
DROP TABLE evidence_sources;
DROP TABLE sources;
"""


def upgrade() -> None:
    op.execute(_UPGRADE)


def downgrade() -> None:
    op.execute(_DOWNGRADE)
