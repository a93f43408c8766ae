"""The hot path in SQL, first part: claim and decide. Then come hot_calls, hot_settle, hot_sweep.

Rules (docs/architecture.md, "Writing"): one round trip each; the run row is locked first; a
statement decides only by columns of rows it locks; zero rows mean "not yours any more", never an
error. Statements that must see what others committed while they waited for the lock run after
LOCK_RUN in the same transaction: each statement of a transaction has a fresh snapshot.
"""

from typing import Final

LOCK_RUN: Final = "SELECT id FROM runs WHERE id = %(run_id)s FOR UPDATE"
LOCK_THREAD: Final = """
SELECT t.id FROM threads t JOIN runs r ON r.thread_id = t.id WHERE r.id = %(run_id)s
FOR UPDATE OF t
"""

# Steps that have cost a worker belong to suspect workers while there is one. Where there is none,
# a process carries at most one of them at a time (`may_risk`): several would die of the worst.
MAY_TAKE: Final = """
({run}.losses = 0 OR %(takes_suspects)s OR (%(may_risk)s
  AND NOT EXISTS (SELECT 1 FROM workers w WHERE w.queues @> ARRAY['umbel.loop.suspect']
    AND w.beat_at > now() - make_interval(secs => %(dead_after)s))))
"""

# Claim: only ready work, and only the step the message spoke of. Opens the attempt's row, unless a
# stored reply waits to be applied (its decision could not be written), or its sources have to be
# looked at first. The event before it says since when the run was ready, unless it had to wait.
CLAIM: Final = f"""
WITH r AS (
  UPDATE runs SET work = 'held', status = 'running', reason = NULL, detail = NULL,
    holder = %(worker)s, fence = fence + 1, attempts = attempts + 1, pause_reason = NULL,
    pause_detail = NULL, ring_at = NULL, rings = 0, not_before = NULL, next_seq = next_seq + 1
  WHERE id = %(run_id)s AND step = %(step)s AND work = 'ready' AND stop_at IS NULL
    AND (not_before IS NULL OR not_before <= now()) AND {MAY_TAKE.format(run="runs")}
  RETURNING id, tenant, thread_id, owner, step, attempts, losses, failures, corrections,
    calls_used, fence, steer_rev, source_rev, auth_rev, steers, owner_must_approve, policy_rev,
    coalesce(stale_step <= step, false) AS is_stale, next_seq - 1 AS seq),
lost AS (
  UPDATE model_calls m SET state = 'lost', closed_at = clock_timestamp() FROM r
  WHERE m.run_id = r.id AND m.step = r.step AND m.state = 'open'),
stored AS (
  SELECT m.attempt, m.reply, m.steers
  FROM model_calls m JOIN r ON m.run_id = r.id AND m.step = r.step
  WHERE m.state = 'closed' AND m.decision IS NULL AND m.purpose = 'main'
  ORDER BY m.attempt DESC LIMIT 1),
opened AS (
  INSERT INTO model_calls (run_id, step, attempt, tenant, fence, holder, steers)
  SELECT r.id, r.step, coalesce(
      (SELECT max(m.attempt) FROM model_calls m WHERE m.run_id = r.id AND m.step = r.step), 0) + 1,
    r.tenant, r.fence, %(worker)s, r.steers
  FROM r WHERE NOT r.is_stale AND NOT EXISTS (SELECT 1 FROM stored)
  RETURNING attempt),
e AS (
  INSERT INTO events (run_id, seq, kind, ref, data, fence)
  SELECT r.id, r.seq, 'step.claimed', r.step::text, jsonb_strip_nulls(jsonb_build_object(
    'step', r.step, 'claim', r.attempts,
    'worker', %(worker)s::text, 'node', w.node, 'pid', w.pid)), r.fence
  FROM r LEFT JOIN workers w ON w.id = %(worker)s)
SELECT r.*, (SELECT attempt FROM opened) AS opened_attempt,
  (SELECT attempt FROM stored) AS stored_attempt, (SELECT reply FROM stored) AS stored_reply,
  coalesce((SELECT s.steers FROM stored s), r.steers) AS steers_held,
  (SELECT extract(epoch FROM clock_timestamp() - b.at)::float8 FROM events b
    WHERE b.run_id = r.id AND b.seq = r.seq - 1
      AND b.kind NOT IN ('step.retry', 'step.handed_back')) AS waited_seconds
FROM r
"""  # noqa: S608 - constant text, no input

