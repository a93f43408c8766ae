"""The worker processes: hurt one by one, and each replaced as a supervisor would do."""

import contextlib
import os
import random
import signal
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.services import Place
from tests.worker_processes import FAST_CLOCKS, Pool, Role, Worker, WorkerProcesses

DEAD_AFTER_SECONDS: Final = float(FAST_CLOCKS["UMBEL_DEAD_AFTER_SECONDS"])

READY_SECONDS: Final = 180.0
"""Six processes start at once, on a machine that may have other work."""
_LAST_LINES: Final = 40
_SETTLED_POOL_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True)
class Post:
    """A process that must always be there."""

    role: Role
    pool: Pool = "prefork"
    concurrency: int = 2


POSTS: Final = (
    Post("step", "gevent", 20),
    Post("step", "prefork", 2),
    Post("tool", "prefork", 4),
    Post("control", "prefork", 2),
    Post("beat"),
    Post("beat"),
)


class Crew(WorkerProcesses):
    """Everybody at their posts; leaving the block ends them all."""

    def __init__(
        self, place: Place, environment: Mapping[str, str], application: str = "umbel.server"
    ) -> None:
        super().__init__(place, environment, application)
        self._last_lines: dict[str, deque[str]] = {}
        self._ready_at: dict[str, float] = {}
        self._hurt_early: set[str] = set()
        self._replaced: set[str] = set()
        self._frozen_until = 0.0
        self._thaws: list[threading.Timer] = []

    def take_posts(self) -> None:
        """Start everybody and wait until they are ready."""
        for post in POSTS:
            self.start(post.role, post.pool, concurrency=post.concurrency)
        self.wait_ready(READY_SECONDS)

    def leaders(self) -> list[Worker]:
        """The processes that live now, without the children of their pools."""
        return [worker for worker in self.workers if not worker.has_ended.is_set()]

    def children(self) -> list[tuple[Worker, int]]:
        """The children of pools, each with the worker it belongs to."""
        return [(worker, pid) for worker in self.leaders() for pid in _children_of(worker.pid)]

    def kill_child(self, worker: Worker, pid: int) -> None:
        """SIGKILL to a child of a pool.

        Celery gives up starting a pool that has lost a child by then, and its worker ends: that is
        what supervisors are for, and nobody's fault.
        """
        ready_at = self._ready_at.get(worker.name)
        if ready_at is None or time.monotonic() - ready_at < _SETTLED_POOL_SECONDS:
            self._hurt_early.add(worker.name)
        self.kill(pid)

    def replace_fallen(self) -> list[str]:
        """Start a successor for whoever ended; of those that did so by themselves, the last words.

        A supervisor does no more; but whoever ended without having been hurt had a reason.
        """
        fallen = [name for name in self.died_unasked() if name not in self._replaced]
        for worker in [worker for worker in self.workers if worker.name in fallen]:
            self._replaced.add(worker.name)
            self.start(worker.role, worker.pool, concurrency=worker.concurrency)
        return [
            "\n  ".join([name, *self._last_lines.get(name, ())])
            for name in fallen
            if name not in self._hurt_early
        ]

    def freeze_for(self, pid: int, seconds: float, *, whole: bool) -> None:
        """SIGSTOP to a process, or to its whole worker, and SIGCONT after so long.

        Raises:
            ProcessLookupError: it is gone.
        """
        group = os.getpgid(pid)
        target = -group if whole else pid
        os.kill(target, signal.SIGSTOP)
        self._frozen_until = max(self._frozen_until, time.monotonic() + seconds)
        thaw = threading.Timer(seconds, _wake, (target,))
        thaw.daemon = True
        self._thaws.append(thaw)
        thaw.start()

    def _take_line(self, name: str, line: str) -> None:
        super()._take_line(name, line)
        self._last_lines.setdefault(name, deque(maxlen=_LAST_LINES)).append(line)
        if name not in self._ready_at and any(
            w.name == name and w.is_ready.is_set() for w in self.workers
        ):
            self._ready_at[name] = time.monotonic()

    def was_frozen_within(self, seconds: float) -> bool:
        """Whether somebody stood still in the last `seconds`."""
        return time.monotonic() - self._frozen_until < seconds

    def thaw(self) -> None:
        """Wait until everybody is awake."""
        while self._thaws:
            self._thaws.pop().join()


def freeze_seconds(chance: random.Random) -> float:
    """From a tenth to three times the silence after which a worker is taken for dead."""
    return DEAD_AFTER_SECONDS * chance.uniform(0.1, 3.0)


def _wake(target: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(target, signal.SIGCONT)


def _children_of(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(number) for number in text.split()]
