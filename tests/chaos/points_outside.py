"""What stands around the workers in a crash test: owners, whoever stops and continues processes."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import IO, Final

from models.database import Database
from tests.cases.case_file import Case
from tests.chaos.crash_hook import Orders
from tests.worker_processes import WorkerProcesses

_HELD: Final = """
SELECT 1 FROM workers w WHERE w.pid = ANY(%(pids)s) AND (
  EXISTS (SELECT 1 FROM runs r WHERE r.holder = w.id AND r.work = 'held')
  OR EXISTS (SELECT 1 FROM calls c WHERE c.holder = w.id AND c.state = 'started'))
"""
_LONGEST_PAUSE_SECONDS: Final = 30.0


@dataclass(slots=True)
class Owners:
    """The process that carries out what owners do."""

    _process: "subprocess.Popen[str]"
    _done: set[str] = field(default_factory=set)

    def ask(self, run_id: str, case: Case, verbs: Sequence[str]) -> None:
        """Have an errand run, in processes that may be hurt."""
        if not verbs:
            self.note(run_id)
            return
        asked = {"run_id": run_id, "title": case.title, "case": case.data, "verbs": verbs}
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps(asked)}\n")
        self._process.stdin.flush()

    def have_done(self, run_id: str) -> bool:
        """Whether everything asked for this run is done."""
        return run_id in self._done

    def note(self, run_id: str) -> None:
        """Everything asked for this run is done."""
        self._done.add(run_id)


@contextmanager
def owners(environment: Mapping[str, str]) -> Iterator[Owners]:
    """Owners for the block, whose processes are hurt at their points too."""
    command: Sequence[str] = (sys.executable, "-m", "tests.chaos.points_client")
    process = subprocess.Popen(
        command,
        env=dict(environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is for whoever runs the matrix
    )
    assert process.stdin is not None
    assert process.stdout is not None
    made = Owners(process)
    listener = threading.Thread(target=_note, args=(made, process.stdout), daemon=True)
    listener.start()
    try:
        yield made
    finally:
        process.stdin.close()
        process.terminate()
        process.wait()
        listener.join()
        process.stdout.close()


def _note(made: Owners, output: IO[str]) -> None:
    for line in output:
        made.note(line.strip())


@dataclass(slots=True)
class Freezer:
    """Stops whole process groups whose member stands at a point, and continues them too late.

    Too late is: everybody else takes them for dead, and has taken what they held.
    """

    orders: Orders
    database: Database
    dead_after_seconds: float
    pauses: int = 0
    _frozen: dict[int, float] = field(default_factory=dict)
    _stopped: dict[int, set[int]] = field(default_factory=dict)

    @property
    def is_idle(self) -> bool:
        """Whether nobody is stopped now."""
        return not self._frozen

    def look(self) -> None:
        """Stop who is to be stopped, continue whose time has come."""
        for pid in self.orders.paused():
            self._stop(pid)
        for group, since in list(self._frozen.items()):
            if self._is_too_late(group, time.monotonic() - since):
                self._continue(group)

    def continue_all(self) -> None:
        """Nobody stays behind."""
        for group in list(self._frozen):
            self._continue(group)

    def _stop(self, pid: int) -> None:
        try:
            group = os.getpgid(pid)
            if group not in self._frozen:
                os.killpg(group, signal.SIGSTOP)
                self.pauses += 1
                self._frozen[group] = time.monotonic()
        except ProcessLookupError:
            self.orders.let_go(pid)
            return
        self._stopped.setdefault(group, set()).add(pid)

    def _is_too_late(self, group: int, seconds: float) -> bool:
        if seconds < self.dead_after_seconds * 1.2 + 0.5:
            return False
        [held] = self.database.run((_HELD, {"pids": list(self._stopped[group])}))
        return not held or seconds > _LONGEST_PAUSE_SECONDS

    def _continue(self, group: int) -> None:
        del self._frozen[group]
        for pid in self._stopped.pop(group):
            self.orders.let_go(pid)
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGCONT)


def replace_beats(workers: WorkerProcesses, wanted: int) -> None:
    """Start a beat for each that was killed, as a supervisor does."""
    for _ in range(wanted - len(workers.of_role("beat"))):
        workers.start("beat")
