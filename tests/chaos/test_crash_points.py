"""A worker process dies, or its code raises, at every point of a step and of a call.

All runs are carried at once by real workers; each is hurt once. What must come of it is a table.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import pytest

from tests.cases.system import CaseSystem, Cast, case_system
from tests.cases.world import World
from tests.chaos import crash_hook
from tests.invariants import violations
from tests.runs.scenes import a_case, asks, decided, follow, text, write_tools
from tests.services import Services
from tests.worker_processes import PATIENT_CLOCKS

pytestmark = pytest.mark.slow

Tool = Literal["read_note", "send_mail"]
Action = Literal["kill", "raise"]


@dataclass(frozen=True, slots=True)
class Crash:
    """Where a run of one call is hurt, and what is left of it."""

    action: Action
    point: str
    tool: Tool = "send_mail"
    asked: int = 2
    """Requests the model gets; a reply that was lost in memory has to be asked for again."""
    executed: int = 1
    """Times the tool does its work."""
    is_unknown: bool = False

    def __str__(self) -> str:
        return f"{self.action} {self.point} {self.tool}"


CRASHES: Final = (
    *(
        Crash(action, point, asked=asked)
        for action in ("kill", "raise")
        for point, asked in (
            ("model.in_flight", 2),
            # A process that lives saves the reply it has paid for; a dead one cannot.
            ("model.answered", 3 if action == "kill" else 2),
            ("decide.pre_commit", 3 if action == "kill" else 2),
            ("decide.applying", 3 if action == "kill" else 2),
            ("decide.post_commit", 2),
            ("call.pre_intent", 2),
            ("call.receipt_post", 2),
        )
    ),
    Crash("kill", "step.claimed"),
    Crash("raise", "step.claimed"),
    Crash("raise", "call.intent_saved", asked=1, executed=0, is_unknown=True),
    Crash("raise", "call.effect_done", asked=1, is_unknown=True),
    Crash("raise", "call.started", "read_note"),
    Crash("raise", "call.effect_done", "read_note", executed=2),
    Crash("kill", "call.received"),
    Crash("kill", "call.intent_saved", asked=1, executed=0, is_unknown=True),
    Crash("kill", "call.effect_done", asked=1, is_unknown=True),
    Crash("kill", "call.receipt_pre", asked=1, is_unknown=True),
    Crash("kill", "call.started", "read_note", executed=1),
    Crash("kill", "call.effect_done", "read_note", executed=2),
    Crash("kill", "call.receipt_pre", "read_note", executed=2),
    Crash("kill", "call.receipt_post", "read_note"),
)


@dataclass(frozen=True, slots=True)
class Matrix:
    """Every crash with the world of its run."""

    system: CaseSystem
    worlds: dict[Crash, World]
    orders: Path


@pytest.fixture(scope="module")
def matrix(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Matrix]:
    """All runs, on their way at once on workers that lose a process of their pool every moment."""
    orders = tmp_path_factory.mktemp("orders")
    points = sorted({crash.point for crash in CRASHES})
    environment = {
        **PATIENT_CLOCKS,
        "UMBEL_FAULTS": ",".join(f"{point}:hook" for point in points),
        "UMBEL_FAULT_HOOK": "tests.chaos.crash_hook:crash",
        crash_hook.ORDERS: str(orders),
    }
    tools = write_tools(tmp_path_factory.mktemp("tools"))
    cast = Cast(step_pool="prefork", environment=environment)
    with case_system(services, [tools], cast) as system:
        crash_hook.hold(orders)
        worlds = {crash: _enter(system, crash, orders) for crash in CRASHES}
        crash_hook.release(orders)
        yield Matrix(system, worlds, orders)


@pytest.mark.parametrize("crash", CRASHES, ids=str)
def test_run_that_was_hurt_once_ends_as_it_must(matrix: Matrix, crash: Crash) -> None:
    world = matrix.worlds[crash]
    record = follow(matrix.system, world)

    assert f"{crash.point}@{_target(crash, world)}" in crash_hook.carried_out(matrix.orders)
    assert len(world.model.requests) == crash.asked
    assert world.ledger.executions.get(crash.tool, 0) == crash.executed
    if crash.is_unknown:
        assert (record.run["status"], record.run["reason"]) == ("paused", "unknown_outcome")
        assert decided(record) == [(1, "dispatch")]
    else:
        assert (record.run["status"], record.run["answer"]) == ("completed", "Done.")
        assert decided(record) == [(1, "dispatch"), (2, "answer")]


def test_nothing_is_broken_in_the_whole_database(matrix: Matrix) -> None:
    for world in matrix.worlds.values():
        follow(matrix.system, world)

    assert violations(matrix.system.stage.database) == []
    assert matrix.system.stage.workers.died_unasked() == []


def _enter(system: CaseSystem, crash: Crash, orders: Path) -> World:
    lost_replies = max(0, crash.asked - 2)
    turns = [*[asks(("c1", crash.tool))] * (1 + lost_replies), text()]
    world = system.enter(a_case(str(crash).replace(" ", "-"), turns), ring=False)
    crash_hook.give_order(orders, crash.point, _target(crash, world), crash.action)
    return world


def _target(crash: Crash, world: World) -> str:
    """Whoever receives a call does not know its run yet."""
    return crash_hook.ANY if crash.point == "call.received" else world.run_id
