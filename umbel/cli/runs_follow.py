"""Follows one run for whoever watches it: every event exactly once, live text between them.

The number of the last event that was shown is all the state there is: whoever knows it goes on
without a gap, whatever was interrupted.
"""

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from threading import Event as Pause
from typing import Final, Protocol, TypeVar

import redis
from sqlalchemy import Connection

from locks.live import Delta, LiveReader
from models.events import Event
from models.happenings import Happening, read_happenings
from models.listing import last_events
from models.runs import RunRow, find_run
from umbel.cli.moments import ModelText, Moment
from umbel.cli.runs_patience import Remarks
from umbel.names import SETTLED_STATUSES

POLL_SECONDS: Final = 0.15
_REDIS_REST_SECONDS: Final = 2.0

Found = TypeVar("Found")
Teller = Callable[[RunRow, Happening], Iterable[Moment]]
"""What there is to show of an event of the run."""


class Reader(Protocol):
    """Asks the record."""

    remarks: Remarks

    def ask(self, question: Callable[[Connection], Found]) -> Found | None:
        """The answer from one read-only transaction; None when there is none yet."""
        ...


@dataclass(frozen=True, slots=True)
class _Look:
    """What the record said at one moment."""

    run: RunRow
    found: list[Happening]
    last_seq: int


class RunTail:
    """One run from a given event on."""

    def __init__(
        self,
        reader: Reader,
        live: "LiveText",
        run: RunRow,
        tell: Teller,
        *,
        after: int = 0,
        is_following: bool = True,
    ) -> None:
        """`after`: the number of the last event that was seen; 0: none."""
        self._reader = reader
        self._tell = tell
        self._live = live
        self._is_following = is_following
        self.run = run
        """As it was seen last."""
        self.seq = after
        """The last event that was shown to its end."""

    def moments(self) -> Generator[Moment]:
        """Everything that happens, in order; ends when the run is settled and all of it is told.

        Raises:
            UmbelError: what the reader raises.
        """
        is_first = True
        while True:
            look = self._reader.ask(self._look)
            yield from self._reader.remarks.take()
            if look is None:
                continue
            self.run = look.run
            # All pieces of a reply are sent before its decision is committed: show them first.
            if look.found:
                yield from self._live.pieces(0.001)
            if is_first and look.found:
                self._live.forget_decided(look.found)
                is_first = False
            for happening in look.found:
                yield from self._tell(look.run, happening)
                self.seq = happening.event.seq
                yield from self._live.take(happening.event)
            if self.seq < look.last_seq and look.found:
                continue
            if look.run.status in SETTLED_STATUSES or not self._is_following:
                return
            yield from self._live.pieces(POLL_SECONDS)

    def _look(self, connection: Connection) -> _Look:
        # Row and number come first: what is added meanwhile can only make the events more.
        run = find_run(connection, self.run.run_id) or self.run
        last_seq = last_events(connection, [run.run_id]).get(run.run_id, 0)
        return _Look(run, read_happenings(connection, run.run_id, self.seq), last_seq)


class LiveText:
    """What the model is writing, of steps that are claimed and not decided yet. For eyes only."""

    def __init__(self, reader: LiveReader | None) -> None:
        """None: there is no Redis."""
        self._reader = reader
        self._held: list[Delta] = []
        self._step = 0
        self._decided: set[tuple[object, object]] = set()
        self._rest_until = 0.0
        self._pause = Pause()
        self._remarks = Remarks(
            "Redis does not answer: what the model is writing is not shown", "Redis answers again"
        )

    def forget_decided(self, found: Sequence[Happening]) -> None:
        """Do not show what is about to be told as decided: whoever comes late reads it once."""
        for happening in found:
            data = happening.event.data
            if "attempt" in data:
                self._decided.add((data.get("step"), data["attempt"]))

    def take(self, event: Event) -> Iterator[Moment]:
        """Note where the run is; the pieces that were waiting for it."""
        if event.kind == "step.claimed":
            self._step = event.data["step"]
            yield from self._due()

    def pieces(self, wait_seconds: float) -> Iterator[Moment]:
        """New pieces, waiting for the first; those of a step that was not claimed yet wait."""
        self._held += self._read(wait_seconds)
        yield from self._remarks.take()
        yield from self._due()

    def _due(self) -> Iterator[Moment]:
        due = [delta for delta in self._held if delta.step <= self._step]
        self._held = [delta for delta in self._held if delta.step > self._step]
        for delta in due:
            if delta.step == self._step and (delta.step, delta.attempt) not in self._decided:
                yield ModelText(
                    step=delta.step, attempt=delta.attempt, kind=delta.kind, text=delta.text
                )

    def _read(self, wait_seconds: float) -> list[Delta]:
        if self._reader is None or time.monotonic() < self._rest_until:
            self._pause.wait(wait_seconds)
            return []
        try:
            found = list(self._reader.read(wait_seconds))
        except redis.RedisError:
            self._rest_until = time.monotonic() + _REDIS_REST_SECONDS
            self._remarks.note(is_away=True)
            return []
        self._remarks.note(is_away=False)
        return found
