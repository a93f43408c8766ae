"""What the sweeper asks of the database; see models/hot_sweep.py for the statements."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from psycopg.errors import UniqueViolation

from loop.outcome import Errored, Skipped
from models import hot_sweep
from models.calls import (
    MAX_READ_ATTEMPTS,
    Settled,
    end_ready_call,
    settle_lost_change,
    settle_stalled_read,
)
from models.database import Database, Row
from models.row_by_row import row_by_row
from umbel.contracts import CallId, RunId, WorkerId
from umbel.errors import Unavailable
from umbel.names import Effect, Reason, RunStatus

STALLED_READ: Final = (
    '{"error":{"code":"stalled","message":"The tool gave no sign of life for SECONDS seconds '
    'and was given up. Nothing was changed."}}'
)
VOID_READ: Final = (
    '{"error":{"code":"skipped","message":"Its worker was lost, and the run was stopped or '
    'corrected meanwhile: it was not started again. Nothing was changed."}}'
)
DONE_BEFORE: Final = (
    '{"error":{"code":"done_before","message":"Not sent: the same change, sent before, was '
    'reported done after its owner had found that it was not. It is not sent again in this run."}}'
)
LOST_READ: Final = (
    '{"error":{"code":"worker_lost","message":"The workers that ran this call were lost, '
    'several times. Nothing was changed."}}'
)
LOST_WORKER_DETAIL = (
    "This step has cost too many workers their lives; look into the worker logs before you resume."
)


@dataclass(frozen=True, slots=True)
class TakenOver:
    """A run whose holder was dead."""

    run_id: RunId
    step: int
    is_ready: bool
    dead_worker: WorkerId
    status: RunStatus = "running"
    """`paused` once the step has cost too many workers, `cancelled` after a stop."""

    @property
    def ended(self) -> tuple[RunStatus, Reason] | None:
        """Status and reason of the run, if taking it over settled it."""
        if self.is_ready:
            return None
        return (self.status, "owner_stop" if self.status == "cancelled" else "lost_worker")


@dataclass(frozen=True, slots=True)
class DueStep:
    """A ready run to announce."""

    run_id: RunId
    step: int
    rings: int = 0
    """How often it has been announced before."""


@dataclass(frozen=True, slots=True)
class DueCall:
    """A ready call to announce."""

    call_id: CallId
    run_id: RunId
    tool: str
    effect: Effect
    attempt: int
    rings: int = 0


def take_over_runs(database: Database, *, dead_after_seconds: float, limit: int) -> list[TakenOver]:
    """Free the runs whose holder is dead; a run that cost too many workers pauses.

    All in one transaction; one by one where a row is in the way of the others.
    """
    asked = {"dead_after": dead_after_seconds, "limit": limit}

    def take(only: str | None) -> list[Row]:
        detail = {"detail": LOST_WORKER_DETAIL, "only": only}
        return database.run((hot_sweep.TAKE_OVER, asked | detail))[0]

    try:
        rows = take(None)
    except Unavailable:
        raise
    except Exception:  # noqa: BLE001 - it comes again, and is logged, at the row that raises it
        [held] = database.run((hot_sweep.HELD_BY_DEAD, asked))
        taken = row_by_row(held, lambda row: take(row["run_id"]))
        rows = [row for _, found in taken for row in found]
    return [
        TakenOver(
            RunId(row["id"]),
            row["step"],
            row["work"] == "ready",
            WorkerId(row["dead_holder"]),
            row["status"],
        )
        for row in rows
    ]


def free_reads(database: Database, *, dead_after_seconds: float, limit: int) -> int:
    """Make reads ready again whose worker is dead; how many."""
    [rows] = database.run(
        (hot_sweep.READS_BACK, {"dead_after": dead_after_seconds, "limit": limit})
    )
    return len(rows)


def settle_lost_changes(
    database: Database, *, dead_after_seconds: float, limit: int
) -> list[tuple[RunId, CallId, Settled]]:
    """Mark changes as unknown that nobody can finish any more."""
    [rows] = database.run(
        (hot_sweep.LOST_CHANGES, {"dead_after": dead_after_seconds, "limit": limit})
    )
    settled = row_by_row(
        rows,
        lambda row: settle_lost_change(
            database,
            call_id=CallId(row["id"]),
            run_id=RunId(row["run_id"]),
            attempt=row["attempt"],
            dead_after_seconds=dead_after_seconds,
        ),
    )
    return [(RunId(row["run_id"]), CallId(row["id"]), outcome) for row, outcome in settled]


def stalled_read(seconds: float) -> Errored:
    """How a read ends that was silent for so long."""
    return Errored(STALLED_READ.replace("SECONDS", f"{seconds:g}"))


def settle_stalled_reads(database: Database, *, limit: int) -> list[tuple[RunId, Settled]]:
    """End reads as errors that have been silent for longer than their tool allows."""
    [rows] = database.run((hot_sweep.STALLED_READS, {"limit": limit}))
    settled = row_by_row(
        rows,
        lambda row: settle_stalled_read(
            database,
            call_id=CallId(row["id"]),
            run_id=RunId(row["run_id"]),
            attempt=row["attempt"],
            outcome=stalled_read(row["stall_seconds"]),
        ),
    )
    return [(RunId(row["run_id"]), outcome) for row, outcome in settled]


def skip_void_calls(database: Database, *, limit: int) -> list[tuple[RunId, Settled]]:
    """Settle ready calls that nothing will start.

    Reads that lost their worker after a stop or a correction of their run, and changes that were
    reported done although their owner had found otherwise.
    """
    [rows] = database.run((hot_sweep.VOID_CALLS, {"limit": limit}))
    settled = row_by_row(
        rows,
        lambda row: end_ready_call(
            database,
            call_id=CallId(row["id"]),
            run_id=RunId(row["run_id"]),
            outcome=Skipped(DONE_BEFORE if row["effect"] == "mutation" else VOID_READ),
        ),
    )
    return [(RunId(row["run_id"]), outcome) for row, outcome in settled]


def spent_reads(database: Database, *, limit: int) -> list[Row]:
    """Ready reads that have cost too many workers: `id` and `run_id` of each."""
    asked = {"max_attempts": MAX_READ_ATTEMPTS, "limit": limit}
    return database.run((hot_sweep.SPENT_READS, asked))[0]


def end_spent_read(database: Database, row: Row) -> Settled | None:
    """End one of `spent_reads` as an error instead of letting it cost another worker."""
    return end_ready_call(
        database,
        call_id=CallId(row["id"]),
        run_id=RunId(row["run_id"]),
        outcome=Errored(LOST_READ),
    )


def promote_runs(database: Database, *, limit: int) -> list[DueStep]:
    """Start the oldest queued run of each thread that is free."""

    def promote(thread_id: str | None) -> list[Row]:
        return database.run((hot_sweep.PROMOTE, {"thread_id": thread_id, "limit": limit}))[0]

    def promote_alone(row: Row) -> list[Row] | None:
        try:
            return promote(row["thread_id"])
        except UniqueViolation:
            return None  # somebody started a run in it at this moment; the next sweep looks again

    try:
        rows = promote(None)
    except UniqueViolation:
        [free] = database.run((hot_sweep.FREE_THREADS, {"thread_id": None, "limit": limit}))
        rows = [row for _, found in row_by_row(free, promote_alone) for row in found]
    return [DueStep(RunId(row["id"]), row["step"]) for row in rows]


@dataclass(frozen=True, slots=True)
class Room:
    """How much may be announced on one queue now."""

    limit: int
    ring_after_seconds: float
    """After which a row that was announced once, or whose queue is empty, is announced again."""
    is_empty: bool = False
    """Whether the broker has no message of the queue any more."""


def due_steps(
    database: Database, room: Room, *, fresh: bool = True, suspects: bool = True
) -> list[DueStep]:
    """Ready runs that nobody was told of, or not lately; marked as told now.

    In the order to announce them: one of each tenant, then another one of each.

    Args:
        database: where they are.
        room: how many, and after what time again.
        fresh: those that have cost no worker in this step.
        suspects: those that have.
    """
    asked = _asked(room) | {"fresh": fresh, "suspects": suspects}
    [rows] = database.run((hot_sweep.DUE_STEPS, asked))
    rows.sort(key=itemgetter("place"))
    return [DueStep(RunId(row["id"]), row["step"], row["rings"]) for row in rows]


def due_calls(database: Database, room: Room) -> list[DueCall]:
    """Ready calls that nobody was told of, or not lately; as `due_steps`."""
    asked = _asked(room) | {"max_attempts": MAX_READ_ATTEMPTS}
    [rows] = database.run((hot_sweep.DUE_CALLS, asked))
    rows.sort(key=itemgetter("place"))
    return [
        DueCall(
            CallId(row["id"]),
            RunId(row["run_id"]),
            row["tool"],
            row["effect"],
            row["attempt"],
            row["rings"],
        )
        for row in rows
    ]


def _asked(room: Room) -> dict[str, float | bool]:
    return {
        "limit": room.limit,
        "ring_after": room.ring_after_seconds,
        "is_empty": room.is_empty,
    }


def take_back_rings(
    database: Database, run_ids: Sequence[RunId], call_ids: Sequence[CallId]
) -> None:
    """Do not count announcements that the broker did not take; they are repeated all the same."""
    database.run(
        (hot_sweep.TAKE_BACK_STEP_RINGS, {"run_ids": list(run_ids)}),
        (hot_sweep.TAKE_BACK_CALL_RINGS, {"call_ids": list(call_ids)}),
    )


def forget_workers(database: Database) -> None:
    """Remove rows of processes that ended long ago."""
    database.run((hot_sweep.FORGET_WORKERS, {}))
