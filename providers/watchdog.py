"""Ends a stream that makes no progress, or that its owner no longer wants.

The reader only writes down what it saw; one cheap thread per stream (a greenlet under gevent) owns
the clocks. A read timeout cannot do this: keep-alive comments and dripping bytes reset it for ever.
"""

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from providers.contract import StreamControl, StreamLimits

_LOG: Final = logging.getLogger(__name__)
_WATCH_SECONDS: Final = 1.0

Clock = Callable[[], float]


class InactivityClocks:
    """Moments of last activity, and how long until the first limit is reached."""

    def __init__(self, limits: StreamLimits, clock: Clock = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._last_byte = self._last_progress = clock()
        self._progress = 0
        self._is_waiting = True

    def saw(self, *, is_waiting: bool, progress: int) -> None:
        """Bytes came.

        Args:
            is_waiting: the model works unseen: no piece yet, or it reasons without a word.
            progress: a counter that only real pieces of an answer raise.
        """
        now = self._clock()
        self._last_byte = now
        if progress != self._progress or is_waiting != self._is_waiting:
            self._progress, self._is_waiting = progress, is_waiting
            self._last_progress = now

    def seconds_left(self) -> float:
        """Seconds until a limit is reached; zero or less if one is."""
        limits = self._limits
        pause = limits.first_event_seconds if self._is_waiting else limits.progress_seconds
        silence = self._last_byte + limits.silence_seconds
        return min(silence, self._last_progress + pause) - self._clock()


class Watchdog:
    """A context in which one stream is watched; aborts it through its handle."""

    def __init__(self, control: StreamControl, clocks: InactivityClocks) -> None:
        self._control = control
        self._clocks = clocks
        self._is_over = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self._guard, name="umbel-stream-watchdog", daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()

    def _guard(self) -> None:
        next_watch = time.monotonic() + _WATCH_SECONDS
        while True:
            pause = min(next_watch - time.monotonic(), self._clocks.seconds_left())
            if self._is_over.wait(max(pause, 0.0)):
                return
            if self._clocks.seconds_left() <= 0:
                self._control.handle.abort("stall")
                return
            if time.monotonic() >= next_watch:
                if self._ask_owner():
                    return
                next_watch = time.monotonic() + _WATCH_SECONDS

    def _ask_owner(self) -> bool:
        """True if the owner gave a reason to end the stream."""
        try:
            reason = self._control.watch()
        except Exception:  # noqa: BLE001 - whatever the look-up hits, the clocks must go on
            _LOG.warning("watching a model stream failed", exc_info=True)
            return False
        if reason is None or self._is_over.is_set():
            return False
        self._control.handle.abort(reason)
        return True
