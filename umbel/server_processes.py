"""Starts the workers, beat and the rest, shows what they say, and ends them all.

Used by `umbel run`, `umbel up` and the tests. It supervises nothing: a process that died is
reported, and whoever started it decides (docs/adr/0004-own-supervisor.md).
"""

import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Final, ParamSpec, Self

from umbel.child_orphans import Warden
from umbel.child_process import Launch, signals_held, spawn
from umbel.errors import InvalidInput

P = ParamSpec("P")

_log = logging.getLogger(__name__)

_LAST_OUTPUT_SECONDS: Final = 2.0
_KILL_SECONDS: Final = 10.0
_LONGEST_LINE_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """One process to run."""

    name: str
    """Unique, shown before each of its lines."""
    argv: tuple[str, ...]
    env: Mapping[str, str]
    """Its whole environment; nothing is added."""
    cwd: Path | None = None
    """Where it starts; None: here."""


@dataclass(frozen=True, slots=True)
class EndedProcess:
    """A process that is gone."""

    name: str
    exit_code: int
    """Negative: the number of the signal that ended it."""


def _ignore_line(_name: str, _line: str) -> None:
    pass


def _ignore_end(_ended: EndedProcess) -> None:
    pass


@dataclass(slots=True)
class _Running:
    """A started process. Only its watcher reaps it: until then its number is nobody else's."""

    spec: ProcessSpec
    child: "subprocess.Popen[bytes]"
    lock: threading.Lock = field(default_factory=threading.Lock)
    is_reaped: bool = False
    is_asked_to_end: bool = False
    ended: threading.Event = field(default_factory=threading.Event)
    watcher: threading.Thread | None = None

    def send(self, number: signal.Signals, *, to_group: bool) -> None:
        """Signal the process, or all of its group; nothing if it is gone."""
        with self.lock:
            if self.is_reaped:
                return
            if to_group:
                os.killpg(self.child.pid, number)
            else:
                os.kill(self.child.pid, number)


