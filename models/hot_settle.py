"""The hot path in SQL, third part: how calls end and the step joins. Run after LOCK_RUN.

A join is a counter on the locked run row, never a look at other calls. Results are facts: they
pass whatever the run's fence; only the counter moves the run. Why a run pauses at its join stands
on its row too: an outcome that nobody knows, else what a call of the step has left there.
"""

from typing import Final

# Before LOCK_RUN, by whoever settles for others.
IMPATIENCE: Final = "SET LOCAL lock_timeout = '300ms'"

# What every settling statement shares, given `c` (the settled call, with `was` = its state before;
# `started` if it had a place among the parallel ones): siblings that can no longer start, the next
# planned call whose resource key is free, the join, evidence and events. Refreshes (position below
# 0) join back to their step.
JOIN: Final = """
skipped AS (
  UPDATE calls s SET state = 'skipped', settled_at = clock_timestamp() FROM c
  WHERE c.state = 'unknown' AND c.was = 'started' AND s.run_id = c.run_id AND s.step = c.step
    AND s.state IN ('planned', 'ready', 'awaiting_approval')
  RETURNING s.id, s.position, s.step, s.tool, s.needs_approval AND s.approved_sha IS NULL AS asked),
next_call AS (
  UPDATE calls s SET state = 'ready', ring_at = now() FROM c
  WHERE c.state <> 'unknown' AND c.was = 'started' AND s.id = (
    SELECT p.id FROM calls p WHERE p.run_id = c.run_id AND p.step = c.step AND p.state = 'planned'
      AND NOT EXISTS (SELECT 1 FROM calls o WHERE o.run_id = p.run_id AND o.step = p.step
        AND o.resource_key = p.resource_key AND o.state IN ('ready', 'started') AND o.id <> c.id)
    ORDER BY p.position LIMIT 1)
  RETURNING s.id, s.tool),
n AS (
  SELECT c.run_id, c.state, (c.position > 0)::int AS steps,
    (SELECT count(*)::int FROM skipped) AS skipped,
    (c.was <> 'unknown')::int + (SELECT count(*)::int FROM skipped) AS closed,
    (c.was = 'awaiting_approval')::int
      + (SELECT count(*)::int FROM skipped WHERE asked) AS asked,
    (c.state = 'unknown' AND c.was = 'started')::int
      - (c.was = 'unknown' AND c.state <> 'unknown')::int AS unknowns
  FROM c),
r AS (
  UPDATE runs SET open_calls = open_calls - n.closed, unknowns = runs.unknowns + n.unknowns,
    open_approvals = open_approvals - n.asked,
    next_seq = next_seq + 1 + n.skipped + (j.pauses OR j.ends)::int,
    step = CASE WHEN j.joins THEN step + n.steps ELSE step END,
    work = CASE WHEN NOT j.joins THEN work WHEN j.pauses OR stop_at IS NOT NULL THEN 'none'
      ELSE 'ready' END,
    status = CASE WHEN j.ends THEN 'cancelled' WHEN j.pauses THEN 'paused'
      WHEN j.is_decided THEN 'running' ELSE status END,
    reason = CASE WHEN j.ends THEN 'owner_stop' WHEN j.pauses THEN j.why
      WHEN NOT j.is_decided THEN reason END,
    detail = CASE WHEN j.pauses THEN j.words WHEN j.is_decided THEN NULL
      WHEN n.unknowns < 0 AND runs.unknowns + n.unknowns = 0 THEN %(known_detail)s ELSE detail END,
    settled_at = CASE WHEN j.joins AND (j.pauses OR stop_at IS NOT NULL) THEN now()
      ELSE settled_at END,
    ring_at = CASE WHEN j.joins THEN now() ELSE ring_at END,
    pause_reason = coalesce(runs.pause_reason, %(pause_reason)s),
    pause_detail = coalesce(runs.pause_detail, %(pause_detail)s)
  FROM n, LATERAL (
    SELECT w.joins, w.is_decided, w.why, w.words,
      w.joins AND w.why IS NOT NULL AND NOT w.is_stopped AS pauses, w.joins AND w.is_stopped AS ends
    FROM (
      SELECT q.stop_at IS NOT NULL AS is_stopped,
        n.asked > 0 AND q.open_approvals = n.asked AS is_decided,
        q.work = 'calls' AND n.closed > 0 AND q.open_calls = n.closed AS joins,
        CASE WHEN q.unknowns + n.unknowns > 0 THEN 'unknown_outcome'
          ELSE coalesce(q.pause_reason, %(pause_reason)s) END AS why,
        CASE WHEN q.unknowns + n.unknowns > 0 THEN %(unknown_detail)s
          ELSE coalesce(q.pause_detail, %(pause_detail)s) END AS words
      FROM runs q WHERE q.id = n.run_id) w) j
  WHERE runs.id = n.run_id
  RETURNING runs.id, runs.tenant, runs.thread_id, runs.step, runs.work, runs.status, runs.reason,
    runs.detail, runs.fence, runs.open_calls, runs.unknowns, j.joins, j.pauses, j.ends, n.skipped,
    next_seq - 1 - n.skipped - (j.pauses OR j.ends)::int AS seq),
v AS (
  INSERT INTO evidence
    (call_id, run_id, thread_id, tenant, body, view, sha256, total_chars, is_escaped, capture_id)
  SELECT c.id, r.id, r.thread_id, r.tenant, %(body)s, %(view)s,
    coalesce(%(sha256)s::bytea, sha256(convert_to(%(body)s, 'UTF8'))),
    coalesce(%(total_chars)s::bigint, length(%(body)s)), %(is_escaped)s, %(capture_id)s
  FROM r, c WHERE c.state <> 'unknown'
  UNION ALL
  SELECT s.id, r.id, r.thread_id, r.tenant, %(skipped_body)s, %(skipped_body)s,
    sha256(convert_to(%(skipped_body)s, 'UTF8')), length(%(skipped_body)s), false, NULL
  FROM r, skipped s),
e AS (
  INSERT INTO events (run_id, seq, kind, ref, data, fence)
  SELECT r.id, r.seq, 'call.' || c.state, c.id, jsonb_strip_nulls(jsonb_build_object(
    'step', c.step, 'position', c.position, 'tool', c.tool, 'is_late', c.was = 'unknown',
    'worker', c.holder, 'node', w.node, 'pid', w.pid)), r.fence
  FROM r, c LEFT JOIN workers w ON w.id = c.holder
  UNION ALL
  SELECT r.id, r.seq + row_number() OVER (ORDER BY s.position), 'call.skipped', s.id,
    jsonb_build_object('step', s.step, 'position', s.position, 'tool', s.tool), r.fence
  FROM r, skipped s
  UNION ALL
  SELECT r.id, r.seq + 1 + r.skipped, 'run.paused', r.id, jsonb_build_object(
    'reason', r.reason, 'detail', r.detail), r.fence
  FROM r WHERE r.pauses
  UNION ALL
  SELECT r.id, r.seq + 1 + r.skipped, 'run.cancelled', r.id,
    jsonb_build_object('reason', 'owner_stop'), r.fence
  FROM r WHERE r.ends)
SELECT r.work, r.status, r.reason, r.step, r.open_calls, r.unknowns, r.joins,
  (SELECT id FROM next_call) AS next_call, (SELECT tool FROM next_call) AS next_tool
FROM r
"""

