"""Every fault point with every action, on real processes with many runs in flight at once.

`python -m tests.chaos.points_command --repeat 30` hits each pair 30 times and prints a table.
"""

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.cases.case_file import Case
from tests.cases.record import read_record
from tests.cases.system import CaseSystem, Cast, accept_case, case_system
from tests.cases.world import World
from tests.chaos import points_mutants
from tests.chaos.crash_hook import ORDERS, Action, Orders
from tests.chaos.points_client import case_of_follower, follower_of
from tests.chaos.points_commands import COMMANDS, LOOSE
from tests.chaos.points_oracle import differences, losses_by_others, problems_of, unheard
from tests.chaos.points_outside import Freezer, Owners, owners, replace_beats
from tests.chaos.points_scene import a_run_with, a_world, write_point_tools
from tests.chaos.points_table import Table
from tests.chaos.points_ways import OF_RUN, Hurt, hurts
from tests.invariants import violations
from tests.services import Services
from umbel.contracts import RunId, new_id
from umbel.faults import POINTS

IN_FLIGHT: Final = 24
MOST_TRIES: Final = 12
"""Runs that may pass by a point before somebody is hurt there."""
SETTLED_SECONDS: Final = 300.0
TOLD_EVERY_SECONDS: Final = 10.0
_SETTLED: Final = "SELECT id FROM runs WHERE id = ANY(%(ids)s) AND settled_at IS NOT NULL"
_MOVING: Final = """
SELECT id FROM runs WHERE work <> 'none' UNION ALL SELECT id FROM calls WHERE state = 'started'
"""


@dataclass(frozen=True, slots=True)
class Phase:
    """Some of the actions, on a system of their own."""

    actions: Sequence[Action]
    dead_after_seconds: float
    steps: int
    tools: int
    beats: int = 2
    is_exact: bool = True
    """Whether a hurt process takes no other run with it, so that how a run ends is known."""
    is_loose: bool = False
    """Whether a process goes on while a command is given, which comes a little later."""


PHASES: Final = (
    Phase(("kill", "raise", "delay"), dead_after_seconds=20.0, steps=1, tools=1),
    Phase(("pause",), dead_after_seconds=2.5, steps=2, tools=2, is_exact=False),
)
RACES: Final = Phase(COMMANDS, dead_after_seconds=20.0, steps=1, tools=1)
"""Owners' commands at every point."""


@dataclass(slots=True)
class Play:
    """A run on its way through its orders."""

    hurt: Hurt
    worlds: list[World]
    own: list[str]
    """Orders for this very run, by name."""
    targets: list[str]
    """Those of the hurt itself, whomever they are for."""
    tries: int
    began: float = field(default_factory=time.monotonic)

    @property
    def ids(self) -> list[str]:
        """Of its runs; the first is the one that is hurt."""
        return [world.run_id for world in self.worlds]

    def is_over(self, settled: AbstractSet[str]) -> bool:
        """Whether all of its runs are among these."""
        return settled >= set(self.ids)


