"""What owners do to a run, in SQL: resume, stop, steer, verify. The rules stand in models/hot.py.

Each runs after LOCK_RUN (stop, steer and resume after LOCK_THREAD too). What has not started is
settled in the same transaction: after it has committed, nothing that it forbids can start. The
event of an action holds who did it and the key that the caller gave it: of two actions with one key
the second does nothing.
"""

from typing import Final

from models.tallies import count_each
from umbel.tallies import RUNS_SETTLED

_ONCE: Final = """
(%(key)s::text IS NULL OR NOT EXISTS (
  SELECT 1 FROM events d WHERE d.run_id = %(run_id)s AND d.data ->> 'key' = %(key)s))
"""
_BY: Final = "jsonb_strip_nulls(jsonb_build_object('by', %(owner)s::text, 'key', %(key)s::text))"

# Only what the asker did: a key is no way to look at what others do.
ACTION: Final = """
SELECT e.kind, e.ref FROM events e JOIN runs r ON r.id = e.run_id
WHERE e.run_id = %(run_id)s AND r.tenant = %(tenant)s AND e.data ->> 'key' = %(key)s
  AND e.data ->> 'by' = %(owner)s
"""

# Of many racers one wins: the status itself is the compare-and-set. Other limits win only against
# the policy that they were made from. A collaborator may have corrected another run of the thread
# meanwhile.
RESUME: Final = f"""
WITH r AS (
  UPDATE runs SET status = 'running', reason = NULL, detail = NULL, work = 'ready',
    settled_at = NULL, policy_rev = policy_rev + (%(policy)s::text IS NOT NULL)::int,
    stop_at = NULL, attempts = 0, losses = 0, failures = 0, corrections = 0, fence = fence + 1,
    not_before = NULL, ring_at = now(), next_seq = next_seq + 1,
    owner_must_approve = owner_must_approve OR (
      SELECT t.owner_must_approve FROM threads t WHERE t.id = runs.thread_id),
    stale_step = CASE WHEN EXISTS (SELECT 1 FROM evidence_sources e
      WHERE e.thread_id = runs.thread_id) THEN step END
  WHERE id = %(run_id)s AND tenant = %(tenant)s AND owner = %(owner)s
    AND status IN ('paused', 'failed', 'cancelled') AND unknowns = 0 AND open_calls = 0 AND {_ONCE}
    AND (%(policy)s::text IS NULL OR EXISTS (SELECT 1 FROM run_specs s
      WHERE s.run_id = runs.id AND s.policy_sha = %(policy_was)s::bytea))
    AND NOT EXISTS (SELECT 1 FROM runs a WHERE a.thread_id = runs.thread_id
      AND a.status IN ('running', 'waiting', 'cancelling'))
  RETURNING id, step, fence, next_seq - 1 AS seq),
p AS (
  UPDATE run_specs SET policy = %(policy)s, policy_sha = sha256(convert_to(%(policy)s, 'UTF8'))
  FROM r WHERE run_specs.run_id = r.id AND %(policy)s::text IS NOT NULL),
e AS (
  INSERT INTO events (run_id, seq, kind, ref, data, fence)
  SELECT r.id, r.seq, 'run.resumed', r.id,
    {_BY} || jsonb_build_object('step', r.step) || %(limits)s::jsonb, r.fence FROM r)
SELECT step FROM r
"""  # noqa: S608 - constant text, no input

