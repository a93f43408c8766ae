"""Calls that a worker leaves to others: as if it had not started them."""

from dataclasses import dataclass
from typing import Any, Final

from models import hot
from models.calls import CallRow, Started
from models.database import Database
from umbel.names import TOOLS_QUEUE

# The attempt does not count. Its number is given out again, but never to the same holder: a worker
# that ends starts nothing more, and whoever writes an outcome proves both. Run after LOCK_RUN: a
# stop skips what is ready, and would not see a read that becomes so at the same moment.
_HAND_BACK_READ: Final = """
UPDATE calls c SET state = 'ready', ring_at = NULL, attempt = c.attempt - 1
FROM runs r
WHERE c.id = %(call_id)s AND c.attempt = %(attempt)s AND c.holder = %(worker)s
  AND c.state = 'started' AND c.effect <> 'mutation'
  AND r.id = c.run_id AND r.stop_at IS NULL AND r.steer_rev = c.steer_rev
RETURNING c.id
"""

# A look counts once its time has come: doubled or late messages are no further looks. While a
# living worker has the tool, looks only take time.
LEAVE_CALL: Final = """
UPDATE calls c SET misses = m.counted, rings = least(c.rings + 1, 1000),
  ring_at = now() + make_interval(secs => CASE WHEN m.counted < %(at_once)s THEN 0
    ELSE %(wait_seconds)s::float END)
FROM (
  SELECT k.id, CASE WHEN EXISTS (
      SELECT 1 FROM workers w WHERE w.queues @> ARRAY[%(queue)s] AND w.tools @> ARRAY[%(tool)s]
        AND w.beat_at > now() - make_interval(secs => %(dead_after)s))
    THEN least(k.misses + 1, %(at_once)s) ELSE least(k.misses + 1, 1000) END AS counted
  FROM calls k WHERE k.id = %(call_id)s AND k.state = 'ready'
    AND (k.ring_at IS NULL OR k.ring_at <= now())
  FOR UPDATE) m
WHERE c.id = m.id
RETURNING c.misses, c.rings
"""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a call waits for a worker that has its tool."""

    at_once: int
    """Looks up to here are repeated at once, by whoever hears of the call."""
    wait_seconds: float
    """Between all further ones, at least."""
    dead_after_seconds: float
    """A worker that has been silent for so long has no tools."""


@dataclass(frozen=True, slots=True)
class Left:
    """A call that a worker without its tool has left to others."""

    misses: int
    """Such looks so far, while no living worker has had the tool."""
    rings: int
    is_due: bool
    """It may be looked at again at once."""


def hand_back_read(database: Database, started: Started) -> bool:
    """Make a started read ready again, without an attempt.

    False when it would never be started again, as its run was stopped or corrected, or when it is
    not its worker's any more.
    """
    parameters = {
        "call_id": started.call.call_id,
        "run_id": started.call.run_id,
        "attempt": started.attempt,
        "worker": started.worker,
    }
    _, rows = database.run((hot.LOCK_RUN, parameters), (_HAND_BACK_READ, parameters))
    return bool(rows)


def leave_call(database: Database, call: CallRow, tool: str, patience: Patience) -> Left | None:
    """Note that this worker lacks the tool of a ready call, of this digest, and do nothing else.

    None: the call is not ready any more, or it is too early for another look.
    """
    parameters: dict[str, Any] = {
        "call_id": call.call_id,
        "tool": tool,
        "queue": TOOLS_QUEUE,
        "at_once": patience.at_once,
        "wait_seconds": patience.wait_seconds,
        "dead_after": patience.dead_after_seconds,
    }
    [rows] = database.run((LEAVE_CALL, parameters))
    if not rows:
        return None
    misses = int(rows[0]["misses"])
    return Left(misses, rows[0]["rings"], is_due=misses < patience.at_once)