# Right after CLAIM, in its transaction: what the attempt it opened holds is heard. By itself the
# claim would not see the row of a correction that it had to wait for.
HEAR: Final = """
UPDATE steers s SET state = 'applied', settled_at = now()
FROM runs r JOIN model_calls m ON m.run_id = r.id AND m.step = r.step AND m.fence = r.fence
WHERE r.id = %(run_id)s AND r.step = %(step)s AND r.holder = %(worker)s AND r.work = 'held'
  AND r.steers > 0 AND m.state = 'open' AND m.purpose = 'main' AND m.steers = r.steers
  AND s.run_id = r.id AND s.state = 'accepted'
"""

IS_READY: Final = "SELECT 1 FROM runs WHERE id = %(run_id)s AND step = %(step)s AND work = 'ready'"

# The one condition under which a decision may be applied: still the holder, nothing has moved.
STILL_HELD: Final = """
  id = %(run_id)s AND fence = %(fence)s AND holder = %(worker)s AND work = 'held'
  AND step = %(step)s AND steer_rev = %(steer_rev)s AND source_rev = %(source_rev)s
  AND auth_rev = %(auth_rev)s AND stop_at IS NULL
"""

# What a holder writes bears the fence of its claim, not that of the run: should its condition ever
# not be asked, the events tell (models/invariants.py, `fence_went_back`).
_ITS_FENCE: Final = "%(fence)s::bigint AS fence"

# Usage, reply and decision are one row, written in the transaction that applies the decision.
REPLY_COLUMNS: Final = """
  state = 'closed', endpoint = coalesce(%(endpoint)s, m.endpoint),
  model = coalesce(%(model)s, m.model), manifest = coalesce(%(manifest)s, m.manifest),
  request_sha = coalesce(%(request_sha)s, m.request_sha),
  reply = coalesce(%(reply)s, m.reply), error_class = coalesce(%(error_class)s, m.error_class),
  input_tokens = coalesce(%(input_tokens)s, m.input_tokens),
  output_tokens = coalesce(%(output_tokens)s, m.output_tokens),
  total_tokens = coalesce(%(total_tokens)s, m.total_tokens),
  cached_input_tokens = coalesce(%(cached_input_tokens)s, m.cached_input_tokens),
  reasoning_tokens = coalesce(%(reasoning_tokens)s, m.reasoning_tokens),
  is_estimated = m.is_estimated OR %(is_estimated)s,
  closed_at = coalesce(m.closed_at, clock_timestamp())
"""
_DECIDED: Final = f"""
m AS (
  UPDATE model_calls m SET decision = %(decision)s, {REPLY_COLUMNS} FROM r
  WHERE m.run_id = r.id AND m.step = r.decided_step AND m.attempt = %(attempt)s
    AND m.decision IS NULL AND m.state IN ('open', 'closed')
  RETURNING 1)
"""  # noqa: S608 - constant text, no input
# A decision without its model call row would be invisible spend: the division refuses it.
_PROOF: Final = "SELECT r.*, 1 / (SELECT count(*) FROM m)::int AS model_call_closed FROM r"