# Calls of the step that can no longer start: what `t` (the run) is told when it is given up.
_SKIPPED: Final = """
skipped AS (
  UPDATE calls s SET state = 'skipped', settled_at = clock_timestamp() FROM t
  WHERE t.skips AND s.run_id = t.id AND s.step = t.step
    AND s.state IN ('planned', 'ready', 'awaiting_approval')
  RETURNING s.id, s.position, s.step, s.tool, s.needs_approval AND s.approved_sha IS NULL AS asked),
k AS (
  SELECT count(*)::int AS skipped, count(*) FILTER (WHERE asked)::int AS asked,
    coalesce(bool_and(position > 0), true)::int AS steps FROM skipped),
"""
_SKIPPED_EVIDENCE: Final = """
v AS (
  INSERT INTO evidence (call_id, run_id, thread_id, tenant, body, view, sha256, total_chars)
  SELECT s.id, r.id, r.thread_id, r.tenant, %(skipped_body)s, %(skipped_body)s,
    sha256(convert_to(%(skipped_body)s, 'UTF8')), length(%(skipped_body)s)
  FROM r, skipped s),
"""
_SKIPPED_EVENTS: Final = """
  SELECT r.id, r.seq + row_number() OVER (ORDER BY s.position), 'call.skipped', s.id,
    jsonb_build_object('step', s.step, 'position', s.position, 'tool', s.tool), r.fence
  FROM r, skipped s
"""

_COUNT_STOPPED: Final = count_each(RUNS_SETTLED, "cancelled", "owner_stop", of="r WHERE r.ends")
_COUNT_PAUSED: Final = count_each(RUNS_SETTLED, "paused", "unknown_outcome", of="r WHERE r.pauses")

# The moment of a stop is that of its lock: what started while the stop waited for it came first.
# A run that nobody acts on any more is at its end; another one ends with its last settle, with its
# holder's hand-back, or with the takeover of a dead holder.
STOP: Final = f"""
WITH t AS (
  SELECT id, step, work, open_calls, true AS skips FROM runs
  WHERE id = %(run_id)s AND tenant = %(tenant)s AND owner = %(owner)s AND stop_at IS NULL
    AND status IN ('queued', 'running', 'waiting', 'paused') AND {_ONCE}),
{_SKIPPED}
r AS (
  UPDATE runs SET stop_at = clock_timestamp(), not_before = NULL,
    open_calls = runs.open_calls - k.skipped,
    open_approvals = open_approvals - k.asked,
    step = runs.step + CASE WHEN n.ends AND t.work = 'calls' THEN k.steps ELSE 0 END,
    work = CASE WHEN n.ends THEN 'none' ELSE runs.work END,
    status = CASE WHEN n.ends THEN 'cancelled' ELSE 'cancelling' END,
    reason = CASE WHEN n.ends THEN 'owner_stop' END,
    detail = CASE WHEN n.ends AND runs.unknowns > 0 THEN detail END,
    settled_at = CASE WHEN n.ends THEN now() END,
    next_seq = next_seq + 1 + k.skipped + n.ends::int
  FROM t, k, LATERAL (SELECT t.work <> 'held' AND t.open_calls = k.skipped AS ends) n
  WHERE runs.id = t.id
  RETURNING runs.id, runs.tenant, runs.thread_id, runs.fence, k.skipped, n.ends,
    next_seq - 1 - k.skipped - n.ends::int AS seq),
counted AS ({_COUNT_STOPPED}),
b AS (
  UPDATE steers SET state = 'returned', settled_at = now() FROM r
  WHERE steers.run_id = r.id AND steers.state = 'accepted'),
{_SKIPPED_EVIDENCE}
e AS (
  INSERT INTO events (run_id, seq, kind, ref, data, fence)
  SELECT r.id, r.seq, 'run.stopping', r.id, {_BY}, r.fence FROM r
  UNION ALL {_SKIPPED_EVENTS}
  UNION ALL
  SELECT r.id, r.seq + 1 + r.skipped, 'run.cancelled', r.id,
    jsonb_build_object('reason', 'owner_stop'), r.fence
  FROM r WHERE r.ends)
SELECT ends FROM r
"""  # noqa: S608 - constant text, no input

DRAINING: Final = """
SELECT id FROM calls WHERE run_id = %(run_id)s AND state = 'started' ORDER BY step, position
"""