@dataclass(slots=True)
class Stand:
    """A running system with everything around it, in one phase."""

    phase: Phase
    system: CaseSystem
    owners: Owners
    orders: Orders
    freezer: Freezer
    table: Table
    is_over: Callable[[], bool]
    """Whether no new run is to be entered any more."""
    tell: Callable[[str], None]
    """Is told every few seconds how it goes."""
    played: list[Play] = field(default_factory=list)

    def play(self, wanted: Sequence[Hurt]) -> None:
        """Hurt a run for each of `wanted`, many of them at once, and judge when all is quiet."""
        waiting, at_work, pause = deque(wanted), list[Play](), threading.Event()
        told = time.monotonic()
        while waiting or at_work:
            if self.is_over():
                waiting.clear()
            while waiting and len(at_work) < IN_FLIGHT:
                at_work.append(self._enter(waiting.popleft()))
            self._look_after_processes()
            settled = self._settled(at_work)
            goes_on = (self._go_on(play, is_settled=play.is_over(settled)) for play in at_work)
            at_work = [play for play in goes_on if play is not None]
            if time.monotonic() - told >= TOLD_EVERY_SECONDS:
                told = time.monotonic()
                self.tell(f"{self.table.summary}; {len(waiting)} hurts to come")
            pause.wait(0.1)
        self._come_to_rest()
        for play in self.played:
            self._judge(play)
        self.table.note_general(violations(self.system.stage.database))

    def _enter(self, hurt: Hurt, targets: Sequence[str] = (), tries: int = 1) -> Play:
        run_id = f"{new_id('run')[:-1]}0"
        case = a_run_with(hurt.way.tool, f"p-{run_id}", asks_first=hurt.way.asks_first)
        worlds = [self._known(a_world(case), run_id)]
        if "follow_on" in hurt.way.verbs:
            follower = a_world(case_of_follower(case))
            worlds.append(self._known(follower, follower_of(run_id)))
        own, others = list[str](), list(targets)
        for order in (*hurt.way.leads, *hurt.orders):
            if order in hurt.orders and order.who != OF_RUN and targets:
                continue  # it is given already, and nobody has come to it yet
            who = run_id if order.who == OF_RUN else order.who
            name = self.orders.give(order.point, who, order.action, run_id)
            if order.who == OF_RUN:
                own.append(name)
            if order in hurt.orders:
                others.append(name)
        self._begin(hurt, case, RunId(run_id))
        return Play(hurt, worlds, own, others, tries)

    def _begin(self, hurt: Hurt, case: Case, run_id: RunId) -> None:
        """Have the run accepted: by a process of its own only where that may be hurt."""
        verbs = list(hurt.way.verbs)
        is_hurt = any(order.point.startswith("accept.") for order in hurt.orders)
        if verbs[0] == "accept" and not is_hurt:
            accept_case(self.system.stage.database, case, run_id)
            verbs.remove("accept")
        self.owners.ask(run_id, case, verbs)

    def _known(self, world: World, run_id: str) -> World:
        self.system.coordinator.add(world, run_id)
        return world

    def _go_on(self, play: Play, *, is_settled: bool) -> Play | None:
        """The play that is to be waited for; None when this one is over."""
        if not is_settled:
            if time.monotonic() - play.began < SETTLED_SECONDS:
                return play
            self.table.note(play.hurt, [f"not settled: {play.ids}"])
            return None
        self.played.append(play)
        self.table.note_seconds(time.monotonic() - play.began)
        if all(map(self.orders.is_taken, play.targets)):
            self.table.count(play.hurt)
            return None
        if play.tries == MOST_TRIES or self.is_over():
            return None  # the table says that it was not hit
        others = [name for name in play.targets if name not in play.own]
        return self._enter(play.hurt, others, play.tries + 1)

    def _settled(self, plays: Sequence[Play]) -> set[str]:
        """Those of their runs that are settled, and that no owner has anything left to do to."""
        ids = [
            run_id for play in plays if self.owners.have_done(play.ids[0]) for run_id in play.ids
        ]
        [rows] = self.system.stage.database.run((_SETTLED, {"ids": ids}))
        return {row["id"] for row in rows}

    def _judge(self, play: Play) -> None:
        database = self.system.stage.database
        taken = sum(map(self.orders.is_taken, play.own))
        for number, world in enumerate(play.worlds):
            record = read_record(database, world.run_id)
            problems = problems_of(play.hurt, world, record, taken=taken)
            if number == 0:
                answers = [self.orders.answer(name) for name in play.targets]
                problems += unheard(play.hurt, answers, record)
            is_whole = taken == len(play.own) and number == 0
            if self.phase.is_exact and is_whole and play.hurt.ends is not None:
                losses = losses_by_others(play.hurt, record)
                problems += differences(play.hurt.ends, world, record, losses)
            self.table.note(play.hurt, [f"{world.run_id}: {problem}" for problem in problems])

    def _look_after_processes(self) -> None:
        self.freezer.look()
        workers = self.system.stage.workers
        replace_beats(workers, self.phase.beats)
        dead = [name for name in workers.died_unasked() if not name.startswith("beat")]
        assert not dead, f"{dead} ended without being hurt:\n{workers.log()}"

    def _come_to_rest(self) -> None:
        """Until nobody is frozen and nothing moves."""
        deadline, pause = time.monotonic() + SETTLED_SECONDS, threading.Event()
        while True:
            self._look_after_processes()
            [moving] = self.system.stage.database.run((_MOVING, {}))
            if self.freezer.is_idle and not moving:
                return
            if time.monotonic() > deadline:
                self.table.note_general([f"still moving: {moving[:3]}"])
                return
            pause.wait(0.1)


def run_matrix(
    services: Services,
    *,
    repeat: int = 1,
    seed: int = 1,
    phases: Sequence[Phase] = PHASES,
    mutant: str = "",
    longest_seconds: float = float("inf"),
    is_over: Callable[[], bool] = lambda: False,
    choose: Callable[[Hurt], bool] = lambda _: True,
    tell: Callable[[str], None] = lambda _: None,
) -> Table:
    """Hit every point with every action; what came of it.

    Args:
        services: where databases and Redis come from.
        repeat: times each pair is hit, at least.
        seed: the order in which runs are entered.
        phases: what is done, on which workers.
        mutant: a fault planted into the workers, by its name in points_mutants.
        longest_seconds: after which a phase enters no new run, whatever has not been hit.
        is_over: whether to end early; what was entered is judged all the same.
        choose: which of the hurts.
        tell: is given a line every few seconds.
    """
    table = Table(repeat)
    for phase in phases:
        wanted = [hurt for hurt in hurts(phase.actions, repeat=repeat) if choose(hurt)]
        random.Random(seed).shuffle(wanted)
        table.expect(wanted)
        if is_over():
            continue
        with _stand(services, phase, table, mutant) as stand:
            until = time.monotonic() + longest_seconds
            stand.is_over = lambda: is_over() or time.monotonic() > until  # noqa: B023 - used at once
            stand.tell = tell
            stand.play(wanted)
            table.pauses += stand.freezer.pauses
    return table


@contextmanager
def _stand(services: Services, phase: Phase, table: Table, mutant: str) -> Iterator[Stand]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="umbel-points-")))
        tools = write_point_tools(folder)
        environment = {
            "UMBEL_DEAD_AFTER_SECONDS": str(phase.dead_after_seconds),
            "UMBEL_FAULTS": ",".join(f"{point}:hook" for point in POINTS),
            "UMBEL_FAULT_HOOK": "tests.chaos.crash_hook:crash",
            **points_mutants.planted(mutant),
            **({LOOSE: "1"} if phase.is_loose else {}),
            ORDERS: str(folder),
        }
        cast = Cast("prefork", phase.steps, phase.tools, environment)
        system = stack.enter_context(case_system(services, [tools], cast))
        workers, database = system.stage.workers, system.stage.database
        replace_beats(workers, phase.beats)
        client = stack.enter_context(owners(workers.environment))
        orders = Orders(folder)
        freezer = Freezer(orders, database, phase.dead_after_seconds)
        stack.callback(freezer.continue_all)
        yield Stand(phase, system, client, orders, freezer, table, lambda: False, lambda _: None)
