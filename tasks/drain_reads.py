"""Cutting short the code of tools: of reads when the worker ends, of all that fall silent.

What ends with its worker is run again by another one; a mutation is left alone until it returns.
What was silent for longer than its tool may be is over: an error of a read, unknown of a change.
Silence is time that this process has lived through: a frozen worker is no silent tool.

| pool | how |
| --- | --- |
| prefork, solo | a signal, whose handler raises in the code: sleeps and socket waits end, too |
| gevent | a switch into the greenlet that raises there; a greenlet that computes is not reached |
| threads | not at all; a read meets the end of its worker in `ToolContext.progress` |

Code that goes on all the same, as inside a C function, costs a prefork child its life; elsewhere
its slot is lost until it returns. Either way the sweeper has settled its call by then.
"""

import os
import signal
import time
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
FROZEN_SECONDS: Final = 10.0
"""From the end of its allowed silence until code that cannot be cut loses its process."""


class ReadInterrupted(BaseException):
    """The worker ends, and this call will be run again by another one.

    No `Exception`: tools catch those.
    """


class ToolStalled(BaseException):
    """The tool was silent for longer than it may be: its call is over.

    No `Exception`: tools catch those.
    """


class ToolCode:
    """The code of one call, how long it has been silent, and whether it may be cut just now."""

    def __init__(
        self, draining: DrainFlag, stall_seconds: float = 3600.0, *, may_repeat: bool = True
    ) -> None:
        self._draining = draining
        self._stall_seconds = stall_seconds
        self._may_repeat = may_repeat
        self._silent_seconds = 0.0
        self._is_open = False
        self.cut: ReadInterrupted | ToolStalled | None = None
        """What was raised in the code; whatever it gave back since is no outcome."""

    @property
    def is_ending(self) -> bool:
        """Whether the worker is about to end."""
        return self._draining.is_set()

    @property
    def seconds_left(self) -> float:
        """How long it may still be silent; negative: it has been for too long."""
        return self._stall_seconds - self._silent_seconds

    def hear(self) -> None:
        """It has given a sign of life."""
        self._silent_seconds = 0.0

    def pass_time(self, seconds: float) -> None:
        """It may have been silent for so long, unless it waits for us."""
        if self._is_open:
            self._silent_seconds += seconds

    def is_due(self) -> bool:
        """Whether it should be cut."""
        return (
            self._is_open and self.cut is None and (self.seconds_left <= 0 or self._must_give_way())
        )

    def end(self) -> ReadInterrupted | ToolStalled | None:
        """What to raise in the code now: at most once, and only while it is open."""
        if not self.is_due():
            return None
        self.cut = ReadInterrupted() if self._must_give_way() else ToolStalled()
        return self.cut

    def check(self) -> None:
        """Cut the code if the worker ends; called by the code itself.

        Raises:
            ReadInterrupted: it does.
        """
        if self._must_give_way() and (error := self.end()) is not None:
            raise error

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

    def _must_give_way(self) -> bool:
        return self._may_repeat and self._draining.is_set()


class ReadInterrupter:
    """Knows which tools' code runs in this process, and cuts what has to end."""

    def __init__(self) -> None:
        self._in_main_thread: ToolCode | None = None
        self._in_greenlets: dict[ToolCode, greenlet] = {}

    def start(self, *, kills: bool = False) -> None:
        """Watch from now on. Called once, in the main thread of the process.

        Args:
            kills: this process is a child of a pool that replaces it: end it with code that cannot
                be cut.
        """
        if not is_gevent():
            signal.signal(_SIGNAL, self._cut_main_thread)
            if kills:
                signal.signal(signal.SIGPROF, signal.SIG_DFL)
        Thread(target=self._watch, args=(kills,), name="umbel-tools", daemon=True).start()

    @contextmanager
    def reading(self, code: ToolCode) -> Iterator[None]:
        """The block is `code`'s, and may be cut.

        Raises:
            ReadInterrupted: it was cut, even if the block went on and ended well.
            ToolStalled: likewise.
        """
        with self._known(code), code.opened():
            yield
        if code.cut is not None:
            raise code.cut  # the tool has swallowed it

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

    def _watch(self, kills: bool) -> None:  # noqa: FBT001 - a thread takes no keywords
        pause, looked_at = Event(), time.monotonic()
        while True:
            pause.wait(_LOOK_SECONDS)
            now = time.monotonic()
            passed = min(now - looked_at, 2 * _LOOK_SECONDS)  # more: this process stood still
            looked_at = now
            if is_gevent():
                self._look_at_greenlets(passed)
            else:
                self._look_at_main_thread(passed, kills=kills)

    def _look_at_greenlets(self, passed: float) -> None:
        from gevent import get_hub

        for code in list(self._in_greenlets):
            code.pass_time(passed)
        if any(code.is_due() for code in self._in_greenlets):
            # In the hub nothing else runs: between the look and the switch no code can end.
            get_hub().loop.run_callback(self._cut_greenlets)

    def _look_at_main_thread(self, passed: float, *, kills: bool) -> None:
        code, number = self._in_main_thread, main_thread().ident
        if code is None or number is None:
            if kills:
                signal.setitimer(signal.ITIMER_PROF, 0)
            return
        code.pass_time(passed)
        if code.is_due():
            signal.pthread_kill(number, _SIGNAL)
        if kills:
            self._end_process_with(code)

    def _end_process_with(self, code: ToolCode) -> None:
        """Kill this process if the code cannot be cut, also when no Python runs until then."""
        left = code.seconds_left + FROZEN_SECONDS
        if left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
        # Code that computes and never lets other threads run stops this watch, not the kernel's
        # clock of the time that it computes.
        signal.setitimer(signal.ITIMER_PROF, left)

    def _cut_main_thread(self, _number: int, _frame: FrameType | None) -> None:
        code = self._in_main_thread
        if code is not None and (error := code.end()) is not None:
            raise error

    def _cut_greenlets(self) -> None:
        for code, runner in list(self._in_greenlets.items()):
            if (error := code.end()) is not None:
                runner.throw(error)
