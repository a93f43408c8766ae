"""Worker processes as the database knows them: registered, beating, gone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from models.database import Database
from umbel.contracts import WorkerId

REGISTER: Final = """
INSERT INTO workers (id, node, role, pool, pid, slots, queues, tools)
VALUES (%(id)s, %(node)s, %(role)s, %(pool)s, %(pid)s, %(slots)s, %(queues)s, %(tools)s)
ON CONFLICT (id) DO UPDATE SET beat_at = now()
"""
DROP_PREDECESSORS: Final = "DELETE FROM workers WHERE node = %(node)s"
REMOVE: Final = "DELETE FROM workers WHERE id = %(id)s"
LIVING_SLOTS: Final = """
SELECT q.queue, sum(w.slots)::int AS slots FROM workers w, unnest(w.queues) AS q(queue)
WHERE w.beat_at > now() - make_interval(secs => %(dead_after)s) GROUP BY q.queue
"""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What one process takes, and how much of it at once."""

    slots: int = 0
    queues: tuple[str, ...] = ()


IDLE: Final = Capacity()


def register(  # noqa: PLR0913 - one row's columns
    database: Database,
    worker: WorkerId,
    *,
    node: str,
    role: str,
    pool: str,
    pid: int,
    capacity: Capacity = IDLE,
    tools: Sequence[str] = (),
) -> None:
    """Make this process known, with digests of its tools; from now on it must beat."""
    row = {"id": worker, "node": node, "role": role, "pool": pool, "pid": pid}
    row |= {"slots": capacity.slots, "queues": list(capacity.queues)}
    row |= {"tools": list(tools)}
    database.run((REGISTER, row))


def living_slots(database: Database, *, dead_after_seconds: float) -> dict[str, int]:
    """How much living processes can carry at once, by queue; queues of nobody are left out."""
    [rows] = database.run((LIVING_SLOTS, {"dead_after": dead_after_seconds}))
    return {row["queue"]: row["slots"] for row in rows}


def drop_predecessors(database: Database, node: str) -> None:
    """Forget processes of an earlier life of this node: the caller proved that none is alive."""
    database.run((DROP_PREDECESSORS, {"node": node}))


def remove(database: Database, worker: WorkerId) -> None:
    """Say that this process ends; whatever it still holds may be taken over at once."""
    database.run((REMOVE, {"id": worker}))
