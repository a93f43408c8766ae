"""Cutting short the reads of a worker that ends: another worker runs them again.

Only code that may run twice is ever cut: a mutation is left alone until it returns.

| pool | how |
| --- | --- |
| prefork, solo | a signal, whose handler raises in the code: sleeps and socket waits end, too |
| gevent | a switch into the greenlet that raises there; a greenlet that computes is not reached |
| threads | not at all; the code meets its end in `ToolContext.progress` |
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread, current_thread, main_thread
from types import FrameType
from typing import TYPE_CHECKING, Final

from tasks.drain import DrainFlag
from tasks.native import is_gevent

if TYPE_CHECKING:
    from greenlet import greenlet

_LOOK_SECONDS: Final = 0.1
_SIGNAL: Final = signal.SIGURG
"""Ignored by default: one that comes too early or too late does no harm."""


class ReadInterrupted(BaseException):
    """The worker ends, and this call will be run again by another one.

    No `Exception`: tools catch those.
    """


class ToolCode:
    """The code of one call, and whether it may be cut short just now."""

    def __init__(self, draining: DrainFlag) -> None:
        self._draining = draining
        self._is_open = False
        self.is_cut = False
        """The end was raised in the code; whatever it gave back since is no outcome."""

    @property
    def is_ending(self) -> bool:
        """Whether the worker is about to end."""
        return self._draining.is_set()

    def may_cut(self) -> bool:
        """True at most once, and only while the code is open: raise in it now."""
        if not self._is_open or self.is_cut:
            return False
        self.is_cut = True
        return True

    def check(self) -> None:
        """Cut the code if the worker ends; called by the code itself.

        Raises:
            ReadInterrupted: it does.
        """
        if self._draining.is_set() and self.may_cut():
            raise ReadInterrupted

    @contextmanager
    def opened(self) -> Iterator[None]:
        """The block may be cut, anywhere in it."""
        self._is_open = True
        try:
            self.check()
            yield
        finally:
            self._is_open = False

    @contextmanager
    def closed(self) -> Iterator[None]:
        """The block is not cut, but maybe right after it: a statement must not be torn."""
        was_open, self._is_open = self._is_open, False
        try:
            yield
        finally:
            self._is_open = was_open
            self.check()


class ReadInterrupter:
    """Knows which reads run in this process, and cuts all of them when the worker ends."""

    def __init__(self) -> None:
        self._in_main_thread: ToolCode | None = None
        self._in_greenlets: dict[ToolCode, greenlet] = {}

    def start(self, draining: DrainFlag) -> None:
        """Wait for the end of the worker. Called once, in the main thread of the process."""
        if not is_gevent():
            signal.signal(_SIGNAL, self._cut_main_thread)
        Thread(target=self._wait_and_cut, args=(draining,), name="umbel-drain", daemon=True).start()

    @contextmanager
    def reading(self, code: ToolCode) -> Iterator[None]:
        """The block is `code`'s, and may be cut.

        Raises:
            ReadInterrupted: it was cut, even if the block went on and ended well.
        """
        with self._known(code), code.opened():
            yield
        if code.is_cut:
            raise ReadInterrupted  # the tool has swallowed it

    @contextmanager
    def _known(self, code: ToolCode) -> Iterator[None]:
        if is_gevent():
            from greenlet import getcurrent

            self._in_greenlets[code] = getcurrent()
        elif current_thread() is main_thread():
            self._in_main_thread = code
        try:
            yield
        finally:
            self._in_greenlets.pop(code, None)
            if self._in_main_thread is code:
                self._in_main_thread = None

    def _wait_and_cut(self, draining: DrainFlag) -> None:
        pause = Event()
        while not draining.is_set():
            pause.wait(_LOOK_SECONDS)
        if is_gevent():
            from gevent import get_hub

            # In the hub nothing else runs: between the look and the switch no code can end.
            get_hub().loop.run_callback(self._cut_greenlets)
            return
        number = main_thread().ident
        if number is not None:
            signal.pthread_kill(number, _SIGNAL)

    def _cut_main_thread(self, _number: int, _frame: FrameType | None) -> None:
        code = self._in_main_thread
        if code is not None and code.may_cut():
            raise ReadInterrupted

    def _cut_greenlets(self) -> None:
        for code, runner in list(self._in_greenlets.items()):
            if code.may_cut():
                runner.throw(ReadInterrupted())
