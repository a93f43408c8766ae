"""Worker processes as the database knows them: registered, beating, gone."""

from typing import Final

from models.database import Database
from umbel.contracts import WorkerId

REGISTER: Final = """
INSERT INTO workers (id, node, role, pool, pid)
VALUES (%(id)s, %(node)s, %(role)s, %(pool)s, %(pid)s)
ON CONFLICT (id) DO UPDATE SET beat_at = now()
"""
DROP_PREDECESSORS: Final = "DELETE FROM workers WHERE node = %(node)s"
REMOVE: Final = "DELETE FROM workers WHERE id = %(id)s"


def register(
    database: Database, worker: WorkerId, *, node: str, role: str, pool: str, pid: int
) -> None:
    """Make this process known; from now on it must beat."""
    database.run((REGISTER, {"id": worker, "node": node, "role": role, "pool": pool, "pid": pid}))


def drop_predecessors(database: Database, node: str) -> None:
    """Forget processes of an earlier life of this node: the caller proved that none is alive."""
    database.run((DROP_PREDECESSORS, {"node": node}))


def remove(database: Database, worker: WorkerId) -> None:
    """Say that this process ends; whatever it still holds may be taken over at once."""
    database.run((REMOVE, {"id": worker}))
