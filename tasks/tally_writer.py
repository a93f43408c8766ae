"""Writes what a process has counted into the table of all counts, every few seconds."""

import logging
from collections import defaultdict
from threading import Event, Lock, Thread
from typing import Final

from models.database import Database
from models.tallies import add_tallies, load_tallies
from umbel.errors import Unavailable
from umbel.tallies import COUNTED, OTHER, Series, Tallies

log: Final = logging.getLogger(__name__)

MAX_LABEL_SETS: Final = 200
"""Of one metric; further ones are counted as `other`."""
_END_SECONDS: Final = 5.0

LabelSet = tuple[str, tuple[str, ...]]


class TallyWriter:
    """Adds a process's increments to the record; what could not be written waits.

    Uses the process's pool from a thread of its own (a greenlet where gevent runs): no step waits
    for it, and the heartbeat has its own connection.
    """

    def __init__(self, tallies: Tallies, database: Database) -> None:
        self._tallies = tallies
        self._database = database
        self._pending: defaultdict[Series, float] = defaultdict(float)
        self._known: set[LabelSet] = set()
        self._lock = Lock()

    def start(self, pause_seconds: float) -> None:
        """Write every `pause_seconds` until the process ends."""
        Thread(target=self._write_for_ever, args=(pause_seconds,), daemon=True).start()

    def finish(self) -> None:
        """Write what is left, once; the process ends whether that works or not."""
        try:
            self.write(_END_SECONDS)
        except Exception as error:  # noqa: BLE001 - nothing may keep a process from ending
            log.warning("last counts lost", extra={"cause": type(error).__name__})

    def write(self, patience_seconds: float = -1) -> None:
        """Write what has been counted; does nothing while another thread is at it for so long.

        Raises:
            Unavailable: PostgreSQL does not answer; the increments wait for the next time.
        """
        if not self._lock.acquire(timeout=patience_seconds):
            return
        try:
            for series, n in self._tallies.take().items():
                self._pending[series] += n
            if self._pending:
                add_tallies(self._database, self._bounded())
                self._pending.clear()
        finally:
            self._lock.release()

    def _bounded(self) -> dict[Series, float]:
        """What is pending, with label sets beyond the bound as one."""
        if any((series.metric, series.values) not in self._known for series in self._pending):
            stored = load_tallies(self._database)
            self._known = {(series.metric, series.values) for series in stored}
        bounded: defaultdict[Series, float] = defaultdict(float)
        for series, n in self._pending.items():
            bounded[self._within_bound(series)] += n
        return dict(bounded)

    def _within_bound(self, series: Series) -> Series:
        label_set = (series.metric, series.values)
        if label_set in self._known:
            return series
        if sum(metric == series.metric for metric, _ in self._known) >= MAX_LABEL_SETS:
            others = (OTHER,) * len(COUNTED[series.metric].labels)
            return Series(series.metric, others, series.part)
        self._known.add(label_set)
        return series

    def _write_for_ever(self, pause_seconds: float) -> None:
        pause = Event()
        while not pause.wait(pause_seconds):
            try:
                self.write()
            except Unavailable:
                continue
            except Exception:  # counts must never end a worker
                log.exception("counts could not be written")
