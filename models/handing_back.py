"""A read that its worker gives back because it ends: as if it had not been started."""

from typing import Final

from models import hot
from models.calls import Started
from models.database import Database

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