DECIDE_DISPATCH: Final = f"""
WITH n AS (
  SELECT count(*)::int AS total,
    count(*) FILTER (WHERE x.state IN ('ready', 'planned', 'awaiting_approval'))::int AS open,
    count(*) FILTER (WHERE x.state = 'awaiting_approval')::int AS asked,
    (count(*) FILTER (WHERE x.repeats) > 0)::int AS repeats
  FROM jsonb_to_recordset(%(calls)s::jsonb) AS x(state text, repeats boolean)),
r AS (
  UPDATE runs SET attempts = 0, losses = 0, failures = 0, open_calls = n.open,
    corrections = CASE WHEN n.open > 0 THEN 0 ELSE corrections + (n.total > 0)::int END,
    calls_used = calls_used + n.total, holder = NULL, open_approvals = n.asked,
    status = CASE WHEN n.asked > 0 THEN 'waiting' ELSE status END,
    reason = CASE WHEN n.asked > 0 THEN 'approval_required' END,
    detail = CASE WHEN n.asked > 0 THEN %(asked_detail)s END,
    work = CASE WHEN n.open = 0 THEN 'ready' ELSE 'calls' END,
    step = CASE WHEN n.open = 0 THEN step + 1 ELSE step END,
    ring_at = CASE WHEN n.open = 0 THEN now() END, next_seq = next_seq + 1 + n.total + n.repeats
  FROM n WHERE {STILL_HELD}
  RETURNING runs.id, tenant, thread_id, work, step, {_ITS_FENCE}, steer_rev, source_rev,
    auth_rev, %(step)s::int AS decided_step, n.total, n.repeats,
    next_seq - 1 - n.total - n.repeats AS seq),
{_DECIDED},
c AS (
  INSERT INTO calls (id, run_id, tenant, step, position, model_id, tool, tool_version, effect,
    placement, state, args_text, args_sha, steer_rev, source_rev, auth_rev, stall_seconds,
    resource_key, needs_approval, approval_until, settled_at, ring_at)
  SELECT x.id, r.id, r.tenant, r.decided_step, x.position, x.model_id, x.tool, x.tool_version,
    x.effect, x.placement, x.state, x.args_text, sha256(convert_to(x.args_text, 'UTF8')),
    r.steer_rev, r.source_rev, r.auth_rev, x.stall_seconds,
    CASE WHEN x.effect = 'mutation' THEN coalesce(x.resource_key, r.thread_id) END,
    x.state = 'awaiting_approval',
    CASE WHEN x.state = 'awaiting_approval'
      THEN now() + make_interval(secs => %(approval_seconds)s::float) END,
    CASE WHEN x.body IS NOT NULL THEN clock_timestamp() END,
    CASE WHEN x.state = 'ready' THEN now() END
  FROM r, jsonb_to_recordset(%(calls)s::jsonb) AS x(id text, position int, model_id text, tool text,
    tool_version text, effect text, placement text, state text, args_text text,
    stall_seconds float, body text, resource_key text)
  RETURNING id, position, state, tool),
v AS (
  INSERT INTO evidence (call_id, run_id, thread_id, tenant, body, view, sha256, total_chars)
  SELECT x.id, r.id, r.thread_id, r.tenant, x.body, x.body, sha256(convert_to(x.body, 'UTF8')),
    length(x.body)
  FROM r, jsonb_to_recordset(%(calls)s::jsonb) AS x(id text, body text) WHERE x.body IS NOT NULL),
e AS (
  INSERT INTO events (run_id, seq, kind, ref, data, fence)
  SELECT r.id, r.seq, 'step.decided', r.decided_step::text, jsonb_build_object(
    'step', r.decided_step, 'decision', 'dispatch', 'attempt', %(attempt)s::int), r.fence FROM r
  UNION ALL
  SELECT r.id, r.seq + c.position, 'call.' || c.state, c.id,
    jsonb_build_object('step', r.decided_step, 'position', c.position, 'tool', c.tool), r.fence
  FROM r, c
  UNION ALL
  SELECT r.id, r.seq + r.total + 1, 'doom_loop', r.decided_step::text,
    jsonb_build_object('step', r.decided_step), r.fence FROM r WHERE r.repeats > 0)
{_PROOF}
"""  # noqa: S608 - constant text, no input

# An answer that has not heard the last correction is not the answer.
DECIDE_ANSWER: Final = f"""
WITH r AS (
  UPDATE runs SET work = 'none', status = 'completed', holder = NULL, attempts = 0, losses = 0,
    failures = 0, answer = %(answer)s, settled_at = now(), next_seq = next_seq + 3
  WHERE {STILL_HELD} AND steers = %(steers)s
  RETURNING id, tenant, thread_id, owner, work, step, {_ITS_FENCE},
    %(step)s::int AS decided_step, next_seq - 3 AS seq),
{_DECIDED},
d AS (
  INSERT INTO deliveries
    (id, tenant, run_id, recipient, destination, kind, state, body, delivered_at)
  SELECT %(delivery_id)s, r.tenant, r.id, r.owner, 'inbox', 'text', 'delivered', %(answer)s, now()
  FROM r
  ON CONFLICT (run_id, destination) DO NOTHING),
e AS (
  INSERT INTO events (run_id, seq, kind, ref, data, fence)
  SELECT r.id, r.seq, 'step.decided', r.decided_step::text, jsonb_build_object(
    'step', r.decided_step, 'decision', 'answer', 'attempt', %(attempt)s::int), r.fence FROM r
  UNION ALL
  SELECT r.id, r.seq + 1, 'delivery.delivered', %(delivery_id)s,
    jsonb_build_object('destination', 'inbox'), r.fence FROM r
  UNION ALL
  SELECT r.id, r.seq + 2, 'run.completed', r.id, '{{}}'::jsonb, r.fence FROM r)
{_PROOF}
"""  # noqa: S608 - constant text, no input

