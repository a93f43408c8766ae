"""Sources in SQL: named by results, changed outside, looked at before the model is asked.

A notice is one row of `sources`, written alone; then every run that rests on the source is told in
a transaction of its own, by whoever wrote the row or, should it have died, by the sweeper.
Revisions that are whole numbers have an order; of others one only knows whether they are the same.
"""

from typing import Final

from models.tallies import count_each
from umbel.tallies import RUNS_SETTLED

MAX_REFRESHES: Final = 3
"""Times a result is read again for one step; then the step goes on with what it has."""

# One lock per tenant, shared by results that name sources and exclusive for notices: when a notice
# is committed, every result that had not heard of it is committed too. Taken after LOCK_RUN by the
# former, alone by the latter, so that it takes part in no deadlock.
_LOCK: Final = "hashtextextended('sources ' || %(tenant)s, 0)"
LOCK_SHARED: Final = f"SELECT pg_advisory_xact_lock_shared({_LOCK})"
LOCK_ALONE: Final = f"SELECT pg_advisory_xact_lock({_LOCK})"

# Whether what was read of a source, `e`, is what its row `s` tells of.
_CURRENT: Final = """
(CASE WHEN e.revision ~ '^[0-9]+$' AND s.revision ~ '^[0-9]+$'
  THEN e.revision::numeric >= s.revision::numeric + s.is_deleted::int
  ELSE NOT s.is_deleted AND coalesce(e.revision = s.revision, false) END)
"""

# Idempotent and monotonic: what is older than what is known, or the same, is no news. A deletion
# without a revision is of the last one known.
CHANGE: Final = """
INSERT INTO sources AS s (tenant, source, seq, revision, is_deleted, reason, text)
VALUES (%(tenant)s, %(source)s, 1, %(revision)s, %(is_deleted)s, %(reason)s, %(text)s)
ON CONFLICT (tenant, source) DO UPDATE SET seq = s.seq + 1, is_deleted = excluded.is_deleted,
  revision = CASE WHEN excluded.is_deleted THEN coalesce(excluded.revision, s.revision)
    ELSE excluded.revision END,
  reason = excluded.reason, text = excluded.text, changed_at = clock_timestamp(), told_run = ''
WHERE CASE
  WHEN s.revision ~ '^[0-9]+$' AND excluded.revision ~ '^[0-9]+$'
    THEN (excluded.revision::numeric, excluded.is_deleted) > (s.revision::numeric, s.is_deleted)
  WHEN excluded.is_deleted THEN NOT s.is_deleted
  ELSE s.is_deleted OR excluded.revision IS NULL OR excluded.revision IS DISTINCT FROM s.revision
  END
RETURNING seq
"""

# A result's sources, in the transaction that settles its call. A change knows of its own doing what
# the notices so far say; what a read brought may be older than the last notice: then the run has to
# look before it asks again. Run after LOCK_RUN, LOCK_SHARED and the settling statement.
NAME: Final = f"""
WITH n AS (
  INSERT INTO evidence_sources AS e
    (call_id, source, tenant, run_id, thread_id, revision, seen_seq)
  SELECT c.id, x.source, c.tenant, c.run_id, r.thread_id, x.revision,
    CASE WHEN c.effect = 'mutation' THEN coalesce(s.seq, 0) ELSE 0 END
  FROM calls c JOIN runs r ON r.id = c.run_id
  CROSS JOIN jsonb_to_recordset(%(sources)s::jsonb) AS x(source text, revision text)
  LEFT JOIN sources s ON s.tenant = c.tenant AND s.source = x.source
  WHERE c.id = %(call_id)s AND c.attempt = %(attempt)s AND c.state = 'returned'
  ON CONFLICT (call_id, source) DO UPDATE SET revision = excluded.revision
  RETURNING e.tenant, e.run_id, e.source, e.revision, e.seen_seq)
UPDATE runs SET stale_step = least(stale_step, step) FROM n e
JOIN sources s ON s.tenant = e.tenant AND s.source = e.source
WHERE runs.id = e.run_id AND s.seq > e.seen_seq AND NOT {_CURRENT}
"""  # noqa: S608 - constant text, no input

