"""The last net: a living process gives back what it holds by the record and no code of it is at.

Every guarded region hands its row back by itself. Should one ever fail to, its holder would be
alive, so that nobody takes the row over: it would wait for ever.
"""

import logging
from threading import Event, Thread
from typing import Final

from loop.outcome import Unknown
from models.calls import Started, free_own_read, load_call, settle
from models.holding import HeldRun, StartedCall, held_by
from models.steps import release_own
from tasks.runtime import Runtime
from umbel.errors import Unavailable
from umbel.faults import fault

log: Final = logging.getLogger(__name__)

Forgotten = frozenset[HeldRun | StartedCall]


class Reconciler:
    """Compares twice before it acts: a row is forgotten only if it is so in two looks."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._seen: Forgotten = frozenset()

    def start(self, pause_seconds: float) -> None:
        """Look every `pause_seconds` until the process ends (a greenlet where gevent runs)."""
        Thread(target=self._look_for_ever, args=(pause_seconds,), daemon=True).start()

    def look(self) -> int:
        """Give back what was forgotten already at the last look; how many rows."""
        forgotten = self._forgotten()
        for row in forgotten & self._seen:
            facts = _facts_of(row)
            fault("reconcile.give_back_pre", **facts)
            if isinstance(row, HeldRun):
                log.error(
                    "forgotten run given back", extra={"run_id": row.run_id, "step_no": row.step}
                )
                self._release(row)
            else:
                log.error(
                    "forgotten call given back",
                    extra={"call_id": row.call_id, "attempt": row.attempt},
                )
                self._give_back_call(row)
            fault("reconcile.give_back_post", **facts)
        count = len(forgotten & self._seen)
        self._seen = forgotten
        return count

    def _forgotten(self) -> Forgotten:
        runs, calls = held_by(self._runtime.database, self._runtime.worker)
        # After the query: what has ended in between is not held any more, and giving it back is a
        # compare-and-set that finds nothing.
        carried = self._runtime.carried.snapshot()
        return frozenset(
            [
                *(run for run in runs if run.run_id not in carried),
                *(call for call in calls if call.call_id not in carried),
            ]
        )

    def _release(self, row: HeldRun) -> None:
        runtime = self._runtime
        freed = release_own(runtime.database, row.run_id, row.step, runtime.worker, fence=row.fence)
        if freed is not None:
            runtime.note_end(row.run_id, freed.ended)

    def _give_back_call(self, row: StartedCall) -> None:
        database = self._runtime.database
        call = load_call(database, row.call_id)
        if call is None:
            return
        started = Started(call, self._runtime.worker, row.attempt, row.args_text)
        if call.effect == "mutation":
            forgotten = Unknown("Its worker has forgotten it.")
            settled = settle(database, started, forgotten, "")
            if settled is not None:
                self._runtime.meter.outcome_unknown()
                self._runtime.note_end(call.run_id, settled.ended)
        else:
            free_own_read(database, started)

    def _look_for_ever(self, pause_seconds: float) -> None:
        pause = Event()
        while not pause.wait(pause_seconds):
            try:
                self.look()
            except Unavailable:
                continue
            except Exception:  # the net must outlive whatever it meets
                log.exception("comparison with the record failed")


def _facts_of(row: HeldRun | StartedCall) -> dict[str, str]:
    return {"run_id": row.run_id} if isinstance(row, HeldRun) else {"call_id": row.call_id}
