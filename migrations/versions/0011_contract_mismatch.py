"""Which tools workers have, calls that wait for one who has theirs, and runs that will pause."""

from typing import Final

from alembic import op

revision: Final = "0011"
down_revision: Final = "0010"

_UPGRADE: Final = """
ALTER TABLE workers ADD COLUMN tools text[] NOT NULL DEFAULT '{}'::text[];
COMMENT ON COLUMN workers.tools IS 'digests of the tools it has, as a run freezes them';

ALTER TABLE calls ADD COLUMN misses smallint NOT NULL DEFAULT '0';
COMMENT ON COLUMN calls.misses IS 'looks of workers that lack its tool, while no living one had it';

ALTER TABLE runs ADD COLUMN pause_reason text, ADD COLUMN pause_detail text;
ALTER TABLE runs ADD CONSTRAINT runs_pause_reason CHECK (pause_reason IN (
    'approval_required', 'provider_retry', 'child_run', 'unknown_outcome', 'tool_call_limit',
    'iteration_limit', 'context_capacity', 'stall', 'repeated_failure', 'empty_response',
    'credentials', 'provider_error', 'lost_worker', 'owner_stop', 'budget_exhausted',
    'contract_mismatch', 'persistence_failed', 'corrupt_record'));
ALTER TABLE runs ADD CONSTRAINT runs_pause_in_words CHECK (
    (pause_reason IS NULL) = (pause_detail IS NULL));
COMMENT ON COLUMN runs.pause_reason IS 'why it pauses when the last open call of its step has ended';
COMMENT ON COLUMN runs.pause_detail IS 'the same in words, with the next action';
"""  # noqa: E501 - a comment is one line

_DOWNGRADE: Final = """
ALTER TABLE runs DROP COLUMN pause_detail, DROP COLUMN pause_reason;
ALTER TABLE calls DROP COLUMN misses;
ALTER TABLE workers DROP COLUMN tools;
"""


def upgrade() -> None:
    op.execute(_UPGRADE)


def downgrade() -> None:
    op.execute(_DOWNGRADE)
