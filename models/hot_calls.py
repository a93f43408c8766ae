"""The hot path in SQL, second part: how calls start. The rules stand in models/hot.py."""

from typing import Final

from models.authority import HOLDS
from models.hot_resources import DONE_AFTER_ALL, ON_ITS_WAY

# A call `c` that needs its owner's approval has one, of its very bytes, that has not run out. It is
# used up by the state change that this condition guards.
_APPROVED: Final = """
(NOT c.needs_approval OR (c.approved_sha = c.args_sha AND c.approval_until > clock_timestamp()))
"""

# Since when a ready call `c` has been ready. Its first announcement is that moment; once announced
# again it keeps only the last one, and the decision that made the call is the best that is left.
READY_SINCE: Final = """
coalesce(CASE WHEN c.rings = 0 THEN c.ring_at END, (SELECT m.closed_at FROM model_calls m
  WHERE m.run_id = c.run_id AND m.step = c.step AND m.decision IN ('answer', 'dispatch')))
"""

# A read needs no run lock: a stop that commits in the same instant is seen by the join. What may
# change something runs after LOCK_RUN and LOCK_SHARED.
START_READ: Final = f"""
UPDATE calls c SET state = 'started', attempt = c.attempt + 1, holder = %(worker)s,
  started_at = clock_timestamp(), rings = 0, misses = 0,
  deadline_at = clock_timestamp() + make_interval(secs => c.stall_seconds)
FROM runs r
WHERE c.id = %(call_id)s AND c.state = 'ready' AND c.effect <> 'mutation' AND r.id = c.run_id
  AND c.attempt < %(max_attempts)s AND r.stop_at IS NULL AND r.steer_rev = c.steer_rev
  AND {_APPROVED} AND {HOLDS}
RETURNING c.attempt, c.args_text
"""  # noqa: S608 - constant text, no input

LOCK_CALL: Final = "SELECT id FROM calls WHERE id = %(call_id)s FOR UPDATE"

# A start or intent whose answer was lost: it is ours and nobody in this process has acted on it.
# Run after LOCK_RUN and LOCK_CALL: the start itself may still wait for one of them.
OWN_START: Final = """
SELECT attempt, args_text FROM calls
WHERE id = %(call_id)s AND state = 'started' AND holder = %(worker)s
"""

FREE_OWN_READ: Final = """
UPDATE calls SET state = 'ready', ring_at = NULL
WHERE id = %(call_id)s AND attempt = %(attempt)s AND holder = %(worker)s AND state = 'started'
  AND effect <> 'mutation'
RETURNING id
"""

# The intent: what may forbid the change stands on the two rows locked here, or behind the lock of
# its tenant's authority; of two changes of one key that start at once an index refuses the second
# one. Run after LOCK_RUN and LOCK_SHARED.
INTENT: Final = f"""
WITH r AS (
  SELECT id, tenant, thread_id, fence, steer_rev, source_rev, auth_rev FROM runs
  WHERE id = %(run_id)s AND (status = 'running' OR reason = 'approval_required')
    AND work = 'calls' AND stop_at IS NULL AND unknowns = 0 AND {HOLDS}),
c AS (
  UPDATE calls c SET state = 'started', attempt = c.attempt + 1, holder = %(worker)s, rings = 0,
    started_at = clock_timestamp(),
    deadline_at = clock_timestamp() + make_interval(secs => c.stall_seconds)
  FROM r
  WHERE c.id = %(call_id)s AND c.run_id = r.id AND c.state = 'ready' AND c.effect = 'mutation'
    AND c.attempt = 0 AND c.tool_version = %(tool_version)s AND c.steer_rev = r.steer_rev
    AND c.source_rev = r.source_rev AND c.auth_rev = r.auth_rev
    AND {_APPROVED}
    AND NOT EXISTS ({ON_ITS_WAY}) AND NOT EXISTS ({DONE_AFTER_ALL})
  RETURNING c.id, c.run_id, c.tenant, c.attempt, c.args_text, c.args_sha, c.step, c.tool),
s AS (
  UPDATE runs SET next_seq = next_seq + 1 FROM c WHERE runs.id = c.run_id
  RETURNING next_seq - 1 AS seq, fence),
i AS (
  INSERT INTO receipts (call_id, run_id, tenant, attempt, args_text, args_sha, intent_seq)
  SELECT c.id, c.run_id, c.tenant, c.attempt, c.args_text, c.args_sha, s.seq FROM c, s),
e AS (
  INSERT INTO events (run_id, seq, kind, ref, data, fence)
  SELECT c.run_id, s.seq, 'call.intent', c.id, jsonb_strip_nulls(jsonb_build_object(
    'step', c.step, 'tool', c.tool, 'worker', %(worker)s::text, 'node', w.node, 'pid', w.pid)),
    s.fence
  FROM s, c LEFT JOIN workers w ON w.id = %(worker)s)
SELECT attempt, args_text FROM c
"""  # noqa: S608 - constant text, no input

EXTEND_DEADLINE: Final = """
UPDATE calls SET deadline_at = clock_timestamp() + make_interval(secs => stall_seconds)
WHERE id = %(call_id)s AND attempt = %(attempt)s AND holder = %(worker)s AND state = 'started'
RETURNING id
"""
