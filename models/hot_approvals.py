"""Approvals in SQL: granted, denied, run out. The rules stand in models/hot.py.

The approval is three columns of the call: it is used up by the state change of the call itself, so
that it can be neither used twice nor outlive its call. Each of these runs after LOCK_RUN.
"""

from typing import Final

from models.hot_settle import JOIN

# What its owner may decide about: a call of theirs that still asks, in a run that has neither been
# stopped nor moved on since, by the hash of the bytes that they were shown.
_DECIDABLE: Final = """
  c.id = %(call_id)s AND r.id = c.run_id AND r.tenant = %(tenant)s AND r.owner = %(owner)s
  AND r.stop_at IS NULL AND c.state = 'awaiting_approval' AND c.args_sha = %(args_sha)s
  AND c.steer_rev = r.steer_rev AND c.source_rev = r.source_rev AND c.auth_rev = r.auth_rev
  AND (c.approval_until IS NULL OR c.approval_until > clock_timestamp())
"""
_ABOUT: Final = """
c.id, c.run_id, c.tenant, c.step, c.position, c.tool, c.tool_version, c.args_sha, c.steer_rev,
  c.source_rev
"""

# The word about `c`, for the record; `r` is its run with the number of the event.
_SAID: Final = """
a AS (
  INSERT INTO approvals (id, tenant, run_id, call_id, word, said_by, words, tool, tool_version,
    args_sha, steer_rev, source_rev)
  SELECT %(approval_id)s, c.tenant, c.run_id, c.id, %(word)s, %(said_by)s, %(words)s, c.tool,
    c.tool_version, c.args_sha, c.steer_rev, c.source_rev FROM c, r),
e AS (
  INSERT INTO events (run_id, seq, kind, ref, data, fence)
  SELECT r.id, r.seq, 'approval.' || %(word)s, c.id, jsonb_build_object('step', c.step,
    'position', c.position, 'tool', c.tool, 'approval', %(approval_id)s::text,
    'by', %(said_by)s::text), r.fence FROM r, c)
"""

# Granted, the call is as if it had just been decided upon, as far as there is a place for it and
# nothing else changes what it touches.
GRANT: Final = f"""
WITH c AS (
  UPDATE calls c SET approved_sha = c.args_sha, state = p.state,
    approval_until = clock_timestamp() + make_interval(secs => %(use_within)s),
    ring_at = CASE WHEN p.state = 'ready' THEN now() END
  FROM runs r JOIN run_specs s ON s.run_id = r.id JOIN calls own ON own.id = %(call_id)s, LATERAL (
    SELECT CASE WHEN count(*) < coalesce((s.policy::jsonb ->> 'parallel')::int, 1)
      AND NOT coalesce(bool_or(o.resource_key = own.resource_key), false) THEN 'ready'
      ELSE 'planned' END AS state
    FROM calls o WHERE o.run_id = r.id AND o.step = r.step AND o.state IN ('ready', 'started')) p
  WHERE {_DECIDABLE}
  RETURNING {_ABOUT}, c.state),
r AS (
  UPDATE runs SET next_seq = next_seq + 1, open_approvals = open_approvals - 1,
    status = CASE WHEN open_approvals = 1 THEN 'running' ELSE status END,
    reason = CASE WHEN open_approvals > 1 THEN reason END,
    detail = CASE WHEN open_approvals > 1 THEN detail END
  FROM c WHERE runs.id = c.run_id
  RETURNING runs.id, runs.fence, next_seq - 1 AS seq),
{_SAID}
SELECT c.state, c.tool FROM c, r
"""  # noqa: S608 - constant text, no input

_NUMBERED: Final = """
r AS (
  UPDATE runs SET next_seq = next_seq + 1 FROM c WHERE runs.id = c.run_id
  RETURNING runs.id, runs.fence, next_seq - 1 AS seq)
"""
DENY: Final = f"""
WITH c AS (
  SELECT {_ABOUT} FROM calls c, runs r WHERE {_DECIDABLE} FOR UPDATE OF c),
{_NUMBERED}, {_SAID}
SELECT r.id FROM c, r
"""  # noqa: S608 - constant text, no input

# Nobody decided in time, or what was approved could not be started in time.
_OVER: Final = """
  c.needs_approval AND c.state IN ('awaiting_approval', 'planned', 'ready')
  AND c.approval_until <= clock_timestamp()
"""
EXPIRE: Final = f"""
WITH c AS (
  SELECT {_ABOUT} FROM calls c WHERE c.id = %(call_id)s AND {_OVER} FOR UPDATE),
{_NUMBERED}, {_SAID}
SELECT r.id FROM c, r
"""  # noqa: S608 - constant text, no input
OVER: Final = f"""
SELECT c.id, c.run_id, c.approved_sha IS NOT NULL AS is_granted FROM calls c
WHERE c.settled_at IS NULL AND {_OVER} ORDER BY c.run_id LIMIT %(limit)s
"""  # noqa: S608 - constant text, no input

# After DENY or EXPIRE: the call ends by the word that was said with this id.
SETTLE_UNAPPROVED: Final = f"""
WITH x AS (
  SELECT k.id, k.state FROM calls k JOIN approvals a ON a.call_id = k.id
  WHERE a.id = %(approval_id)s AND k.state IN ('awaiting_approval', 'planned', 'ready')
  FOR UPDATE OF k),
c AS (
  UPDATE calls k SET state = %(state)s, settled_at = clock_timestamp() FROM x WHERE k.id = x.id
  RETURNING k.id, k.run_id, k.step, k.position, k.tool, k.state, k.holder,
    CASE x.state WHEN 'ready' THEN 'started' ELSE x.state END AS was),
{JOIN}
"""  # noqa: S608 - constant text, no input
