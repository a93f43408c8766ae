"""A process with a free slot looks into the record by itself, whatever Redis says.

A bell may be lost in more ways than a process can tell: Redis gone, full, read-only, emptied, or a
consumer that stands still. Only the record knows, so that is what is asked.
"""

import logging
import time
from threading import Event, Thread
from typing import Final

from tasks.claiming import Found, Look, carry_found, carry_next, find_next, looks_of
from tasks.runtime import Runtime

log: Final = logging.getLogger(__name__)

_SHORTEST_SECONDS: Final = 1.0
"""Between two looks after one that found something: bells are being lost."""
_LONGEST_SECONDS: Final = 4.0
"""After looks that found nothing, each twice as long as the one before."""
_AT_ONCE: Final = 20
"""Slots that begin in one round; the next round follows soon."""


class RecordWatch:
    """Starts free slots with whatever was announced a moment ago and nobody came for."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._looks = looks_of(runtime)
        self._slots: list[Thread] = []
        self._is_over = Event()

    def start(self) -> None:
        """Watch until the process ends (a greenlet where gevent runs)."""
        if self._looks:
            Thread(target=self._watch, name="umbel-record", daemon=True).start()

    def finish(self, patience_seconds: float) -> None:
        """Start nothing more, and wait for what was started: it drains as every step does."""
        self._is_over.set()
        deadline = time.monotonic() + patience_seconds
        for slot in list(self._slots):
            slot.join(max(0.0, deadline - time.monotonic()))

    def _watch(self) -> None:
        pause = _LONGEST_SECONDS
        while not self._is_over.wait(pause * (0.75 + self._runtime.jitter() / 2)):
            try:
                has_found = self._fill_slots()
            except Exception:  # the watch must outlive whatever it meets
                log.exception("look into the record failed")
                has_found = False
            pause = _SHORTEST_SECONDS if has_found else min(2 * pause, _LONGEST_SECONDS)

    def _fill_slots(self) -> bool:
        """Begin with what is found, as far as slots are free; False: there was nothing."""
        self._slots = [slot for slot in self._slots if slot.is_alive()]
        busy = max(len(self._slots), len(self._runtime.carried.snapshot()))
        free = min(_AT_ONCE, self._runtime.slots - busy)
        has_found = False
        for look in self._looks:
            tenant = ""
            while free > 0 and (found := find_next(self._runtime, look, tenant)) is not None:
                self._begin(look, found)
                free, tenant, has_found = free - 1, found.tenant, True
        return has_found

    def _begin(self, look: Look, found: Found) -> None:
        slot = Thread(target=self._carry, args=(look, found), daemon=True)
        self._slots.append(slot)
        slot.start()

    def _carry(self, look: Look, found: Found) -> None:
        carry_found(found)
        carry_next(self._runtime, look, found.tenant)
