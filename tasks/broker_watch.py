"""While the broker is away nobody hears a bell: free slots look into the record by themselves."""

import logging
import time
from threading import Event, Thread
from typing import Final

import redis

from tasks.claiming import Look, carry_next, looks_of
from tasks.runtime import Runtime

log: Final = logging.getLogger(__name__)

_LOOK_SECONDS: Final = 1.0
_LINGER_SECONDS: Final = 40.0
"""After Redis is back: Celery's consumer waits up to 32 s between two tries to connect."""
_AT_ONCE: Final = 20
"""Slots that begin to look in one round; the next round follows soon."""


class BrokerWatch:
    """Asks Redis every second; starts free slots by itself while it is away, and a while longer."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._looks = looks_of(runtime)
        self._away_until = 0.0
        self._slots: list[Thread] = []
        self._is_over = Event()

    def start(self) -> None:
        """Watch until the process ends (a greenlet where gevent runs)."""
        if self._looks:
            Thread(target=self._watch, name="umbel-broker", daemon=True).start()

    def finish(self, patience_seconds: float) -> None:
        """Start nothing more, and wait for what was started: it drains as every step does."""
        self._is_over.set()
        deadline = time.monotonic() + patience_seconds
        for slot in list(self._slots):
            slot.join(max(0.0, deadline - time.monotonic()))

    def _watch(self) -> None:
        while not self._is_over.wait(_LOOK_SECONDS * (0.75 + self._runtime.jitter() / 2)):
            try:
                if self._is_away() and not self._runtime.draining.is_set():
                    self._fill_slots()
            except Exception:  # the watch must outlive whatever it meets
                log.exception("look without the broker failed")

    def _is_away(self) -> bool:
        try:
            self._runtime.redis.ping()
        except (redis.RedisError, OSError):
            self._away_until = time.monotonic() + _LINGER_SECONDS
        return time.monotonic() < self._away_until

    def _fill_slots(self) -> None:
        self._slots = [slot for slot in self._slots if slot.is_alive()]
        busy = max(len(self._slots), len(self._runtime.carried.snapshot()))
        for number in range(min(_AT_ONCE, self._runtime.slots - busy)):
            look = self._looks[number % len(self._looks)]
            slot = Thread(target=self._carry, args=(look,), daemon=True)
            self._slots.append(slot)
            slot.start()

    def _carry(self, look: Look) -> None:
        carry_next(self._runtime, look, heard_seconds=0.0)