# Times that a result has been read again for the step that `run` stands at.
_TRIES: Final = """
(SELECT count(*) FROM calls f WHERE f.refreshes = {root} AND f.run_id = {run}.id
  AND f.step = {run}.step AND f.state <> 'skipped')
"""
# Results that requests of `thread` show although a source of theirs has changed since: each with
# the call that the model made for it (`root`) and the evidence shown of that now (`handle`).
# What the thread's own changes did to a source is no news to it.
_AFFECTED: Final = f"""
SELECT e.call_id AS handle, coalesce(k.refreshes, k.id) AS root, e.source, s.seq, s.is_deleted,
  s.reason
FROM evidence_sources e
JOIN sources s ON s.tenant = e.tenant AND s.source = e.source AND s.seq > e.seen_seq
JOIN calls k ON k.id = e.call_id AND k.state <> 'skipped'
WHERE e.thread_id = {{thread}} AND NOT {_CURRENT}
  AND NOT EXISTS (SELECT 1 FROM calls f WHERE f.refreshes = coalesce(k.refreshes, k.id)
    AND f.refresh_no > coalesce(k.refresh_no, 0) AND f.state <> 'skipped')
  AND NOT EXISTS (SELECT 1 FROM evidence_sources o JOIN calls w ON w.id = o.call_id
    WHERE o.thread_id = e.thread_id AND o.source = e.source AND w.effect = 'mutation'
      AND o.named_at >= e.named_at
      AND CASE WHEN s.is_deleted THEN o.revision IS NULL ELSE o.revision = s.revision END)
"""  # noqa: S608 - constant text, no input

# Runs that may rest on a source; each is told by TELL, which looks closely.
RESTING: Final = """
WITH s AS (
  SELECT * FROM sources WHERE tenant = %(tenant)s AND source = %(source)s AND seq = %(seq)s)
SELECT r.id FROM s
JOIN evidence_sources e ON e.tenant = s.tenant AND e.source = s.source AND e.seen_seq < s.seq
JOIN runs r ON r.thread_id = e.thread_id
WHERE r.status IN ('running', 'waiting') AND r.stop_at IS NULL AND r.id > s.told_run
UNION
SELECT r.id FROM s
JOIN given_sources g ON g.tenant = s.tenant AND g.source = s.source AND g.seen_seq < s.seq
JOIN runs r ON r.id = g.run_id
WHERE r.status <> 'completed' AND r.id > s.told_run
ORDER BY id LIMIT %(limit)s
"""
TOLD: Final = """
UPDATE sources SET told_run = %(told_run)s,
  told_seq = CASE WHEN %(is_done)s THEN seq ELSE told_seq END
WHERE tenant = %(tenant)s AND source = %(source)s AND seq = %(seq)s
"""
FIND: Final = """
SELECT seq, told_seq FROM sources WHERE tenant = %(tenant)s AND source = %(source)s
"""
# One of each tenant, then another one of each.
UNTOLD: Final = """
SELECT tenant, source, seq FROM (
  SELECT tenant, source, seq, changed_at,
    row_number() OVER (PARTITION BY tenant ORDER BY changed_at) AS place
  FROM sources WHERE told_seq < seq AND changed_at < now() - make_interval(secs => %(after)s)) s
ORDER BY place, changed_at LIMIT %(limit)s
"""

