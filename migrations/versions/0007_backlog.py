"""What a worker can carry, and the backlog in the order it is served."""

from typing import Final

from alembic import op

revision: Final = "0007"
down_revision: Final = "0006"

_UPGRADE: Final = """
ALTER TABLE workers ADD COLUMN slots integer NOT NULL DEFAULT '0';
ALTER TABLE workers ADD COLUMN queues text[] NOT NULL DEFAULT '{}'::text[];
COMMENT ON COLUMN workers.slots IS 'steps or calls the process carries at once';
COMMENT ON COLUMN workers.queues IS 'what it consumes';
DROP INDEX runs_ready_ix;
CREATE INDEX runs_ready_ix ON runs (tenant, ring_at NULLS FIRST) WHERE work = 'ready';
DROP INDEX calls_ready_ix;
CREATE INDEX calls_ready_ix ON calls (tenant, ring_at NULLS FIRST) WHERE state = 'ready';
"""

_DOWNGRADE: Final = """
DROP INDEX calls_ready_ix;
CREATE INDEX calls_ready_ix ON calls (ring_at NULLS FIRST) WHERE state = 'ready';
DROP INDEX runs_ready_ix;
CREATE INDEX runs_ready_ix ON runs (ring_at NULLS FIRST) WHERE work = 'ready';
ALTER TABLE workers DROP COLUMN queues;
ALTER TABLE workers DROP COLUMN slots;
"""


def upgrade() -> None:
    op.execute(_UPGRADE)


def downgrade() -> None:
    op.execute(_DOWNGRADE)
