"""What one worker holds by the record, for comparison with what its code is at."""

from dataclasses import dataclass
from typing import Final

from models.database import Database
from umbel.contracts import CallId, RunId, WorkerId

_HELD: Final = """
SELECT id, step, fence FROM runs WHERE work = 'held' AND holder = %(worker)s
"""
_STARTED: Final = """
SELECT id, attempt, args_text FROM calls WHERE state = 'started' AND holder = %(worker)s
"""


@dataclass(frozen=True, slots=True)
class HeldRun:
    """A run the record gives to a worker."""

    run_id: RunId
    step: int
    fence: int
    """Of its claim: a later claim of the same worker is another row."""


@dataclass(frozen=True, slots=True)
class StartedCall:
    """A call the record says a worker runs."""

    call_id: CallId
    attempt: int
    args_text: str


def held_by(database: Database, worker: WorkerId) -> tuple[list[HeldRun], list[StartedCall]]:
    """The runs and calls of a worker."""
    parameters = {"worker": worker}
    runs, calls = database.run((_HELD, parameters), (_STARTED, parameters))
    return (
        [HeldRun(RunId(row["id"]), row["step"], row["fence"]) for row in runs],
        [StartedCall(CallId(row["id"]), row["attempt"], row["args_text"]) for row in calls],
    )