# Ask again later: the same step, after not_before. Waiting holds nothing.
DECIDE_RETRY: Final = f"""
WITH r AS (
  UPDATE runs SET work = 'ready', status = 'waiting', reason = 'provider_retry',
    detail = %(detail)s,
    holder = NULL, failures = failures + 1, attempts = 0, next_seq = next_seq + 1,
    not_before = now() + make_interval(secs => %(wait_seconds)s), ring_at = NULL
  WHERE {STILL_HELD}
  RETURNING id, tenant, thread_id, work, step, {_ITS_FENCE}, %(step)s::int AS decided_step,
    next_seq - 1 AS seq),
{_DECIDED},
e AS (
  INSERT INTO events (run_id, seq, kind, ref, data, fence)
  SELECT r.id, r.seq, 'step.retry', r.decided_step::text, jsonb_build_object(
    'step', r.decided_step, 'attempt', %(attempt)s::int, 'cause', %(cause)s::text,
    'wait_seconds', %(wait_seconds)s::float, 'detail', %(detail)s::text), r.fence FROM r)
{_PROOF}
"""  # noqa: S608 - constant text, no input

DECIDE_PAUSE: Final = f"""
WITH r AS (
  UPDATE runs SET work = 'none', status = 'paused', reason = %(reason)s, detail = %(detail)s,
    holder = NULL, settled_at = now(), next_seq = next_seq + 1
  WHERE {STILL_HELD}
  RETURNING id, tenant, thread_id, work, step, {_ITS_FENCE}, %(step)s::int AS decided_step,
    next_seq - 1 AS seq),
{_DECIDED},
e AS (
  INSERT INTO events (run_id, seq, kind, ref, data, fence)
  SELECT r.id, r.seq, 'run.paused', r.id, jsonb_build_object('step', r.decided_step,
    'reason', %(reason)s::text, 'detail', %(detail)s::text), r.fence FROM r)
{_PROOF}
"""  # noqa: S608 - constant text, no input

# A reply that may not be applied is still spend. No fence: spend is a fact. A stored one that turns
# out to be stale, or is older than a correction or a changed source, must not come back with the
# next claim.
# Run after LOCK_RUN.
BOOK_REPLY: Final = f"""
WITH m AS (
  UPDATE model_calls m SET {REPLY_COLUMNS}, decision = CASE
    WHEN q.steer_rev <> %(steer_rev)s OR q.source_rev <> %(source_rev)s THEN 'discard'
    ELSE %(decision)s END
  FROM runs q
  WHERE m.run_id = %(run_id)s AND m.step = %(step)s AND m.attempt = %(attempt)s
    AND m.decision IS NULL AND q.id = m.run_id
  RETURNING m.run_id, m.attempt, m.decision),
r AS (
  UPDATE runs SET next_seq = next_seq + 1 FROM m
  WHERE runs.id = m.run_id AND m.decision IS NOT NULL
  RETURNING runs.id, runs.fence, next_seq - 1 AS seq),
e AS (
  INSERT INTO events (run_id, seq, kind, ref, data, fence)
  SELECT r.id, r.seq,
    CASE WHEN r.fence = %(fence)s THEN 'step.discarded' ELSE 'step.fenced_out' END, %(step)s::text,
    jsonb_build_object('step', %(step)s::int, 'attempt', %(attempt)s::int,
      'claimed_fence', %(fence)s::bigint), r.fence
  FROM r)
SELECT attempt FROM m
"""  # noqa: S608 - constant text, no input

_LOST_ATTEMPT: Final = """
m AS (
  UPDATE model_calls SET state = 'lost', closed_at = clock_timestamp() FROM r
  WHERE model_calls.run_id = r.id AND model_calls.step = r.step AND model_calls.state = 'open')
"""
# Nobody holds the run any more: it is ready, or at its end if a stop came meanwhile.
_LET_GO: Final = """
  holder = NULL, ring_at = NULL,
  work = CASE WHEN stop_at IS NULL THEN 'ready' ELSE 'none' END,
  status = CASE WHEN stop_at IS NULL THEN 'running' ELSE 'cancelled' END,
  reason = CASE WHEN stop_at IS NOT NULL THEN 'owner_stop' END,
  settled_at = CASE WHEN stop_at IS NOT NULL THEN now() END
"""

