"""The sweeper in SQL: the only statements that take work away or announce it again.

Any number may run at once: rows are skipped where another sweeper has them. Nothing here believes
Redis, and nobody is declared dead before PostgreSQL itself has been up long enough to hear beats.
"""

from typing import Final

from models.hot_resources import DONE_AFTER_ALL

_DEAD: Final = """
pg_postmaster_start_time() < now() - make_interval(secs => %(dead_after)s + 5)
AND NOT EXISTS (SELECT 1 FROM workers w WHERE w.id = {holder}
  AND w.beat_at > now() - make_interval(secs => %(dead_after)s))
"""

# Runs whose holder is dead: ready again, paused once a step has cost too many workers, or at their
# end if a stop came meanwhile.
TAKE_OVER: Final = f"""
WITH dead AS (
  SELECT r.id, r.holder, r.stop_at IS NOT NULL AS ends, r.stop_at IS NULL
      AND r.losses + 1 >= coalesce((s.policy::jsonb ->> 'max_losses')::int, 1) AS gives_up
  FROM runs r JOIN run_specs s ON s.run_id = r.id
  WHERE r.work = 'held' AND {_DEAD.format(holder="r.holder")}
    AND (%(only)s::text IS NULL OR r.id = %(only)s)
  ORDER BY r.id LIMIT %(limit)s FOR UPDATE OF r SKIP LOCKED),
t AS (
  UPDATE runs SET fence = fence + 1, losses = losses + 1, holder = NULL, ring_at = NULL,
    rings = 0, next_seq = next_seq + 1 + (d.gives_up OR d.ends)::int,
    work = CASE WHEN d.gives_up OR d.ends THEN 'none' ELSE 'ready' END,
    status = CASE WHEN d.ends THEN 'cancelled' WHEN d.gives_up THEN 'paused' ELSE 'running' END,
    reason = CASE WHEN d.ends THEN 'owner_stop' WHEN d.gives_up THEN 'lost_worker' END,
    detail = CASE WHEN d.gives_up THEN %(detail)s END,
    settled_at = CASE WHEN d.gives_up OR d.ends THEN now() END
  FROM dead d WHERE runs.id = d.id
  RETURNING runs.id, runs.step, runs.work, runs.status, runs.fence, runs.losses,
    d.holder AS dead_holder, d.gives_up, d.ends, next_seq - 1 - (d.gives_up OR d.ends)::int AS seq),
m AS (
  UPDATE model_calls SET state = 'lost', closed_at = clock_timestamp() FROM t
  WHERE model_calls.run_id = t.id AND model_calls.step = t.step AND model_calls.state = 'open'),
e AS (
  INSERT INTO events (run_id, seq, kind, ref, data, fence)
  SELECT t.id, t.seq, 'run.taken_over', t.id,
    jsonb_build_object('step', t.step, 'worker', t.dead_holder, 'losses', t.losses), t.fence FROM t
  UNION ALL
  SELECT t.id, t.seq + 1, 'run.paused', t.id,
    jsonb_build_object('reason', 'lost_worker', 'detail', %(detail)s::text), t.fence
  FROM t WHERE t.gives_up
  UNION ALL
  SELECT t.id, t.seq + 1, 'run.cancelled', t.id, jsonb_build_object('reason', 'owner_stop'), t.fence
  FROM t WHERE t.ends)
SELECT id, step, work, status, dead_holder FROM t
"""  # noqa: S608 - constant text, no input

# The same runs, for going through them one by one where not all can be taken at once.
HELD_BY_DEAD: Final = f"""
SELECT r.id AS run_id FROM runs r
WHERE r.work = 'held' AND {_DEAD.format(holder="r.holder")} ORDER BY r.id LIMIT %(limit)s
"""  # noqa: S608 - constant text, no input

# Reads whose worker is dead may simply run again.
READS_BACK: Final = f"""
WITH d AS (
  SELECT c.id FROM calls c
  WHERE c.state = 'started' AND c.effect <> 'mutation' AND {_DEAD.format(holder="c.holder")}
  ORDER BY c.run_id LIMIT %(limit)s FOR UPDATE OF c SKIP LOCKED)
UPDATE calls SET state = 'ready', ring_at = NULL FROM d WHERE calls.id = d.id
RETURNING calls.id, calls.run_id, calls.attempt
"""  # noqa: S608 - constant text, no input

# Reads past their deadline, whose worker lives: the caller settles each as an error.
STALLED_READS: Final = """
SELECT id, run_id, attempt, stall_seconds FROM calls
WHERE state = 'started' AND effect <> 'mutation'
  AND deadline_at + interval '5 seconds' < clock_timestamp()
ORDER BY run_id LIMIT %(limit)s
"""

# Ready calls that nothing will start: reads that lost their worker after their run was stopped or
# corrected, and changes that turned out to be done already.
VOID_CALLS: Final = f"""
SELECT c.id, c.run_id, c.effect FROM calls c JOIN runs r ON r.id = c.run_id
WHERE c.state = 'ready' AND (
  (c.effect <> 'mutation' AND c.attempt > 0
    AND (r.stop_at IS NOT NULL OR r.steer_rev <> c.steer_rev))
  OR (c.effect = 'mutation' AND EXISTS ({DONE_AFTER_ALL})))
ORDER BY c.run_id LIMIT %(limit)s
"""  # noqa: S608 - constant text, no input

# Reads that have cost too many workers to be started once more: the caller ends each as an error.
SPENT_READS: Final = """
SELECT id, run_id FROM calls
WHERE state = 'ready' AND effect <> 'mutation' AND attempt >= %(max_attempts)s
ORDER BY run_id LIMIT %(limit)s
"""

