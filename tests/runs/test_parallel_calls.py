"""Calls of one step run at the same time and are shown in the order in which the model asked."""

from collections.abc import Mapping, Sequence

from tests.cases.found import Found
from tests.cases.happenings import Event, Occurrence
from tests.cases.system import CaseSystem
from tests.cases.world import Perform, World
from tests.runs.scenes import a_case, follow, reads, text
from tests.worker_processes import wait_until

LAST_ENDS_FIRST = {
    "c3": ("start:c1", "start:c2", "start:c3"),
    "c2": ("end:c3",),
    "c1": ("end:c2",),
}
"""What must have happened before a call goes on."""


def hold_until(awaited: Mapping[str, Sequence[str]]) -> Perform:
    """Calls that go on when what they wait for has happened."""

    def hold(world: World, event: Event, _: Occurrence) -> None:
        lines = awaited[event["at"].partition(":")[2]]
        wait_until(lambda: set(lines) <= set(world.ledger.order), 30, " ".join(lines))

    return hold


def holds(awaited: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    """Their events in a case."""
    return [{"at": f"during_tool:{call}", "do": "hold"} for call in awaited]


def test_three_calls_run_together_and_are_shown_in_the_order_they_were_asked_for(
    calm_system: CaseSystem,
) -> None:
    behaviour = {
        "by_call": {
            "c1": {"result": "first"},
            "c2": {"result": "second"},
            "c3": {"result": "third"},
        }
    }
    turns = [reads("c1", "c2", "c3"), text()]
    case = a_case("parallel", turns, behaviour=behaviour, events=holds(LAST_ENDS_FIRST))
    world = calm_system.enter(case, perform=hold_until(LAST_ENDS_FIRST))
    record = follow(calm_system, world)

    assert world.ledger.order[3:] == ["end:c3", "end:c2", "end:c1"]
    sent = Found(world, record).request_of_turn(2)
    assert sent is not None
    results = [m["content"] for m in sent.body["messages"] if m["role"] == "tool"]
    assert results == ['"first"', '"second"', '"third"']


def test_no_more_calls_run_at_once_than_the_policy_allows(calm_system: CaseSystem) -> None:
    turns = [reads("c1", "c2", "c3", "c4"), text()]
    pause = {"sleep": 0.3, "then": {"result": "ok"}}
    together = {"c1": ("start:c2",)}
    case = a_case("two-at-once", turns, behaviour=pause, parallel=2, events=holds(together))
    world = calm_system.enter(case, perform=hold_until(together))
    record = follow(calm_system, world)

    running, most = 0, 0
    for line in world.ledger.order:
        running += 1 if line.startswith("start") else -1
        most = max(most, running)
    assert record.run["status"] == "completed"
    assert most == 2