# Event of a stopped run that has come to its end, in whatever way.
_CANCELLED: Final = "'run.cancelled', r.id, jsonb_build_object('reason', 'owner_stop'), r.fence"

# The holder gives the run back unapplied.
HAND_BACK: Final = f"""
WITH r AS (
  UPDATE runs SET {_LET_GO}, attempts = attempts - %(uncounted)s,
    next_seq = next_seq + 1 + (stop_at IS NOT NULL)::int,
    not_before = now() + make_interval(secs => %(wait_seconds)s)
  WHERE id = %(run_id)s AND fence = %(fence)s AND holder = %(worker)s AND work = 'held'
  RETURNING id, step, work, status, {_ITS_FENCE},
    next_seq - 1 - (stop_at IS NOT NULL)::int AS seq),
{_LOST_ATTEMPT},
e AS (
  INSERT INTO events (run_id, seq, kind, ref, data, fence)
  SELECT r.id, r.seq, 'step.handed_back', r.step::text,
    jsonb_build_object('step', r.step, 'detail', %(detail)s::text), r.fence FROM r
  UNION ALL
  SELECT r.id, r.seq + 1, {_CANCELLED} FROM r WHERE r.status = 'cancelled')
SELECT status FROM r
"""  # noqa: S608 - constant text, no input

# A claim whose answer was lost: the process knows that none of its own code carries the run. Run
# after LOCK_RUN: the claim itself may still wait for the lock, and commit after this has looked.
RELEASE_OWN: Final = f"""
WITH r AS (
  UPDATE runs SET {_LET_GO}, fence = fence + 1, attempts = attempts - 1,
    next_seq = next_seq + (stop_at IS NOT NULL)::int
  WHERE id = %(run_id)s AND step = %(step)s AND holder = %(worker)s AND work = 'held'
    AND (%(fence)s::bigint IS NULL OR fence = %(fence)s)
  RETURNING id, step, status, fence, next_seq - 1 AS seq),
{_LOST_ATTEMPT},
e AS (
  INSERT INTO events (run_id, seq, kind, ref, data, fence)
  SELECT r.id, r.seq, {_CANCELLED} FROM r WHERE r.status = 'cancelled')
SELECT status FROM r
"""  # noqa: S608 - constant text, no input

# The holder finds, before it has sent anything, that it must not or cannot ask.
PAUSE_UNSENT: Final = f"""
WITH r AS (
  UPDATE runs SET work = 'none', status = 'paused', reason = %(reason)s, detail = %(detail)s,
    holder = NULL, settled_at = now(), next_seq = next_seq + 1
  WHERE {STILL_HELD}
  RETURNING id, step, {_ITS_FENCE}, next_seq - 1 AS seq),
{_LOST_ATTEMPT},
e AS (
  INSERT INTO events (run_id, seq, kind, ref, data, fence)
  SELECT r.id, r.seq, 'run.paused', r.id, jsonb_build_object('step', r.step,
    'reason', %(reason)s::text, 'detail', %(detail)s::text), r.fence FROM r)
SELECT id FROM r
"""  # noqa: S608 - constant text, no input

# The holder gives the run up; one that was stopped meanwhile ends by that.
FAIL_RUN: Final = f"""
WITH r AS (
  UPDATE runs SET work = 'none', holder = NULL, settled_at = now(), next_seq = next_seq + 1,
    status = CASE WHEN stop_at IS NULL THEN 'failed' ELSE 'cancelled' END,
    reason = CASE WHEN stop_at IS NULL THEN %(reason)s ELSE 'owner_stop' END, detail = %(detail)s
  WHERE id = %(run_id)s AND fence = %(fence)s AND holder = %(worker)s AND work = 'held'
  RETURNING id, step, {_ITS_FENCE}, status, reason, next_seq - 1 AS seq),
{_LOST_ATTEMPT},
e AS (
  INSERT INTO events (run_id, seq, kind, ref, data, fence)
  SELECT r.id, r.seq, 'run.' || r.status, r.id, jsonb_build_object('step', r.step,
    'reason', r.reason, 'detail', %(detail)s::text), r.fence FROM r)
SELECT status, reason FROM r
"""  # noqa: S608 - constant text, no input
