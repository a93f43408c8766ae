"""Keeps processes running: starts what died again, knows who is ready, gives up on the hopeless."""

import queue
import signal
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NoReturn

from umbel.cli.log_lines import render
from umbel.cli.supervision import GiveUp, Past, RestartPolicy
from umbel.cli.up_happenings import (
    Happening,
    ProcessEnded,
    ProcessReady,
    ProcessStarted,
    Progress,
    SystemReady,
)
from umbel.errors import Unavailable
from umbel.server_processes import EndedProcess

_LAST_LINES: Final = 12
_LOOK_SECONDS: Final = 0.1
_FAILED_START: Final = 1


@dataclass(frozen=True, slots=True)
class Child:
    """One process to keep running."""

    name: str
    start: Callable[[], int]
    """Starts it and returns its number; its end must be told to `note_end`."""
    is_ready: Callable[[], bool] | None = None
    """Looked at until true; None: somebody calls `note_ready`."""


@dataclass(slots=True)
class _Supervised:
    child: Child
    started_at: float
    past: Past = field(default_factory=Past)
    is_running: bool = True
    is_ready: bool = False
    restart_at: float = 0.0
    last_lines: deque[str] = field(default_factory=lambda: deque(maxlen=_LAST_LINES))


class Supervisor:
    """Processes that are started again when they die; `supervise` is its loop.

    Everything but `note_…`, `take_line` and `fail` is called by one thread.

    Args:
        show: told everything that happens.
        began: the `time.monotonic()` that the seconds until all are ready are counted from.
        policy: when to start again.
    """

    def __init__(
        self, show: Callable[[Happening], None], *, began: float, policy: RestartPolicy
    ) -> None:
        self._show = show
        self._began = began
        self._policy = policy
        self._children: dict[str, _Supervised] = {}
        self._news: queue.SimpleQueue[EndedProcess | str | BaseException] = queue.SimpleQueue()
        self._is_ready_told = False

    def adopt(self, child: Child, pid: int, *, started_at: float) -> None:
        """Keep a process running that is ready already."""
        self._children[child.name] = _Supervised(child, started_at, is_ready=True)
        self._show(ProcessStarted(process=child.name, pid=pid))
        self._show(ProcessReady(process=child.name, seconds=time.monotonic() - started_at))

    def start(self, child: Child) -> None:
        """Start a process and keep it running."""
        supervised = _Supervised(child, time.monotonic())
        self._children[child.name] = supervised
        self._start(supervised)

    def note_end(self, ended: EndedProcess) -> None:
        """A process is gone without having been asked to end."""
        self._news.put(ended)

    def note_ready(self, name: str) -> None:
        """A process does its work now."""
        self._news.put(name)

    def fail(self, error: BaseException) -> None:
        """Have `supervise` raise this."""
        self._news.put(error)

    def take_line(self, name: str, line: str) -> None:
        """Keep the last lines of a process, for the case that it is given up."""
        if (supervised := self._children.get(name)) is not None:
            supervised.last_lines.append(line)

    def supervise(self) -> NoReturn:
        """Keep everything running until a signal, `fail` or a hopeless process ends it.

        Raises:
            Unavailable: a process does not start, however often it is tried.
        """
        while True:
            self._look()
            try:
                news = self._news.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                continue
            match news:
                case EndedProcess():
                    self._take_end(self._children[news.name], news.exit_code)
                case str():
                    self._take_ready(self._children[news])
                case BaseException():
                    raise news

    def _look(self) -> None:
        """Start what is due, and ask those that do not say by themselves that they are ready."""
        for supervised in self._children.values():
            if not supervised.is_running:
                if time.monotonic() >= supervised.restart_at:
                    self._start(supervised)
            elif not supervised.is_ready:
                is_ready = supervised.child.is_ready
                if is_ready is not None and is_ready():
                    self._take_ready(supervised)

    def _start(self, supervised: _Supervised) -> None:
        name = supervised.child.name
        supervised.started_at = time.monotonic()
        supervised.is_running, supervised.is_ready = True, False
        try:
            pid = supervised.child.start()
        except Unavailable as error:
            self._show(Progress(topic="note", text=str(error)))
            self.note_end(EndedProcess(name, _FAILED_START))
        else:
            self._show(ProcessStarted(process=name, pid=pid))

    def _take_ready(self, supervised: _Supervised) -> None:
        if supervised.is_ready or not supervised.is_running:
            return
        supervised.is_ready = True
        seconds = time.monotonic() - supervised.started_at
        self._show(ProcessReady(process=supervised.child.name, seconds=seconds))
        if not self._is_ready_told and all(each.is_ready for each in self._children.values()):
            self._is_ready_told = True
            total = time.monotonic() - self._began
            self._show(SystemReady(processes=len(self._children), seconds=total))

    def _take_end(self, supervised: _Supervised, exit_code: int) -> None:
        name, now = supervised.child.name, time.monotonic()
        verdict = self._policy.after_end(
            supervised.past, exit_code=exit_code, lived_seconds=now - supervised.started_at
        )
        if isinstance(verdict, GiveUp):
            said = "\n".join(f"  {render(line)}" for line in supervised.last_lines)
            raise Unavailable(
                f"{name} cannot work as it is configured: it ended with exit code {exit_code} "
                f"{verdict.refusals} times in a row. Correct what it says and start again. "
                f"The last it said:\n{said or '  (nothing)'}"
            )
        supervised.is_running = supervised.is_ready = False
        supervised.past, supervised.restart_at = verdict.past, now + verdict.after_seconds
        self._show(
            ProcessEnded(
                process=name,
                exit_code=exit_code,
                how=how_it_ended(exit_code),
                restart_in_seconds=verdict.after_seconds,
            )
        )


def how_it_ended(exit_code: int) -> str:
    """An exit code in words."""
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:  # a real-time signal has a number alone
        name = f"signal {-exit_code}"
    return f"was ended by {name}"