class ServerProcesses:
    """A set of running processes; leaving the `with` block ends every one of them.

    Each leads its own process group and gets SIGTERM when this process disappears, and SIGKILL
    where that does not help. When a leader ends, in whatever way, what is left of its group is
    killed.

    Args:
        log_path: a file that gets every line as `name | line`; None writes none.
        on_line: called with name and line, from a thread of that process; lines of one process
            come in order. An exception in it is logged and changes nothing.
        on_end: called once per process that ended without being asked to, from its thread.
        grace_seconds: how long leaving the block waits for processes to end by themselves.
        orphan_seconds: how long they may outlive this process.
    """

    def __init__(
        self,
        *,
        log_path: Path | None = None,
        on_line: Callable[[str, str], None] = _ignore_line,
        on_end: Callable[[EndedProcess], None] = _ignore_end,
        grace_seconds: float = 10.0,
        orphan_seconds: float = 20.0,
    ) -> None:
        self._on_line = on_line
        self._on_end = on_end
        self._grace_seconds = grace_seconds
        self._running: dict[str, _Running] = {}
        self._dead: list[EndedProcess] = []
        self._lock = threading.Lock()
        self._log_file = log_path.open("ab") if log_path is not None else None
        self._orphan_seconds = orphan_seconds
        self._warden: Warden | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.stop(self._grace_seconds)
        finally:
            with self._lock:
                if self._log_file is not None:
                    self._log_file.close()
                    self._log_file = None
                warden, self._warden = self._warden, None
            if warden is not None:
                warden.close()

    def start(self, spec: ProcessSpec) -> int:
        """Start a process and return its number.

        A program that cannot be started ends with code 127 and says why in its output.

        Raises:
            InvalidInput: a process of that name runs already.
        """
        with self._lock:
            if spec.name in self._running:
                raise InvalidInput(
                    f"A process named {spec.name!r} runs already; choose a new name."
                )
        with signals_held():
            warden = self._warden_of_all()
            child = spawn(
                Launch(argv=spec.argv, env=spec.env, output=subprocess.PIPE, cwd=spec.cwd)
            )
            warden.guard(child.pid)
            running = _Running(spec, child)
            with self._lock:
                self._running[spec.name] = running
            reader = threading.Thread(target=self._read, args=(running,), daemon=True)
            watcher = threading.Thread(target=self._watch, args=(running, reader), daemon=True)
            running.watcher = watcher
            reader.start()
            watcher.start()
        return child.pid

    def dead(self) -> list[EndedProcess]:
        """The processes that ended without being asked to, in that order."""
        with self._lock:
            return list(self._dead)

    def stop(self, grace_seconds: float, *, names: Collection[str] | None = None) -> None:
        """End all processes, the last started first asked; none is left when this returns.

        SIGTERM to each leader, at most `grace_seconds` together for them to end, then SIGKILL to
        their groups. An interrupt during the wait goes straight to SIGKILL, and is raised then.

        Args:
            grace_seconds: 0 leaves no time and kills.
            names: end only these; None: all.
        """
        try:
            asked = self._ask_to_end(names)
            deadline = time.monotonic() + grace_seconds
            for process in asked:
                process.ended.wait(max(0.0, deadline - time.monotonic()))
        finally:
            running = self._named(names)
            for process in running:
                process.send(signal.SIGKILL, to_group=True)
            for process in running:
                self._forget(process)

    def _warden_of_all(self) -> Warden:
        """Started with the first process: without one there is nothing to guard."""
        with self._lock:
            if self._warden is None:
                self._warden = Warden(self._orphan_seconds)
            return self._warden

    def _ask_to_end(self, names: Collection[str] | None) -> list[_Running]:
        running = self._named(names)
        for process in running:
            process.is_asked_to_end = True
        for process in running:
            process.send(signal.SIGTERM, to_group=False)
        return running

    def _named(self, names: Collection[str] | None) -> list[_Running]:
        """The running ones among these, the last started first."""
        with self._lock:
            running = list(reversed(self._running.values()))
        return [process for process in running if names is None or process.spec.name in names]

    def _forget(self, process: _Running) -> None:
        """Wait until a killed process is reaped and its last lines are handed on."""
        process.ended.wait(_KILL_SECONDS)
        watcher = process.watcher
        if watcher is not None and watcher is not threading.current_thread():
            watcher.join(_LAST_OUTPUT_SECONDS)
        with self._lock:
            self._running.pop(process.spec.name, None)

    def _read(self, running: _Running) -> None:
        """Hand on every line until all writers are gone; a child never waits for its reader."""
        pipe: IO[bytes] | None = running.child.stdout
        if pipe is None:  # `spawn` was asked for a pipe
            return
        with pipe:
            while raw := pipe.readline(_LONGEST_LINE_BYTES):
                line = raw.decode("utf-8", errors="replace").rstrip("\r\n")
                self._write_log(running.spec.name, line)
                _call(self._on_line, running.spec.name, line)

    def _write_log(self, name: str, line: str) -> None:
        with self._lock:
            if self._log_file is not None:
                self._log_file.write(f"{name} | {line}\n".encode())
                self._log_file.flush()

    def _watch(self, running: _Running, reader: threading.Thread) -> None:
        """Wait for the end, clear away the group, and report."""
        child = running.child
        # Not reaped by this wait: the zombie keeps its group's number from being given away.
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        running.send(signal.SIGKILL, to_group=True)
        if (warden := self._warden) is not None:
            warden.forget(child.pid)
        with running.lock:
            exit_code = child.wait()
            running.is_reaped = True
        ended = EndedProcess(running.spec.name, exit_code)
        with self._lock:
            is_unasked = not running.is_asked_to_end
            if is_unasked:
                self._dead.append(ended)
                self._running.pop(running.spec.name, None)
        running.ended.set()
        reader.join(_LAST_OUTPUT_SECONDS)  # what it said last comes before the news of its end
        if is_unasked:
            _call(self._on_end, ended)


def _call(function: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
    """Call somebody else's code from a thread that has to live on."""
    try:
        function(*args, **kwargs)
    except Exception:  # noqa: BLE001 - whatever it is: without a reader the child would block
        _log.exception("callback of a server process failed")
