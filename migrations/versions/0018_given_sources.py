"""Texts that are given to a run beside its request."""

from typing import Final

from alembic import op

revision: Final = "0018"
down_revision: Final = "0017"

_UPGRADE: Final = """
ALTER TABLE sources ADD COLUMN text text;
COMMENT ON COLUMN sources.text IS 'what it says now, if the last notice brought that';

CREATE TABLE given_sources (
    run_id text COLLATE "C" NOT NULL,
    source text NOT NULL,
    source_rev integer NOT NULL,
    tenant text NOT NULL,
    thread_id text COLLATE "C" NOT NULL,
    place integer NOT NULL,
    author text NOT NULL,
    text text,
    gap text,
    reason text NOT NULL DEFAULT '',
    seen_seq integer NOT NULL,
    step integer NOT NULL,
    given_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT given_sources_pk PRIMARY KEY (run_id, source, source_rev),
    CONSTRAINT given_sources_gap CHECK (gap IN ('deleted', 'unreadable')),
    CONSTRAINT given_sources_shown CHECK ((text IS NULL) = (gap IS NOT NULL))
);
CREATE INDEX given_sources_tenant_source_ix ON given_sources (tenant, source);
CREATE INDEX given_sources_thread_id_ix ON given_sources (thread_id);
COMMENT ON TABLE given_sources IS 'Texts given to a run beside its request, as each of its requests has shown them.';
COMMENT ON COLUMN given_sources.source IS 'kind:id';
COMMENT ON COLUMN given_sources.source_rev IS 'from this source revision of the run on, it is shown so';
COMMENT ON COLUMN given_sources.tenant IS 'who the row belongs to';
COMMENT ON COLUMN given_sources.place IS 'in the order in which they were given';
COMMENT ON COLUMN given_sources.text IS 'NULL: there is nothing to show any more';
COMMENT ON COLUMN given_sources.gap IS 'why';
COMMENT ON COLUMN given_sources.reason IS 'in words';
COMMENT ON COLUMN given_sources.seen_seq IS 'notices that it knows of';
COMMENT ON COLUMN given_sources.step IS 'where the run stood when it changed';
"""  # noqa: E501


def upgrade() -> None:
    op.execute(_UPGRADE)


def downgrade() -> None:
    op.execute("DROP TABLE given_sources; ALTER TABLE sources DROP COLUMN text")