SETTLE_READ: Final = f"""
WITH c AS (
  UPDATE calls SET state = %(state)s, settled_at = clock_timestamp()
  WHERE id = %(call_id)s AND run_id = %(run_id)s AND state = 'started' AND attempt = %(attempt)s
    AND holder = %(worker)s AND effect <> 'mutation'
  RETURNING id, run_id, step, position, tool, state, holder, 'started'::text AS was),
{JOIN}
"""  # noqa: S608 - constant text, no input

# A read that has been silent for longer than its tool allows. Its code may still run; what comes of
# it later is not recorded.
SETTLE_STALLED_READ: Final = f"""
WITH c AS (
  UPDATE calls SET state = 'errored', settled_at = clock_timestamp()
  WHERE id = %(call_id)s AND run_id = %(run_id)s AND state = 'started' AND attempt = %(attempt)s
    AND effect <> 'mutation' AND deadline_at + interval '5 seconds' < clock_timestamp()
  RETURNING id, run_id, step, position, tool, state, holder, 'started'::text AS was),
{JOIN}
"""  # noqa: S608 - constant text, no input

# A call that will not start: a read that lost its workers too often, or one that may not or cannot
# be run. What its run is to pause for is named here.
GIVE_UP_CALL: Final = f"""
WITH c AS (
  UPDATE calls SET state = %(state)s, settled_at = clock_timestamp()
  WHERE id = %(call_id)s AND run_id = %(run_id)s AND state = 'ready'
    AND (effect <> 'mutation' OR attempt = 0)
  RETURNING id, run_id, step, position, tool, state, holder, 'started'::text AS was),
{JOIN}
"""  # noqa: S608 - constant text, no input

# The outcome of a change. `known` lands whatever the fence and however late; `unknown` only while
# the call is still open and, when the sweeper says it, only while the deadline is over or the
# holder dead. Liveness counts only once PostgreSQL itself has been up long enough.
SETTLE_CHANGE: Final = f"""
WITH x AS (
  SELECT k.id, k.run_id, k.state AS was FROM calls k
  WHERE k.id = %(call_id)s AND k.run_id = %(run_id)s AND k.attempt = %(attempt)s
    AND k.effect = 'mutation'
    AND (k.state = 'started' OR (k.state = 'unknown' AND %(outcome)s <> 'unknown'))
    AND (NOT %(only_if_lost)s OR k.deadline_at + interval '5 seconds' < clock_timestamp() OR (
      pg_postmaster_start_time() < now() - make_interval(secs => %(dead_after)s + 5)
      AND NOT EXISTS (SELECT 1 FROM workers w WHERE w.id = k.holder
        AND w.beat_at > now() - make_interval(secs => %(dead_after)s))))
  FOR UPDATE),
p AS (
  UPDATE receipts SET outcome = %(outcome)s, is_late = (outcome IS NOT NULL),
    resources = coalesce(%(resources)s::jsonb, resources), closed_at = clock_timestamp()
  FROM x WHERE receipts.call_id = x.id),
c AS (
  UPDATE calls k SET settled_at = clock_timestamp(), state = CASE %(outcome)s
    WHEN 'done' THEN 'returned' WHEN 'not_done' THEN 'errored' ELSE 'unknown' END
  FROM x WHERE k.id = x.id
  RETURNING k.id, k.run_id, k.step, k.position, k.tool, k.state, k.holder, x.was),
{JOIN}
"""  # noqa: S608 - constant text, no input

# In the transaction of a settling statement, right after it: what the result holds beside its row
# counts from now on, if it was this statement that settled the call.
KEEP_CAPTURE: Final = """
UPDATE captures SET is_kept = true WHERE id = %(capture_id)s AND EXISTS (
  SELECT FROM evidence e WHERE e.call_id = captures.call_id AND e.capture_id = captures.id)
"""
