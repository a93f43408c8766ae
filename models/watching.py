"""Whether claims still hold: one look for all the streams of a process."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from models.database import Database
from umbel.contracts import RunId

_STANDING: Final = """
SELECT id, fence, steer_rev, source_rev, stop_at IS NOT NULL AS is_stopped FROM runs
WHERE id = ANY(%(ids)s)
"""


@dataclass(frozen=True, slots=True)
class Standing:
    """What a worker that holds a run must learn of it."""

    fence: int
    steer_rev: int
    source_rev: int
    is_stopped: bool


def standing_of(database: Database, run_ids: Iterable[RunId]) -> dict[RunId, Standing]:
    """How these runs stand now."""
    [rows] = database.run((_STANDING, {"ids": list(run_ids)}))
    return {
        RunId(row["id"]): Standing(
            row["fence"], row["steer_rev"], row["source_rev"], row["is_stopped"]
        )
        for row in rows
    }