# Changes past their deadline or without a living worker: the caller settles each as unknown.
LOST_CHANGES: Final = f"""
SELECT c.id, c.run_id, c.attempt, c.tool FROM calls c
WHERE c.state = 'started' AND c.effect = 'mutation'
  AND (c.deadline_at + interval '5 seconds' < clock_timestamp()
    OR ({_DEAD.format(holder="c.holder")}))
ORDER BY c.run_id LIMIT %(limit)s
"""  # noqa: S608 - constant text, no input

_NEXT_OF_FREE_THREADS: Final = """
  SELECT DISTINCT ON (q.thread_id) q.id, q.thread_id FROM runs q
  WHERE q.status = 'queued' AND (%(thread_id)s::text IS NULL OR q.thread_id = %(thread_id)s)
    AND NOT EXISTS (SELECT 1 FROM runs a WHERE a.thread_id = q.thread_id
      AND a.status IN ('running', 'waiting', 'cancelling'))
  ORDER BY q.thread_id, q.accepted_at, q.id LIMIT %(limit)s
"""
# The oldest queued run of each thread that nothing occupies any more. Nobody waits for a row that
# somebody else has locked: the next sweep looks again.
PROMOTE: Final = f"""
WITH f AS ({_NEXT_OF_FREE_THREADS}),
q AS (SELECT runs.id FROM runs JOIN f ON runs.id = f.id FOR UPDATE OF runs SKIP LOCKED),
p AS (
  UPDATE runs SET status = 'running', work = 'ready', ring_at = now(), next_seq = next_seq + 1,
    owner_must_approve = runs.owner_must_approve OR t.owner_must_approve,
    stale_step = CASE WHEN EXISTS (SELECT 1 FROM evidence_sources e
      WHERE e.thread_id = t.id) THEN runs.step END
  FROM q, threads t WHERE runs.id = q.id AND runs.status = 'queued' AND t.id = runs.thread_id
  RETURNING runs.id, runs.step, runs.fence, next_seq - 1 AS seq),
e AS (
  INSERT INTO events (run_id, seq, kind, ref, fence)
  SELECT p.id, p.seq, 'run.promoted', p.id, p.fence FROM p)
SELECT id, step FROM p
"""  # noqa: S608 - constant text, no input
# The same threads, for going through them one by one where not all can be promoted at once.
FREE_THREADS: Final = f"""
SELECT n.id AS run_id, n.thread_id FROM ({_NEXT_OF_FREE_THREADS}) n
"""  # noqa: S608 - constant text, no input

# Ready rows that were not announced, or were announced a while ago and are still ready. While the
# broker's list has messages a row waits longer each time, for its message may be one of them; an
# empty list says that it is not.
_DUE: Final = """
(x.ring_at IS NULL OR x.ring_at < now() - make_interval(secs => CASE
  WHEN x.rings = 0 OR %(is_empty)s THEN %(ring_after)s
  ELSE least(600,
    %(ring_after)s * 3 * power(2, least(x.rings, 12) - 1) * (0.8 + 0.4 * random())) END))
"""
# One of each tenant, then another one of each: nobody stands in front of everybody. Tenants are
# found by hopping along the index.
_RING: Final = """
WITH RECURSIVE t AS (
  (SELECT tenant FROM {table} WHERE {state} ORDER BY tenant LIMIT 1)
  UNION ALL
  SELECT n.tenant FROM t CROSS JOIN LATERAL (
    SELECT o.tenant FROM {table} o WHERE o.{state} AND o.tenant > t.tenant
    ORDER BY o.tenant LIMIT 1) n),
p AS (
  SELECT d.id, d.place FROM t CROSS JOIN LATERAL (
    SELECT x.id, x.ring_at, row_number() OVER (ORDER BY x.ring_at NULLS FIRST) AS place
    FROM {table} x WHERE x.{state} AND x.tenant = t.tenant AND {due}
    ORDER BY x.ring_at NULLS FIRST LIMIT %(limit)s) d
  ORDER BY d.place, d.ring_at NULLS FIRST LIMIT %(limit)s),
d AS (
  SELECT x.id, p.place FROM p JOIN {table} x ON x.id = p.id WHERE x.{state} AND {due}
  FOR UPDATE OF x SKIP LOCKED)
UPDATE {table} SET ring_at = now(), rings = least(rings + 1, 1000) FROM d WHERE {table}.id = d.id
RETURNING {columns}, d.place
"""

DUE_STEPS: Final = _RING.format(
    table="runs",
    state="work = 'ready'",
    due=f"""((x.losses = 0 AND %(fresh)s) OR (x.losses > 0 AND %(suspects)s))
    AND (x.not_before IS NULL OR x.not_before <= now()) AND {_DUE}""",
    columns="runs.id, runs.step, runs.rings",
)
DUE_CALLS: Final = _RING.format(
    table="calls",
    state="state = 'ready'",
    due=f"(x.effect = 'mutation' OR x.attempt < %(max_attempts)s) AND {_DUE}",
    columns="calls.id, calls.run_id, calls.tool, calls.attempt, calls.effect, calls.rings",
)

# An announcement that the broker did not take: patience grows with messages, not with outages.
TAKE_BACK_STEP_RINGS: Final = """
UPDATE runs SET rings = rings - 1 WHERE id = ANY(%(run_ids)s) AND work = 'ready' AND rings > 0
"""
TAKE_BACK_CALL_RINGS: Final = """
UPDATE calls SET rings = rings - 1 WHERE id = ANY(%(call_ids)s) AND state = 'ready' AND rings > 0
"""

FORGET_WORKERS: Final = """
DELETE FROM workers WHERE beat_at < now() - interval '1 hour'
"""
