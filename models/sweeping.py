"""What the sweeper asks of the database; see models/hot_sweep.py for the statements."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from psycopg.errors import UniqueViolation

from loop.outcome import Errored, Skipped
from models import hot_sweep
from models.calls import Settled, settle_lost_change, settle_stalled_read, skip_call
from models.database import Database
from umbel.contracts import CallId, RunId, WorkerId
from umbel.errors import Contended
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
    """Free the runs whose holder is dead; a run that cost too many workers pauses."""
    [rows] = database.run(
        (
            hot_sweep.TAKE_OVER,
            {"dead_after": dead_after_seconds, "limit": limit, "detail": LOST_WORKER_DETAIL},
        )
    )
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
    settled: list[tuple[RunId, CallId, Settled]] = []
    for row in rows:
        run_id, call_id = RunId(row["run_id"]), CallId(row["id"])
        try:
            outcome = settle_lost_change(
                database,
                call_id=call_id,
                run_id=run_id,
                attempt=row["attempt"],
                dead_after_seconds=dead_after_seconds,
            )
        except Contended:
            continue  # one locked run must not stop the sweep for all; the next one looks again
        if outcome is not None:
            settled.append((run_id, call_id, outcome))
    return settled


def stalled_read(seconds: float) -> Errored:
    """How a read ends that was silent for so long."""
    return Errored(STALLED_READ.replace("SECONDS", f"{seconds:g}"))


def settle_stalled_reads(database: Database, *, limit: int) -> list[tuple[RunId, Settled]]:
    """End reads as errors that have been silent for longer than their tool allows."""
    [rows] = database.run((hot_sweep.STALLED_READS, {"limit": limit}))
    settled: list[tuple[RunId, Settled]] = []
    for row in rows:
        run_id = RunId(row["run_id"])
        try:
            outcome = settle_stalled_read(
                database,
                call_id=CallId(row["id"]),
                run_id=run_id,
                attempt=row["attempt"],
                outcome=stalled_read(row["stall_seconds"]),
            )
        except Contended:
            continue  # one locked run must not stop the sweep for all; the next one looks again
        if outcome is not None:
            settled.append((run_id, outcome))
    return settled


def skip_void_calls(database: Database, *, limit: int) -> list[tuple[RunId, Settled]]:
    """Settle ready calls that nothing will start.

    Reads that lost their worker after a stop or a correction of their run, and changes that were
    reported done although their owner had found otherwise.
    """
    [rows] = database.run((hot_sweep.VOID_CALLS, {"limit": limit}))
    settled: list[tuple[RunId, Settled]] = []
    for row in rows:
        run_id = RunId(row["run_id"])
        void = Skipped(DONE_BEFORE if row["effect"] == "mutation" else VOID_READ)
        try:
            outcome = skip_call(database, call_id=CallId(row["id"]), run_id=run_id, outcome=void)
        except Contended:
            continue  # one locked run must not stop the sweep for all; the next one looks again
        if outcome is not None:
            settled.append((run_id, outcome))
    return settled


def promote_runs(database: Database, *, limit: int) -> list[DueStep]:
    """Start the oldest queued run of each thread that is free."""
    try:
        [rows] = database.run((hot_sweep.PROMOTE, {"thread_id": None, "limit": limit}))
    except UniqueViolation:
        # Somebody started a run in one of the threads at this moment; the next sweep looks again.
        return []
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
    [rows] = database.run((hot_sweep.DUE_CALLS, _asked(room)))
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
