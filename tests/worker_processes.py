"""Real worker processes for tests: started, killed, frozen, and never left behind."""

import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Literal, Self

from tests.services import Place
from umbel.names import CONTROL_QUEUE, LOOP_QUEUE, SUSPECT_QUEUE, TOOLS_QUEUE
from umbel.server_processes import EndedProcess, ProcessSpec, ServerProcesses

Role = Literal["step", "tool", "control", "beat"]
Pool = Literal["gevent", "prefork", "threads"]

FAST_CLOCKS: Final = {
    "UMBEL_BEAT_SECONDS": "0.3",
    "UMBEL_DEAD_AFTER_SECONDS": "2.5",
    "UMBEL_SWEEP_SECONDS": "0.2",
    "UMBEL_RING_AFTER_SECONDS": "0.5",
    "UMBEL_TOOL_PATIENCE_SECONDS": "1",
}
"""For tests that hurt workers: the dead are found soon, and a busy machine is not yet dead."""
PATIENT_CLOCKS: Final = {**FAST_CLOCKS, "UMBEL_DEAD_AFTER_SECONDS": "20"}
"""For tests that hurt nobody: however slow the machine, nobody is taken for dead."""
READY_SECONDS: Final = 120.0
"""A process that ends instead is noticed at once; imports alone take half a minute under load."""
_KEPT_LINES: Final = 400
_QUEUES: Final = {
    "step": LOOP_QUEUE,
    "tool": f"{TOOLS_QUEUE},{CONTROL_QUEUE}",
    "control": f"{CONTROL_QUEUE},{SUSPECT_QUEUE}",
}
_READY_WORDS: Final = (" ready.", "beat: Starting")


@dataclass(slots=True)
class Worker:
    """One started process: a step worker, a tool worker or beat."""

    name: str
    role: Role
    pool: Pool
    concurrency: int
    pid: int
    is_ready: threading.Event
    has_ended: threading.Event


