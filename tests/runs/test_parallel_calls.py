"""Calls of one step run at the same time and are shown in the order in which the model asked."""

from tests.cases.found import Found
from tests.cases.system import CaseSystem
from tests.runs.scenes import a_case, follow, reads, text

TWO_SECONDS = {
    "by_call": {
        "c1": {"sleep": 2.0, "then": {"result": "first"}},
        "c2": {"sleep": 1.95, "then": {"result": "second"}},
        "c3": {"sleep": 1.9, "then": {"result": "third"}},
    }
}


def test_three_calls_of_two_seconds_take_two_seconds_together(calm_system: CaseSystem) -> None:
    turns = [reads("c1", "c2", "c3"), text()]
    world = calm_system.enter(a_case("parallel", turns, behaviour=TWO_SECONDS))
    record = follow(calm_system, world)

    began = min(call["started_at"] for call in record.calls)
    ended = max(call["settled_at"] for call in record.calls)
    assert 2.0 <= (ended - began).total_seconds() < 3.5
    assert [line for line in world.ledger.order if line.startswith("end")] == [
        "end:c3",
        "end:c2",
        "end:c1",
    ]
    sent = Found(world, record).request_of_turn(2)
    assert sent is not None
    results = [m["content"] for m in sent.body["messages"] if m["role"] == "tool"]
    assert results == ['"first"', '"second"', '"third"']


def test_no_more_calls_run_at_once_than_the_policy_allows(calm_system: CaseSystem) -> None:
    turns = [reads("c1", "c2", "c3", "c4"), text()]
    pause = {"sleep": 0.3, "then": {"result": "ok"}}
    case = a_case("two-at-once", turns, behaviour=pause, parallel=2)
    world = calm_system.enter(case)
    record = follow(calm_system, world)

    running, most = 0, 0
    for line in world.ledger.order:
        running += 1 if line.startswith("start") else -1
        most = max(most, running)
    assert record.run["status"] == "completed"
    assert most == 2
