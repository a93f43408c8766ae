"""Counts of all processes for Prometheus, and counting paused runs without reading settled ones."""

from typing import Final

from alembic import op

revision: Final = "0003"
down_revision: Final = "0002"

_UPGRADE: Final = """
CREATE TABLE tallies (
    name text COLLATE "C" NOT NULL,
    labels text COLLATE "C" NOT NULL,
    n double precision NOT NULL,
    CONSTRAINT tallies_pk PRIMARY KEY (name, labels),
    CONSTRAINT tallies_grows CHECK (n >= 0)
) WITH (fillfactor = 50);
COMMENT ON TABLE tallies IS
    'Sums for Prometheus: they only grow, and survive the processes that counted.';
COMMENT ON COLUMN tallies.name IS 'the metric, of a histogram with its part';
COMMENT ON COLUMN tallies.labels IS 'JSON object with sorted keys';

CREATE INDEX runs_paused_ix ON runs (reason) WHERE status = 'paused';
"""
_DOWNGRADE: Final = """
DROP INDEX runs_paused_ix;
DROP TABLE tallies;
"""


def upgrade() -> None:
    op.execute(_UPGRADE)


def downgrade() -> None:
    op.execute(_DOWNGRADE)
