"""The sweeper: takes over what dead workers left, settles what nobody can, rings what is due.

Liveness rests on this and on PostgreSQL alone. Any number may run; each batch is one transaction.
"""

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from locks.ownership import OwnershipLocks
from models.approvals import expire_approvals
from models.calls import Settled
from models.captures import sweep_captures
from models.database import Database, Row
from models.row_by_row import row_by_row
from models.sources import tell_runs, untold_notices
from models.sweeping import (
    Room,
    due_calls,
    due_steps,
    end_spent_read,
    forget_workers,
    free_reads,
    promote_runs,
    settle_lost_changes,
    settle_stalled_reads,
    skip_void_calls,
    spent_reads,
    take_back_rings,
    take_over_runs,
)
from models.workers import living_slots
from scheduler.bell import Bell, CallRing, Ring, StepRing
from umbel.contracts import RunId
from umbel.errors import Contended, Unavailable
from umbel.faults import fault
from umbel.names import LOOP_QUEUE, SUSPECT_QUEUE, TOOLS_QUEUE, Reason, RunStatus, list_depth
from umbel.tallies import LEASES_LOST, RUNS_SETTLED, UNKNOWN_OUTCOMES, Tallies

log: Final = logging.getLogger(__name__)

BATCH: Final = 200
NOTICES: Final = 20
"""Changed sources that are told of in one sweep, at most."""

GRACE_SECONDS: Final = 5.0
"""In which whoever lives has beaten, once PostgreSQL answers it."""

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Swept:
    """What one sweep found to do."""

    taken_over: int
    reads_freed: int
    made_unknown: int
    rung: int


class OutageMemory:
    """Since when PostgreSQL has answered this sweeper without a break.

    While it was away nobody could beat, extend a deadline or write an outcome. Its own start time
    does not tell: a recovery after a crash, or a promoted standby, keeps it.
    """

    def __init__(self, answers_since: float = -math.inf) -> None:
        """Remember no outage.

        Args:
            answers_since: monotonic seconds; what was before is not known to have been one.
        """
        self._is_away = False
        self._answers_since = answers_since

    def note_outage(self) -> None:
        """PostgreSQL did not answer."""
        self._is_away = True

    def note_answer(self) -> None:
        """PostgreSQL answered."""
        if self._is_away:
            self._is_away, self._answers_since = False, time.monotonic()

    def is_over_for(self, seconds: float) -> bool:
        """Whether the last outage, if there was one, ended so long ago."""
        return not self._is_away and time.monotonic() - self._answers_since >= seconds


