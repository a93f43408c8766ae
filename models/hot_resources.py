"""Changes that touch the same thing, in SQL: one at a time, and not beside one that may still fire.

The key of a change stands on its row, and the row itself is what closes the key: while it is
started, or unknown until its owner has looked, an index lets no other one of its key start
(`calls_one_change_uq`). So there is nothing to free: whatever ends the call opens its key.
"""

from typing import Final

# Changes `o` that may be on their way while another one `c` of their key wants to start: begun, of
# unknown outcome, or not to be found by their owner, and not long enough ago.
ON_ITS_WAY: Final = """
  SELECT o.id, o.state, o.quiet_until FROM calls o
  WHERE o.tenant = c.tenant AND o.resource_key = c.resource_key AND o.effect = 'mutation'
    AND o.state IN ('started', 'unknown')
  UNION ALL
  SELECT o.id, o.state, o.quiet_until FROM calls o
  WHERE o.tenant = c.tenant AND o.resource_key = c.resource_key
    AND o.quiet_until > clock_timestamp()
"""

# The very change `c` of run `r` was made before in their thread: its tool said so after its owner
# had found otherwise.
DONE_AFTER_ALL: Final = """
  SELECT 1 FROM receipts x JOIN calls o ON o.id = x.call_id JOIN runs q ON q.id = x.run_id
  WHERE x.late_outcome = 'done' AND x.verified <> 'happened' AND x.args_sha = c.args_sha
    AND o.tool = c.tool AND q.thread_id = r.thread_id
"""

# Of a change that was done, as its tool has said after its owner had found otherwise: the call that
# has sent the very same in their thread meanwhile.
SENT_AGAIN: Final = """
SELECT k.id FROM receipts x JOIN calls o ON o.id = x.call_id JOIN runs q ON q.id = x.run_id
  JOIN runs p ON p.thread_id = q.thread_id
  JOIN receipts z ON z.run_id = p.id AND z.args_sha = x.args_sha AND z.call_id > x.call_id
  JOIN calls k ON k.id = z.call_id AND k.tool = o.tool
WHERE x.call_id = %(call_id)s AND x.late_outcome = 'done' AND x.verified <> 'happened'
ORDER BY k.id LIMIT 1
"""

# A change of the same key that may start now that this one has ended, in whatever run.
NEXT_CHANGE: Final = """
SELECT w.id, w.tool FROM calls c JOIN calls w ON w.tenant = c.tenant
  AND w.resource_key = c.resource_key AND w.effect = 'mutation' AND w.state = 'ready'
WHERE c.id = %(call_id)s AND c.state NOT IN ('started', 'unknown')
  AND coalesce(c.quiet_until, '-infinity') <= clock_timestamp()
ORDER BY w.run_id <> c.run_id, w.id LIMIT 1
"""

# A ready change whose key is closed is not looked at again for a while. What opens the key rings.
PUT_OFF: Final = f"""
UPDATE calls c SET rings = least(c.rings + 1, 1000),
  ring_at = coalesce((SELECT max(o.quiet_until) FROM ({ON_ITS_WAY}) o
    HAVING bool_and(o.quiet_until IS NOT NULL)),
    now() + make_interval(secs => %(look_after)s))
WHERE c.id = %(call_id)s AND c.state = 'ready' AND c.effect = 'mutation' AND EXISTS ({ON_ITS_WAY})
RETURNING c.id
"""  # noqa: S608 - constant text, no input

# Of a run: why a change of its step does not start, in words; NULL: none waits for another one.
WAITS_FOR: Final = f"""
(SELECT 'Change ' || c.id || CASE
    WHEN o.state = 'unknown' THEN ' waits, as nobody knows whether ' || o.id || ' has changed the'
      ' same resource: `umbel receipts verify ' || o.id || '` says so, and it goes on by itself.'
    WHEN o.state = 'started' THEN ' waits for ' || o.id || ', which changes the same resource.'
    ELSE ' waits until ' || date_trunc('second', o.quiet_until) || ', as ' || o.id
      || ' may still be on its way to the same resource.' END
  FROM calls c CROSS JOIN LATERAL ({ON_ITS_WAY}) o
  WHERE runs.work = 'calls' AND c.run_id = runs.id AND c.step = runs.step AND c.state = 'ready'
    AND c.effect = 'mutation'
  ORDER BY c.position, o.state = 'unknown' DESC LIMIT 1)
"""  # noqa: S608 - constant text, no input
