"""Hurts the system in seeded order, and writes down what it did and when."""

import contextlib
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import psycopg
import redis

from tests.chaos.harness.crew import Crew, freeze_seconds
from tests.chaos.harness.servers import Servers

KILLS: Final = ("kill worker", "kill pool child")
_SMALLEST_PAUSE_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Done:
    """One fault that took place."""

    at: float
    """Seconds since the beginning."""
    fault: str
    target: str

    def __str__(self) -> str:
        return f"{self.at:8.2f} s  {self.fault:<28} {self.target}"


@dataclass(slots=True)
class Nemesis:
    """One seed's faults; `strike` does one of them."""

    servers: Servers
    crew: Crew
    chance: random.Random
    log: list[Done] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    _first: list[str] = field(default_factory=list)
    _outages: list[threading.Thread] = field(default_factory=list)
    _failures: list[BaseException] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._first = list(FAULTS)
        self.chance.shuffle(self._first)

    @property
    def kills(self) -> int:
        """Processes that were killed."""
        return sum(done.fault in KILLS for done in self.log)

    @property
    def counts(self) -> dict[str, int]:
        """How often each fault took place."""
        done = Counter(done.fault for done in self.log)
        return {fault: done[fault] for fault in FAULTS}

    def has_tried_all(self) -> bool:
        """Whether each kind of fault took place."""
        return not self._first

    def strike(self) -> None:
        """Do the next fault: first each kind once, in any order, then by weight."""
        name = self._first[-1] if self._first and self.chance.random() < 0.5 else self._weighted()
        target = self._try(name)
        if target is None:
            return
        if name in self._first:
            self._first.remove(name)
        self.log.append(Done(time.monotonic() - self.began, name, target))

    def pause_seconds(self, mean: float) -> float:
        """How long to wait before the next one."""
        return max(_SMALLEST_PAUSE_SECONDS, self.chance.expovariate(1 / mean))

    def relent(self) -> None:
        """Wait until everything that stands still or is away is back.

        Raises:
            Exception: a server did not come back.
        """
        while self._outages:
            self._outages.pop().join()
        self.crew.thaw()
        if self._failures:
            raise self._failures[0]

    def _weighted(self) -> str:
        return self.chance.choices(list(FAULTS), [weight for weight, _ in FAULTS.values()])[0]

    def _try(self, name: str) -> str | None:
        """What was hit; None: nothing could be hurt in this way now."""
        _, do = FAULTS[name]
        try:
            return do(self)
        except (ProcessLookupError, redis.RedisError, psycopg.OperationalError):
            return None

    def in_background(self, outage: Callable[[], None]) -> None:
        """Let an outage take its time while others are hurt."""

        def run() -> None:
            try:
                outage()
            except Exception as error:  # noqa: BLE001 - told when the harness asks
                self._failures.append(error)

        thread = threading.Thread(target=run, daemon=True)
        self._outages.append(thread)
        thread.start()


def _kill_worker(nemesis: Nemesis) -> str | None:
    worker = nemesis.chance.choice(nemesis.crew.leaders())
    nemesis.crew.kill_and_replace(worker.pid)
    return f"{worker.name} {worker.pool}"


def _kill_child(nemesis: Nemesis) -> str | None:
    children = nemesis.crew.children()
    if not children:
        return None
    worker, pid = nemesis.chance.choice(children)
    nemesis.crew.kill_child(worker, pid)
    return f"{worker.name} child {pid}"


def _freeze(nemesis: Nemesis) -> str | None:
    worker = nemesis.chance.choice(nemesis.crew.leaders())
    seconds = freeze_seconds(nemesis.chance)
    nemesis.crew.freeze_for(worker.pid, seconds, whole=True)
    return f"{worker.name} {seconds:.1f} s"


def _freeze_child(nemesis: Nemesis) -> str | None:
    children = nemesis.crew.children()
    if not children:
        return None
    worker, pid = nemesis.chance.choice(children)
    seconds = freeze_seconds(nemesis.chance)
    nemesis.crew.freeze_for(pid, seconds, whole=False)
    return f"{worker.name} child {pid} {seconds:.1f} s"


def _crash_postgres(nemesis: Nemesis, number: signal.Signals) -> str | None:
    if nemesis.servers.postgres_is_down.is_set():
        return None
    nemesis.servers.postgres_is_down.set()
    nemesis.in_background(lambda: nemesis.servers.crash_postgres(number))
    return number.name


def _lose_answer(nemesis: Nemesis) -> str | None:
    return "one connection" if nemesis.servers.wire.lose_an_answer(nemesis.chance) else None


def _hold_answer(nemesis: Nemesis) -> str | None:
    seconds = nemesis.chance.uniform(0.5, 8.0)
    is_held = nemesis.servers.wire.hold_an_answer(nemesis.chance, seconds)
    return f"one connection for {seconds:.1f} s" if is_held else None


def _lose_valkey(nemesis: Nemesis) -> str | None:
    if nemesis.servers.valkey_is_down.is_set():
        return None
    seconds = nemesis.chance.uniform(0.2, 4.0)
    nemesis.servers.valkey_is_down.set()
    nemesis.in_background(lambda: nemesis.servers.lose_valkey(seconds))
    return f"for {seconds:.1f} s"


FAULTS: Final[dict[str, tuple[float, Callable[[Nemesis], str | None]]]] = {
    "kill worker": (6, _kill_worker),
    "kill pool child": (44, _kill_child),
    "freeze worker": (8, _freeze),
    "freeze pool child": (6, _freeze_child),
    "empty Valkey": (5, lambda n: n.servers.empty_valkey()),
    "lose Valkey": (2, _lose_valkey),
    "cut Valkey connections": (3, lambda n: n.servers.cut_valkey()),
    "lose a database's answer": (6, _lose_answer),
    "hold a database's answer": (3, _hold_answer),
    "cut database connections": (0.7, lambda n: f"{n.servers.wire.cut()} connections"),
    "end a database session": (
        5,
        lambda n: n.servers.end_sessions(n.chance, all_of_them=False),
    ),
    "end all database sessions": (
        0.7,
        lambda n: n.servers.end_sessions(n.chance, all_of_them=True),
    ),
    "immediate database restart": (0.6, lambda n: _crash_postgres(n, signal.SIGQUIT)),
    "kill postmaster": (0.6, lambda n: _crash_postgres(n, signal.SIGKILL)),
    "double messages": (8, lambda n: n.servers.double_messages()),
    "shuffle messages": (5, lambda n: n.servers.shuffle_messages(n.chance)),
}
"""Each kind of fault with its weight and how it is done; it returns what was hit, None: nothing."""


def keep_striking(
    nemesis: Nemesis, is_over: threading.Event, may_go_on: Callable[[], bool], mean_seconds: float
) -> None:
    """Strike until it is over, whenever `may_go_on` says so."""
    while not is_over.wait(nemesis.pause_seconds(mean_seconds)):
        with contextlib.suppress(IndexError):  # everybody is between two lives
            if may_go_on():
                nemesis.strike()