@dataclass(frozen=True, slots=True)
class Sweeper:
    """One sweeper; hold it as long as the process lives."""

    database: Database
    locks: OwnershipLocks
    bell: Bell
    dead_after_seconds: float
    ring_after_seconds: float
    outages: OutageMemory = field(default_factory=OutageMemory)
    tallies: Tallies = field(default_factory=Tallies)
    on_settled: Callable[[RunId], None] = lambda _run_id: None
    """Told of every run that this sweeper has settled; never raises."""

    def sweep(self) -> Swept:
        """Go once over everything that may have been left behind.

        Raises:
            Unavailable: PostgreSQL does not answer; the next sweep goes on.
        """
        try:
            self._part("promote", self._promote, None)
            self.outages.note_answer()
            taken = freed = unknown = 0
            if self.outages.is_over_for(self.dead_after_seconds + GRACE_SECONDS):
                taken = self._part("take over", self._take_over, 0)
                fault("sweep.mid")
                freed = self._part("free reads", self._free_reads, 0)
                unknown = self._part("lost changes", self._settle_lost_changes, 0)
                self._part("ended calls", self._end_calls, None)
            self._part("sources", self._tell_of_sources, None)
            return Swept(taken, freed, unknown, self._part("ring", self._ring, 0))
        except Unavailable:
            self.outages.note_outage()
            raise

    def _part(self, name: str, do: Callable[[], Found], nothing: Found) -> Found:
        """What one part of a sweep found; one that cannot be carried out stops no other one.

        Raises:
            Unavailable: PostgreSQL does not answer.
        """
        try:
            return do()
        except Contended as error:
            log.warning("part of a sweep not finished", extra={"part": name, "cause": str(error)})
        except Unavailable:
            raise
        except Exception:
            log.exception("part of a sweep failed", extra={"part": name})
        return nothing

    def _promote(self) -> None:
        promoted = promote_runs(self.database, limit=BATCH)
        if promoted:
            fault("sweep.promoted")
        for step in promoted:
            self.bell.ring_step(step.run_id, step.step)

    def _free_reads(self) -> int:
        return free_reads(self.database, dead_after_seconds=self.dead_after_seconds, limit=BATCH)

    def _settle_lost_changes(self) -> int:
        unknown = settle_lost_changes(
            self.database, dead_after_seconds=self.dead_after_seconds, limit=BATCH
        )
        for run_id, call_id, settled in unknown:
            log.warning(
                "outcome became unknown",
                extra={"run_id": run_id, "call_id": call_id, "status": settled.status},
            )
            self.tallies.add(UNKNOWN_OUTCOMES)
            self._count(run_id, settled.ended)
        if unknown:
            fault("sweep.settled")
        return len(unknown)

    def _end_calls(self) -> None:
        """Calls whose time is over, or that nothing will start."""
        ended = settle_stalled_reads(self.database, limit=BATCH)
        ended += skip_void_calls(self.database, limit=BATCH)
        ended += expire_approvals(self.database, limit=BATCH)
        if ended:
            fault("sweep.settled")
        for run_id, settled in ended:
            self._note(run_id, settled)
        row_by_row(spent_reads(self.database, limit=BATCH), self._end_spent_read)
        if sweep_captures(self.database, limit=BATCH):
            fault("sweep.captures")

    def _end_spent_read(self, row: Row) -> None:
        fault("sweep.give_up_pre", call_id=row["id"], run_id=row["run_id"])
        settled = end_spent_read(self.database, row)
        fault("sweep.give_up_post", call_id=row["id"], run_id=row["run_id"])
        if settled is not None:
            self._note(RunId(row["run_id"]), settled)

    def _tell_of_sources(self) -> None:
        """Tell the runs of changed sources whose teller has died on the way."""
        notices = untold_notices(
            self.database, after_seconds=self.ring_after_seconds, limit=NOTICES
        )
        for notice in notices:
            for told in tell_runs(self.database, notice):
                if told.next_step is not None:
                    self.bell.ring_step(told.run_id, told.next_step)
                if told.is_paused:
                    self.on_settled(told.run_id)

    def tidy(self) -> None:
        """Rare work: forget processes that ended long ago."""
        forget_workers(self.database)

    def _take_over(self) -> int:
        taken = take_over_runs(
            self.database, dead_after_seconds=self.dead_after_seconds, limit=BATCH
        )
        if taken:
            fault("sweep.taken_over")
        for run in taken:
            log.warning(
                "run taken over",
                extra={"run_id": run.run_id, "step_no": run.step, "worker": run.dead_worker},
            )
            self.tallies.add(LEASES_LOST, "taken_over")
            self._count(run.run_id, run.ended)
            self.locks.release(run.run_id, f"{run.dead_worker} {run.run_id}")
        return len(taken)

    def _note(self, run_id: RunId, settled: Settled) -> None:
        """Count what a call's end has settled, and ring for what it made ready."""
        self._count(run_id, settled.ended)
        if settled.next_call is not None:
            self.bell.ring_call(settled.next_call.call_id, settled.next_call.tool)
        if settled.next_step is not None:
            self.bell.ring_step(run_id, settled.next_step)

    def _count(self, run_id: RunId, ended: tuple[RunStatus, Reason | None] | None) -> None:
        if ended is not None:
            status, reason = ended
            self.tallies.add(RUNS_SETTLED, status, reason or "")
            self.on_settled(run_id)

    def _ring(self) -> int:
        """Top the broker's lists up; what does not fit stays in the record."""
        lengths = self.bell.waiting()
        if lengths is None:
            return 0
        slots = living_slots(self.database, dead_after_seconds=self.dead_after_seconds)
        has_suspect_workers = SUSPECT_QUEUE in slots
        steps = self._due_steps(LOOP_QUEUE, lengths, slots, suspects=not has_suspect_workers)
        if has_suspect_workers:
            steps += self._due_steps(SUSPECT_QUEUE, lengths, slots, fresh=False)
        calls = due_calls(self.database, self._room(TOOLS_QUEUE, lengths, slots))
        due: list[Ring] = [*steps]
        due += [CallRing(call.call_id, call.tool, call.rings) for call in calls]
        if due:
            fault("sweep.marked")
        if due and not self.bell.ring_all(due):
            fault("sweep.take_back_pre")
            take_back_rings(
                self.database,
                [ring.run_id for ring in due if isinstance(ring, StepRing)],
                [ring.call_id for ring in due if isinstance(ring, CallRing)],
            )
        if due:
            fault("sweep.rung")
        return len(steps) + len(calls)

    def _due_steps(
        self,
        queue: str,
        lengths: Mapping[str, int],
        slots: Mapping[str, int],
        *,
        fresh: bool = True,
        suspects: bool = True,
    ) -> list[StepRing]:
        room = self._room(queue, lengths, slots)
        steps = due_steps(self.database, room, fresh=fresh, suspects=suspects)
        return [StepRing(step.run_id, step.step, step.rings, queue) for step in steps]

    def _room(self, queue: str, lengths: Mapping[str, int], slots: Mapping[str, int]) -> Room:
        length = lengths.get(queue, 0)
        room = max(0, list_depth(slots.get(queue, 0)) - length)
        return Room(min(room, BATCH), self.ring_after_seconds, is_empty=length == 0)
