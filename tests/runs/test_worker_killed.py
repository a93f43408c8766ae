"""Whole workers are killed at work, with the clocks of a real installation: others take over."""

import os
import time
from typing import Final

import pytest

from tests.cases.happenings import Event, Occurrence
from tests.cases.record import pids_at_work, read_record
from tests.cases.system import CaseSystem, Cast
from tests.cases.world import World
from tests.runs.conftest import MakeSystem
from tests.runs.drain_scene import slowness
from tests.runs.scenes import a_case, asks, decided, follow, reads, text
from tests.runs.test_child_killed import DEFAULT_CLOCKS, is_past_grace
from tests.worker_processes import wait_until

pytestmark = pytest.mark.slow

TERM_SECONDS: Final = 15.0
MORE_SECONDS: Final = 1.0
"""Until a sweep has found the dead and another worker has begun; on an idle machine."""

MEASURABLE: Final = 4.0
"""Times slower than idle; beyond it even the record answers too late, which is an outage."""


@pytest.fixture
def system(make_system: MakeSystem) -> CaseSystem:
    """Two step workers and one tool worker; whoever is killed gets a successor of another name."""
    made = make_system(Cast(steps=2, environment=DEFAULT_CLOCKS))
    wait_until(lambda: is_past_grace(made.stage.database), 30, "PostgreSQL is up long enough")
    return made


def test_what_a_killed_worker_held_is_taken_over_within_a_second_of_its_term(
    system: CaseSystem,
) -> None:
    killed_at: dict[str, float] = {}
    on_tools: list[World] = []
    database, workers = system.stage.database, system.stage.workers

    def kill(world: World, _: Event, occurrence: Occurrence) -> None:
        [pid] = [occurrence.pid] if occurrence.pid else pids_at_work(database, world.run_id)
        wait_until(
            lambda: len(on_tools) == 2 and all(each.ledger.starts for each in on_tools),
            60,
            "read and change run on the one tool worker",
        )
        killed_at[world.run_id] = time.time()
        workers.kill_and_replace(os.getpgid(pid))

    def enter(title: str, at: str, turns: list[dict[str, object]]) -> World:
        case = a_case(title, turns, events=[{"at": at, "do": "kill"}])
        return system.enter(case, perform=kill)

    long = {"sleep": 60, "then": {"result": "ok"}}
    turns = [asks(("c1", "send_mail")), text()]
    change = system.enter(a_case("change-of-killed", turns, behaviour=long))
    read = enter("read-of-killed", "during_tool:c1", [reads("c1"), text()])
    on_tools.extend([change, read])
    step = enter("step-of-killed", "during_model:1", [text()])

    ended = follow(system, step)
    assert decided(ended) == [(1, "answer")]
    assert len(step.model.requests) == 2, "one more request than without the kill"
    again = [row["opened_at"].timestamp() for row in ended.model_calls if row["attempt"] == 2]
    follow(system, read)
    assert read.ledger.starts == {"read_note": 2}
    [call] = read_record(database, read.run_id).calls
    stopped = follow(system, change).run
    assert (stopped["status"], stopped["reason"]) == ("paused", "unknown_outcome")

    taken = {
        "step": again[0] - killed_at[step.run_id],
        "read": call["started_at"].timestamp() - killed_at[read.run_id],
        "change": stopped["settled_at"].timestamp() - killed_at[read.run_id],
    }
    check_terms(taken)


def check_terms(taken: dict[str, float]) -> None:
    """Judge the seconds from each kill to its takeover."""
    factor = slowness()
    shown = {what: round(seconds, 1) for what, seconds in taken.items()}
    print(f"seconds until taken over: {shown}, {factor:.1f} times slower")  # noqa: T201 - measured
    longest = max(taken.values())
    if factor > MEASURABLE and longest >= TERM_SECONDS + MORE_SECONDS:
        pytest.skip(f"all went well; the machine is {factor:.0f} times too slow for seconds")
    assert min(taken.values()) > 0
    assert longest < TERM_SECONDS + MORE_SECONDS * factor