# `redirect` makes the step's uncommitted decision stale, its unstarted calls void, and wakes a run
# that waits to ask again; `append` leaves all that alone. Either way the text is in every request
# that is built from now on. So whatever is decided from a collaborator's words is decided after the
# row says that the owner must approve; what is decided already has not heard them.
STEER: Final = f"""
WITH t AS (
  SELECT q.id, q.step, q.work, q.open_calls, %(mode)s = 'redirect' AS skips,
    %(mode)s = 'redirect' AND q.work = 'ready' AND q.not_before > now() AS wakes,
    q.owner <> %(owner)s AS is_foreign
  FROM runs q JOIN threads h ON h.id = q.thread_id
  WHERE q.id = %(run_id)s AND q.tenant = %(tenant)s AND q.stop_at IS NULL
    AND q.status IN ('queued', 'running', 'waiting', 'paused') AND {_ONCE}
    AND (q.owner = %(owner)s OR (h.visibility = 'public' AND %(owner)s = ANY (h.collaborators)))),
{_SKIPPED}
d AS (
  UPDATE model_calls m SET decision = 'discard' FROM t
  WHERE t.skips AND m.run_id = t.id AND m.step = t.step AND m.state = 'closed'
    AND m.decision IS NULL AND m.purpose = 'main'),
r AS (
  UPDATE runs SET steers = steers + 1, steer_rev = steer_rev + t.skips::int, corrections = 0,
    owner_must_approve = owner_must_approve OR t.is_foreign,
    open_calls = runs.open_calls - k.skipped,
    step = runs.step + CASE WHEN n.joins THEN k.steps ELSE 0 END,
    open_approvals = open_approvals - k.asked,
    work = CASE WHEN n.joins THEN CASE WHEN unknowns > 0 THEN 'none' ELSE 'ready' END
      ELSE runs.work END,
    status = CASE WHEN n.joins AND unknowns > 0 THEN 'paused' WHEN k.asked > 0 THEN 'running'
      ELSE status END,
    reason = CASE WHEN n.joins AND unknowns > 0 THEN 'unknown_outcome' WHEN k.asked = 0 THEN reason
      END,
    detail = CASE WHEN n.joins AND unknowns > 0 THEN %(unknown_detail)s WHEN k.asked = 0 THEN detail
      END,
    settled_at = CASE WHEN n.joins AND unknowns > 0 THEN now() ELSE settled_at END,
    ring_at = CASE WHEN n.joins OR t.wakes THEN now() ELSE ring_at END,
    not_before = CASE WHEN NOT t.skips THEN not_before END,
    pause_reason = CASE WHEN NOT t.skips THEN pause_reason END,
    pause_detail = CASE WHEN NOT t.skips THEN pause_detail END,
    next_seq = next_seq + 1 + k.skipped + (n.joins AND unknowns > 0)::int
  FROM t, k, LATERAL (
    SELECT t.work = 'calls' AND k.skipped > 0 AND t.open_calls = k.skipped AS joins) n
  WHERE runs.id = t.id
  RETURNING runs.id, runs.tenant, runs.thread_id, runs.fence, runs.steers AS rev, runs.step,
    runs.work, t.is_foreign, k.skipped, n.joins AND unknowns > 0 AS pauses,
    next_seq - 1 - k.skipped - (n.joins AND unknowns > 0)::int AS seq, n.joins OR t.wakes AS rings),
counted AS ({_COUNT_PAUSED}),
h AS (
  UPDATE threads SET owner_must_approve = true FROM r
  WHERE threads.id = r.thread_id AND r.is_foreign AND NOT threads.owner_must_approve),
i AS (
  INSERT INTO steers (id, tenant, run_id, rev, author, mode, text)
  SELECT %(steer_id)s, r.tenant, r.id, r.rev, %(owner)s, %(mode)s, %(text)s FROM r),
{_SKIPPED_EVIDENCE}
e AS (
  INSERT INTO events (run_id, seq, kind, ref, data, fence)
  SELECT r.id, r.seq, 'run.steered', %(steer_id)s,
    {_BY} || jsonb_build_object('rev', r.rev, 'mode', %(mode)s::text), r.fence FROM r
  UNION ALL {_SKIPPED_EVENTS}
  UNION ALL
  SELECT r.id, r.seq + 1 + r.skipped, 'run.paused', r.id, jsonb_build_object(
    'reason', 'unknown_outcome', 'detail', %(unknown_detail)s::text), r.fence
  FROM r WHERE r.pauses)
SELECT rev, CASE WHEN rings AND work = 'ready' THEN step END AS next_step FROM r
"""  # noqa: S608 - constant text, no input

