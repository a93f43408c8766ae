"""What changes touch: one at a time of each resource, in all runs of a tenant."""

from typing import Final

from alembic import op

revision: Final = "0019"
down_revision: Final = "0018"

# Changes of before are of their thread as a whole. Should several of one thread be on their way or
# unknown, only the first of them closes it: the others have a key of their own.
_UPGRADE: Final = """
ALTER TABLE calls ADD COLUMN resource_key text, ADD COLUMN quiet_until timestamptz;
COMMENT ON COLUMN calls.resource_key IS
  'what a change touches, in its tenant: changes of one key run one at a time';
COMMENT ON COLUMN calls.quiet_until IS
  'until when a change that its owner has looked into may still be on its way';

UPDATE calls SET resource_key = r.thread_id FROM runs r
WHERE calls.effect = 'mutation' AND r.id = calls.run_id;
UPDATE calls SET resource_key = id FROM (
  SELECT c.id AS call_id, row_number() OVER (PARTITION BY c.resource_key ORDER BY c.id) AS place
  FROM calls c WHERE c.effect = 'mutation' AND c.state IN ('started', 'unknown')) p
WHERE calls.id = p.call_id AND p.place > 1;
UPDATE calls SET quiet_until = q.until
FROM runs r, jsonb_to_recordset(r.quarantine) AS q(tool text, args_sha text, until timestamptz),
  receipts x
WHERE calls.run_id = r.id AND calls.tool = q.tool AND encode(calls.args_sha, 'hex') = q.args_sha
  AND q.until <> 'infinity' AND x.call_id = calls.id AND x.verified <> 'happened';

ALTER TABLE calls ADD CONSTRAINT calls_change_has_resource_key CHECK (
  (effect = 'mutation') = (resource_key IS NOT NULL));
CREATE UNIQUE INDEX calls_one_change_uq ON calls (tenant, resource_key)
  WHERE effect = 'mutation' AND state IN ('started', 'unknown');
CREATE INDEX calls_next_change_ix ON calls (tenant, resource_key)
  WHERE effect = 'mutation' AND state = 'ready';
CREATE INDEX calls_quiet_ix ON calls (tenant, resource_key) WHERE quiet_until IS NOT NULL;
CREATE INDEX receipts_done_after_all_ix ON receipts (args_sha)
  WHERE late_outcome = 'done' AND verified <> 'happened';

ALTER TABLE runs DROP COLUMN quarantine;
"""

_DOWNGRADE: Final = """
ALTER TABLE runs ADD COLUMN quarantine jsonb;
COMMENT ON COLUMN runs.quarantine IS 'changes that may not be sent again yet: tool, hash, until';
DROP INDEX receipts_done_after_all_ix;
ALTER TABLE calls DROP COLUMN resource_key, DROP COLUMN quiet_until;
"""


def upgrade() -> None:
    op.execute(_UPGRADE)


def downgrade() -> None:
    op.execute(_DOWNGRADE)
