"""Keeps an eye on the worker processes, so that a dead one is said and not waited for."""

import threading
from collections import deque
from typing import Final

from umbel.cli.log_lines import LogLine, parse, render
from umbel.errors import Unavailable
from umbel.server_processes import EndedProcess

_LAST_LINES: Final = 12
_MOST_REMARKS: Final = 5


class WorkerHealth:
    """Given to `ServerProcesses` as its two callbacks; `check` says what they heard."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: dict[str, deque[str]] = {}
        self._remarks: deque[str] = deque()
        self._remarks_made = 0
        self._ready: list[str] = []
        self._ready_told = 0
        self._ended: EndedProcess | None = None

    def take_line(self, name: str, line: str) -> None:
        """Keep a line of a process; notes readiness, and makes a line about an error a remark."""
        parsed, shown = parse(line), render(line)
        with self._lock:
            self._lines.setdefault(name, deque(maxlen=_LAST_LINES)).append(shown)
            if parsed is None:
                return
            if name not in self._ready and says_ready(parsed):
                self._ready.append(name)
            if parsed.is_trouble and self._remarks_made < _MOST_REMARKS:
                self._remarks_made += 1
                self._remarks.append(f"{name} worker: {shown}")

    def note_end(self, ended: EndedProcess) -> None:
        """Remember the first process that ended without being asked to."""
        with self._lock:
            self._ended = self._ended or ended

    def newly_ready(self) -> list[str]:
        """Names of processes that said so since the last look, in that order."""
        with self._lock:
            found = self._ready[self._ready_told :]
            self._ready_told = len(self._ready)
        return found

    def remarks(self) -> list[str]:
        """New lines about errors; each is given once, and only the first few of a run."""
        with self._lock:
            found = list(self._remarks)
            self._remarks.clear()
        return found

    def check(self) -> None:
        """Raise Unavailable, with the last log lines, once a process has ended."""
        with self._lock:
            if self._ended is None:
                return
            name, code = self._ended.name, self._ended.exit_code
            lines = list(self._lines.get(name, ()))
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        said = "\n".join(f"  {line}" for line in lines) or "  (nothing)"
        raise Unavailable(f"The {name} process {how}. The last it said:\n{said}")


def says_ready(line: LogLine) -> bool:
    """Whether a worker or beat says here that it takes work; only at level INFO or below."""
    match line.logger:
        case "celery.apps.worker":
            return line.message.endswith(" ready.")
        case "celery.beat":
            return line.message == "beat: Starting..."
        case _:
            return False