# The owner's word about a change whose outcome nobody knew. It executes nothing. Unless it did
# happen, its resource stays closed until the old attempt can no longer fire.
VERIFY: Final = """
WITH x AS (
  UPDATE receipts SET verified = %(outcome)s, verified_by = %(owner)s, verified_text = %(text)s,
    verified_at = now()
  FROM runs r
  WHERE receipts.call_id = %(call_id)s AND r.id = receipts.run_id AND r.id = %(run_id)s
    AND r.tenant = %(tenant)s AND r.owner = %(owner)s
    AND receipts.outcome = 'unknown' AND receipts.verified IS NULL
  RETURNING receipts.call_id),
c AS (
  UPDATE calls k SET settled_at = clock_timestamp(),
    state = CASE WHEN %(outcome)s = 'not_happened' THEN 'errored' ELSE 'returned' END,
    quiet_until = CASE WHEN %(outcome)s <> 'happened' THEN
      greatest(k.deadline_at, now()) + make_interval(secs => %(quiet_seconds)s) END
  FROM x WHERE k.id = x.call_id AND k.state = 'unknown'
  RETURNING k.id, k.run_id, k.step, k.position, k.tool),
r AS (
  UPDATE runs SET unknowns = unknowns - 1, next_seq = next_seq + 1,
    detail = CASE WHEN unknowns = 1 THEN %(known_detail)s ELSE detail END
  FROM c WHERE runs.id = c.run_id
  RETURNING runs.id, runs.tenant, runs.thread_id, runs.fence, unknowns, next_seq - 1 AS seq),
v AS (
  INSERT INTO evidence (call_id, run_id, thread_id, tenant, body, view, sha256, total_chars)
  SELECT c.id, r.id, r.thread_id, r.tenant, %(body)s, %(body)s,
    sha256(convert_to(%(body)s, 'UTF8')), length(%(body)s) FROM r, c),
e AS (
  INSERT INTO events (run_id, seq, kind, ref, data, fence)
  SELECT r.id, r.seq, 'call.verified', c.id, jsonb_build_object('step', c.step,
    'position', c.position, 'tool', c.tool, 'outcome', %(outcome)s::text, 'by', %(owner)s::text),
    r.fence FROM r, c)
SELECT unknowns FROM r
"""

# What a tool reports after its owner has spoken settles nothing and is not forgotten: a change that
# was done after all is not sent again in this thread.
NOTE_LATE: Final = """
WITH x AS (
  UPDATE receipts SET late_outcome = %(outcome)s,
    late_body = coalesce(%(body)s, %(view)s)
  WHERE receipts.call_id = %(call_id)s AND receipts.run_id = %(run_id)s
    AND receipts.attempt = %(attempt)s AND verified IS NOT NULL AND late_outcome IS NULL
  RETURNING receipts.call_id, receipts.run_id, verified,
    verified <> CASE late_outcome WHEN 'done' THEN 'happened' ELSE 'not_happened' END AS differs),
r AS (
  UPDATE runs SET next_seq = next_seq + 1
  FROM x WHERE runs.id = x.run_id
  RETURNING runs.id, runs.fence, next_seq - 1 AS seq)
INSERT INTO events (run_id, seq, kind, ref, data, fence)
SELECT r.id, r.seq, CASE WHEN x.differs THEN 'call.conflict' ELSE 'call.confirmed' END, x.call_id,
  jsonb_build_object('outcome', %(outcome)s::text, 'verified', x.verified), r.fence
FROM r, x RETURNING kind
"""