_COUNTED: Final = ",\n".join(
    f"counted_{reason} AS ("
    + count_each(RUNS_SETTLED, "paused", reason, of=f"r WHERE r.pauses AND r.reason = '{reason}'")
    + ")"
    for reason in ("unknown_outcome", "contract_mismatch")
)
# The run hears that something it rests on has changed. What was decided on the old state and may
# change something is not started any more, nor asked about; reads that wait may go on. A reply that
# is not applied yet is discarded. Calls that are under way go on. A result that was read again so
# often for this step that it is shown as it is moves nothing; the next step looks at it.
# Run after LOCK_RUN.
TELL: Final = f"""
WITH g AS (
  SELECT n.*, s.seq, s.is_deleted, s.text AS new_text, s.reason AS new_reason
  FROM (SELECT * FROM given_sources WHERE run_id = %(run_id)s AND source = %(source)s
    ORDER BY source_rev DESC LIMIT 1) n
  JOIN sources s ON s.tenant = n.tenant AND s.source = n.source AND s.seq > n.seen_seq),
a AS (
  SELECT q.id, bool_or(f0.tries <= {MAX_REFRESHES}) AS moves, bool_or(f0.is_given) AS is_given
  FROM runs q, LATERAL (
    SELECT {_TRIES.format(root="f1.root", run="q")} AS tries, false AS is_given
    FROM ({_AFFECTED.format(thread="q.thread_id")}) f1
    UNION ALL
    SELECT (SELECT count(*) FROM given_sources y WHERE y.run_id = q.id AND y.source = g.source
      AND y.step = q.step AND y.source_rev > 0), true FROM g) f0
  WHERE q.id = %(run_id)s GROUP BY q.id),
t AS (
  SELECT q.id, q.step, q.work, q.open_calls, a.moves,
    q.unknowns > 0 OR q.pause_reason IS NOT NULL AS is_held_up
  FROM runs q JOIN a ON a.id = q.id
  WHERE (q.stop_at IS NULL AND q.status IN ('running', 'waiting'))
    OR (a.is_given AND q.status <> 'completed')),
x AS (
  SELECT s.id, s.state FROM calls s JOIN t ON s.run_id = t.id AND s.step = t.step
  WHERE t.moves AND s.refreshes IS NULL AND s.state IN ('planned', 'ready', 'awaiting_approval')
    AND (s.effect <> 'read' OR s.needs_approval)
  FOR UPDATE OF s),
skipped AS (
  UPDATE calls s SET state = 'skipped', settled_at = clock_timestamp() FROM x WHERE s.id = x.id
  RETURNING s.id, s.position, s.step, s.tool, x.state = 'ready' AS had_place,
    x.state = 'awaiting_approval' AS asked),
k AS (
  SELECT count(*)::int AS skipped, count(*) FILTER (WHERE asked)::int AS asked,
    count(*) FILTER (WHERE had_place)::int AS places FROM skipped),
next_calls AS (
  UPDATE calls s SET state = 'ready', ring_at = NULL FROM k
  WHERE k.places > 0 AND s.id IN (
    SELECT p.id FROM calls p JOIN t ON p.run_id = t.id AND p.step = t.step
    WHERE p.state = 'planned' AND p.effect = 'read' AND NOT p.needs_approval
    ORDER BY p.position LIMIT (SELECT places FROM k))),
d AS (
  UPDATE model_calls m SET decision = 'discard' FROM t
  WHERE t.moves AND m.run_id = t.id AND m.step = t.step AND m.state = 'closed'
    AND m.decision IS NULL AND m.purpose = 'main'),
r AS (
  UPDATE runs SET source_rev = source_rev + t.moves::int,
    stale_step = least(stale_step, t.step + (NOT t.moves)::int),
    open_calls = runs.open_calls - k.skipped, step = runs.step + n.joins::int,
    open_approvals = open_approvals - k.asked,
    work = CASE WHEN n.pauses THEN 'none' WHEN n.joins THEN 'ready' ELSE runs.work END,
    status = CASE WHEN n.pauses THEN 'paused'
      WHEN k.asked > 0 AND open_approvals = k.asked THEN 'running' ELSE status END,
    reason = CASE WHEN n.pauses AND unknowns > 0 THEN 'unknown_outcome'
      WHEN n.pauses THEN pause_reason
      WHEN k.asked > 0 AND open_approvals = k.asked THEN NULL ELSE reason END,
    detail = CASE WHEN n.pauses AND unknowns > 0 THEN %(unknown_detail)s
      WHEN n.pauses THEN pause_detail
      WHEN k.asked > 0 AND open_approvals = k.asked THEN NULL ELSE detail END,
    settled_at = CASE WHEN n.pauses THEN now() ELSE settled_at END,
    ring_at = CASE WHEN n.joins THEN now() ELSE ring_at END,
    next_seq = next_seq + 1 + k.skipped + n.pauses::int
  FROM t, k, LATERAL (
    SELECT j.joins, j.joins AND t.is_held_up AS pauses
    FROM (SELECT t.work = 'calls' AND k.skipped > 0 AND t.open_calls = k.skipped AS joins) j) n
  WHERE runs.id = t.id
  RETURNING runs.id, runs.tenant, runs.thread_id, runs.fence, runs.step, runs.work, runs.reason,
    runs.detail, runs.source_rev, n.joins, t.moves, n.pauses, k.skipped,
    next_seq - 1 - k.skipped - n.pauses::int AS seq),
{_COUNTED},
w AS (
  INSERT INTO given_sources (run_id, source, source_rev, tenant, thread_id, place, author, text,
    gap, reason, seen_seq, step)
  SELECT r.id, g.source, r.source_rev + (NOT r.moves)::int, g.tenant, g.thread_id, g.place,
    g.author, CASE WHEN NOT g.is_deleted THEN g.new_text END,
    CASE WHEN g.is_deleted THEN 'deleted' WHEN g.new_text IS NULL THEN 'unreadable' END,
    g.new_reason, g.seq, t.step
  FROM r, g, t
  ON CONFLICT (run_id, source, source_rev) DO UPDATE SET text = excluded.text,
    gap = excluded.gap, reason = excluded.reason, seen_seq = excluded.seen_seq),
v AS (
  INSERT INTO evidence (call_id, run_id, thread_id, tenant, body, view, sha256, total_chars)
  SELECT s.id, r.id, r.thread_id, r.tenant, %(skipped_body)s, %(skipped_body)s,
    sha256(convert_to(%(skipped_body)s, 'UTF8')), length(%(skipped_body)s)
  FROM r, skipped s),
e AS (
  INSERT INTO events (run_id, seq, kind, ref, data, fence)
  SELECT r.id, r.seq, 'source.changed', NULL, jsonb_build_object('source', %(source)s::text,
    'waits', NOT r.moves), r.fence FROM r
  UNION ALL
  SELECT r.id, r.seq + row_number() OVER (ORDER BY s.position), 'call.skipped', s.id,
    jsonb_build_object('step', s.step, 'position', s.position, 'tool', s.tool), r.fence
  FROM r, skipped s
  UNION ALL
  SELECT r.id, r.seq + 1 + r.skipped, 'run.paused', r.id, jsonb_build_object(
    'reason', r.reason, 'detail', r.detail), r.fence
  FROM r WHERE r.pauses)
SELECT moves, pauses, CASE WHEN joins AND work = 'ready' THEN step END AS next_step FROM r
"""  # noqa: S608 - constant text, no input

# What the holder of a run finds before it asks: see _AFFECTED. Calls of other runs of the thread
# are shown as well.
LOOK: Final = f"""
SELECT a.root, a.handle, o.tool, o.tool_version, o.effect, o.placement, o.args_text,
  o.stall_seconds, v.view,
  jsonb_agg(jsonb_build_object('source', a.source, 'seq', a.seq, 'is_deleted', a.is_deleted,
    'reason', a.reason) ORDER BY a.source) AS changed,
  (SELECT count(*) FROM evidence_sources n WHERE n.call_id = a.handle) AS named,
  {_TRIES.format(root="a.root", run="r")} AS tries
FROM runs r, LATERAL ({_AFFECTED.format(thread="r.thread_id")}) a
JOIN calls o ON o.id = a.root LEFT JOIN evidence v ON v.call_id =
  CASE WHEN o.effect = 'mutation' THEN a.root ELSE a.handle END
WHERE r.id = %(run_id)s AND (o.run_id <> r.id OR o.step < r.step)
GROUP BY r.id, r.step, a.root, a.handle, o.id, v.view
ORDER BY o.run_id, o.step, o.position LIMIT %(limit)s
"""  # noqa: S608 - constant text, no input
