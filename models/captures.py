"""What a running call writes beside its evidence row: chunks of long text, and pictures.

Each write proves that the call is still its worker's and moves its deadline. What it writes is seen
only once the evidence row names the capture: see `models.calls.settle`.
"""

from typing import Any, Final

from loop.pictures import Picture
from models.calls import Started
from models.database import Database

# A change may still report what came of it while its outcome is unknown: results are facts. The row
# is locked until the end of the transaction: nothing is written after the call was settled.
_OPEN: Final = """
c AS (
  UPDATE calls SET deadline_at = CASE WHEN state = 'started'
    THEN clock_timestamp() + make_interval(secs => stall_seconds) ELSE deadline_at END
  WHERE id = %(call_id)s AND attempt = %(attempt)s AND holder = %(worker)s
    AND (state = 'started' OR (state = 'unknown' AND effect = 'mutation'))
  RETURNING id, run_id, tenant),
k AS (
  INSERT INTO captures (id, call_id, run_id, tenant)
  SELECT %(capture_id)s, id, run_id, tenant FROM c ON CONFLICT (id) DO NOTHING)
"""
_ADD_CHUNK: Final = f"""
WITH {_OPEN},
p AS (
  INSERT INTO evidence_chunks (capture_id, start_char, start_line, body)
  SELECT %(capture_id)s, %(start_char)s, %(start_line)s, %(body)s FROM c
  ON CONFLICT (capture_id, start_char) DO NOTHING)
SELECT id FROM c
"""  # noqa: S608 - constant text, no input
_ADD_PICTURE: Final = f"""
WITH {_OPEN},
p AS (
  INSERT INTO pictures (capture_id, number, media_type, body, sha256)
  SELECT %(capture_id)s, %(number)s, %(media_type)s, %(body)s::bytea, sha256(%(body)s::bytea) FROM c
  ON CONFLICT (capture_id, number) DO NOTHING)
SELECT id FROM c
"""  # noqa: S608 - constant text, no input

# A settled call gets no other evidence: what its row does not name is of an attempt that was lost.
_SWEEP: Final = """
DELETE FROM captures WHERE id IN (
  SELECT k.id FROM captures k JOIN calls c ON c.id = k.call_id
  WHERE NOT k.is_kept AND c.state IN ('returned', 'refused', 'errored', 'skipped')
  ORDER BY k.begun_at LIMIT %(limit)s FOR UPDATE OF k SKIP LOCKED)
RETURNING id
"""


def add_chunk(
    database: Database,
    started: Started,
    capture_id: str,
    *,
    start_char: int,
    start_line: int,
    body: str,
) -> bool:
    """Write a part of a result; False when the call is not its worker's any more.

    Written again, it is not doubled.
    """
    parameters = _proof(started, capture_id)
    parameters |= {"start_char": start_char, "start_line": start_line, "body": body}
    [rows] = database.run((_ADD_CHUNK, parameters))
    return bool(rows)


def add_picture(
    database: Database, started: Started, capture_id: str, *, number: int, picture: Picture
) -> bool:
    """Write a picture of a result; as `add_chunk`."""
    parameters = _proof(started, capture_id)
    parameters |= {"number": number, "media_type": picture.media_type, "body": picture.body}
    [rows] = database.run((_ADD_PICTURE, parameters))
    return bool(rows)


def sweep_captures(database: Database, *, limit: int) -> int:
    """Remove what lost attempts of settled calls wrote, oldest first; how many captures."""
    [rows] = database.run((_SWEEP, {"limit": limit}))
    return len(rows)


def _proof(started: Started, capture_id: str) -> dict[str, Any]:
    return {
        "call_id": started.call.call_id,
        "attempt": started.attempt,
        "worker": started.worker,
        "capture_id": capture_id,
    }