class WorkerProcesses:
    """The processes of one test; leaving the `with` block ends every one of them.

    Args:
        place: the database and Redis they work on.
        environment: variables on top of the place's and the fast clocks.
        application: the module with their Celery application.
    """

    def __init__(
        self, place: Place, environment: Mapping[str, str], application: str = "umbel.server"
    ) -> None:
        self._application = application
        self.environment = {
            **_inherited(),
            **FAST_CLOCKS,
            "UMBEL_DATABASE_URL": place.database_url,
            "UMBEL_REDIS_URL": place.redis_url,
            "UMBEL_REDIS_PREFIX": place.redis_prefix,
            **environment,
        }
        self.workers: list[Worker] = []
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._processes = ServerProcesses(
            on_line=self._take_line, on_end=self._note_end, grace_seconds=8.0
        )
        self._lock = threading.RLock()
        self._started = 0
        self._frozen: list[int] = []
        self._killed: set[str] = set()

    def __enter__(self) -> Self:
        self._processes.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.continue_all()
        self._processes.__exit__(kind, error, traceback)

    def start(
        self,
        role: Role,
        pool: Pool = "prefork",
        *,
        concurrency: int = 4,
        environment: Mapping[str, str] | None = None,
    ) -> Worker:
        """Start a process without waiting until it is ready."""
        with self._lock:
            self._started += 1
            name = f"{role}{self._started}"
            worker = Worker(name, role, pool, concurrency, 0, threading.Event(), threading.Event())
            self.workers.append(worker)
            worker.pid = self._processes.start(
                ProcessSpec(
                    name, self._command(worker), {**self.environment, **(environment or {})}
                )
            )
        return worker

    def start_all(self, *, step_pool: Pool = "gevent", steps: int = 1, tools: int = 1) -> None:
        """Start step workers, tool workers and beat, and wait until all of them are ready."""
        for _ in range(steps):
            self.start("step", step_pool, concurrency=20 if step_pool == "gevent" else 4)
        for _ in range(tools):
            self.start("tool", "prefork", concurrency=4)
        self.start("beat")
        self.wait_ready()

    def wait_ready(self, seconds: float = READY_SECONDS) -> None:
        """Wait until every living process is ready, for so long at most.

        Raises:
            AssertionError: one ended, or was not ready in time; with what the processes wrote.
        """
        deadline = time.monotonic() + seconds
        for worker in list(self.workers):
            while not worker.is_ready.wait(0.05) and worker.name not in self._killed:
                if worker.has_ended.is_set():
                    raise AssertionError(f"{worker.name} ended at its start:\n{self.log()}")
                if time.monotonic() > deadline:
                    raise AssertionError(f"{worker.name} is not ready:\n{self.log()}")

    def of_role(self, role: Role) -> list[Worker]:
        """The processes of a role that have not ended."""
        return [w for w in self.workers if w.role == role and not w.has_ended.is_set()]

    def died_unasked(self) -> list[str]:
        """Names of workers that ended although no test killed them."""
        return [w.name for w in self.workers if w.has_ended.is_set() and w.name not in self._killed]

    def kill(self, pid: int) -> None:
        """SIGKILL to one process, be it a worker or a child of its pool; waits for its end."""
        leader = self._led_by(pid)
        if leader is not None:
            self._killed.add(leader.name)
        os.kill(pid, signal.SIGKILL)
        if leader is not None:
            leader.has_ended.wait(10)

    def kill_and_replace(self, pid: int) -> None:
        """SIGKILL to one process; a whole worker gets a successor, as a supervisor would do."""
        leader = self._led_by(pid)
        self.kill(pid)
        if leader is not None:
            self.start(leader.role, leader.pool, concurrency=leader.concurrency)

    def freeze(self, pid: int) -> None:
        """SIGSTOP to the whole worker that `pid` belongs to, its pool included."""
        group = os.getpgid(pid)
        os.killpg(group, signal.SIGSTOP)
        self._frozen.append(group)

    @property
    def has_frozen(self) -> bool:
        """Whether a worker is frozen now."""
        return bool(self._frozen)

    def continue_all(self) -> None:
        """Let every frozen worker go on."""
        while self._frozen:
            try:
                os.killpg(self._frozen.pop(), signal.SIGCONT)
            except ProcessLookupError:
                continue  # it was killed while it was frozen

    def log(self) -> str:
        """The last lines of all processes."""
        return "\n".join(self._lines)

    def _command(self, worker: Worker) -> tuple[str, ...]:
        celery = (sys.executable, "-m", "celery", "-A", self._application)
        if worker.role == "beat":
            return (*celery, "beat", "--pidfile=", "--loglevel", "INFO")
        return (
            *(*celery, "worker", "-P", worker.pool, "-c", str(worker.concurrency)),
            *("-Q", _QUEUES[worker.role], "-n", f"{worker.name}@%h", "--loglevel", "INFO"),
            *("--without-mingle", "--without-gossip"),
        )

    def _led_by(self, pid: int) -> Worker | None:
        return next((w for w in self.workers if w.pid == pid), None)

    def _take_line(self, name: str, line: str) -> None:
        self._lines.append(f"{name} | {line}")
        if any(words in line for words in _READY_WORDS):
            for worker in self.workers:
                if worker.name == name:
                    worker.is_ready.set()

    def _note_end(self, ended: EndedProcess) -> None:
        self._lines.append(f"{ended.name} | ended with code {ended.exit_code}")
        for worker in self.workers:
            if worker.name == ended.name:
                worker.has_ended.set()


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait for a condition that another process brings about.

    Raises:
        AssertionError: it did not come.
    """
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        pause.wait(0.02)


def _inherited() -> dict[str, str]:
    """Our own environment without settings of a real installation."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("UMBEL_", "OPENAI_"))}
    return kept | {"PYTHONUNBUFFERED": "1"}
