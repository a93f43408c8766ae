"""Refreshes in SQL: results read again, in the same step, by calls that the model did not make.

A refresh is a row of `calls` below position 0 that names the call whose result it renews. It is
started, settled, freed and given up like any other call; only its join leads back to the same step.
"""

from typing import Final

from models.hot import STILL_HELD
from models.recorded import PICTURES

# Every batch has a source revision of its own: so a request names exactly those that it shows. What
# is known without reading (a deletion) ends with the batch. A reply that waits to be applied was
# made from the old results.
BEGIN: Final = f"""
WITH n AS (
  SELECT count(*) FILTER (WHERE x.state IN ('ready', 'planned'))::int AS open,
    count(*)::int AS total
  FROM jsonb_to_recordset(%(refreshes)s::jsonb) AS x(state text)),
r AS (
  UPDATE runs SET source_rev = source_rev + 1, holder = NULL, attempts = attempts - 1,
    open_calls = n.open, work = CASE WHEN n.open > 0 THEN 'calls' ELSE 'ready' END,
    ring_at = CASE WHEN n.open = 0 THEN now() END, next_seq = next_seq + 1
  FROM n WHERE {STILL_HELD}
  RETURNING runs.id, tenant, thread_id, step, work, fence, steer_rev, source_rev, auth_rev, n.open,
    n.total, next_seq - 1 AS seq),
d AS (
  UPDATE model_calls m SET decision = 'discard' FROM r
  WHERE m.run_id = r.id AND m.step = r.step AND m.state = 'closed' AND m.decision IS NULL
    AND m.purpose = 'main'),
x AS (
  SELECT x.*, (SELECT coalesce(min(c.position), 0) FROM calls c
      WHERE c.run_id = r.id AND c.step = r.step AND c.position < 0) - x.place AS position,
    (SELECT coalesce(max(f.refresh_no), 0) + 1 FROM calls f WHERE f.refreshes = x.root) AS no
  FROM r, jsonb_to_recordset(%(refreshes)s::jsonb) AS x(id text, place int, root text, handle text,
    tool text, tool_version text, placement text, effect text, state text, args_text text,
    stall_seconds float, body text, view text, changed jsonb)),
c AS (
  INSERT INTO calls (id, run_id, tenant, step, position, model_id, tool, tool_version, effect,
    placement, state, args_text, args_sha, steer_rev, source_rev, auth_rev, stall_seconds,
    refreshes, refresh_no, settled_at, ring_at)
  SELECT x.id, r.id, r.tenant, r.step, x.position, '', x.tool, x.tool_version, x.effect,
    x.placement, x.state, x.args_text, sha256(convert_to(x.args_text, 'UTF8')), r.steer_rev,
    r.source_rev, r.auth_rev, x.stall_seconds, x.root, x.no,
    CASE WHEN x.body IS NOT NULL THEN clock_timestamp() END,
    CASE WHEN x.state = 'ready' THEN now() END
  FROM r, x),
v AS (
  INSERT INTO evidence (call_id, run_id, thread_id, tenant, body, view, sha256, total_chars)
  SELECT x.id, r.id, r.thread_id, r.tenant, x.body, x.view, sha256(convert_to(x.body, 'UTF8')),
    length(x.body)
  FROM r, x WHERE x.body IS NOT NULL),
s AS (
  INSERT INTO evidence_sources (call_id, source, tenant, run_id, thread_id, revision, seen_seq)
  SELECT x.id, o.source, r.tenant, r.id, r.thread_id,
    CASE WHEN g.seq IS NULL THEN o.revision END, coalesce(g.seq, o.seen_seq)
  FROM r, x JOIN evidence_sources o ON o.call_id = x.handle
  LEFT JOIN LATERAL (SELECT y.seq FROM jsonb_to_recordset(x.changed) AS y(source text, seq int)
    WHERE y.source = o.source) g ON true),
e AS (
  INSERT INTO events (run_id, seq, kind, ref, data, fence)
  SELECT r.id, r.seq, 'evidence.refreshing', r.step::text, jsonb_build_object('step', r.step,
    'again', r.open, 'gone', r.total - r.open), r.fence FROM r)
SELECT work, step FROM r
"""  # noqa: S608 - constant text, no input

# Nothing to read again: the same step may be asked. Results that keep changing are looked at again
# for the next one.
STAY: Final = f"""
UPDATE runs SET holder = NULL, work = 'ready', attempts = attempts - 1, ring_at = now(),
  stale_step = CASE WHEN %(waits)s THEN step + 1 END,
  source_rev = source_rev + (EXISTS (SELECT 1 FROM given_sources g
    WHERE g.run_id = runs.id AND g.source_rev > runs.source_rev))::int
WHERE {STILL_HELD}
RETURNING id
"""  # noqa: S608 - constant text, no input

# The newest evidence of every result that was read again, as a request showed it: of the run itself
# up to a source revision, of the thread's other runs as they were when this one began.
SHOWN: Final = f"""
SELECT DISTINCT ON (f.refreshes) f.refreshes AS root, f.id AS handle, f.state, v.view,
  ARRAY(SELECT s.source FROM evidence_sources s WHERE s.call_id = f.id ORDER BY s.source)
    AS sources,
  {PICTURES.format(condition="%(takes_pictures)s", evidence="v")}
FROM runs q JOIN calls f ON f.run_id = q.id AND f.refreshes IS NOT NULL
JOIN evidence v ON v.call_id = f.id
WHERE q.thread_id = %(thread_id)s AND f.state <> 'skipped'
  AND CASE WHEN q.id = %(run_id)s THEN f.source_rev <= %(source_rev)s
    ELSE v.stored_at < (SELECT m.opened_at FROM model_calls m
      WHERE m.run_id = %(run_id)s AND m.step = 1 AND m.attempt = 1) END
ORDER BY f.refreshes, f.refresh_no DESC
"""  # noqa: S608 - constant text, no input
