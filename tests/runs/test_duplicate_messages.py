"""Scenario 11: messages are hints; fifty of the same do what one does."""

import redis

from tests.cases.system import CaseSystem, Cast
from tests.runs.conftest import MakeSystem
from tests.runs.scenes import a_case, asks, decided, follow, reads, text
from tests.worker_processes import PATIENT_CLOCKS, wait_until
from umbel.contracts import CallId, RunId


def test_fifty_messages_for_one_step_at_four_workers_make_one_decision(
    make_system: MakeSystem,
) -> None:
    system = make_system(Cast(steps=4, environment=PATIENT_CLOCKS))
    turns = [{**reads("c1", "c2"), "delay": 0.5}, text()]
    world = system.enter(a_case("fifty", turns), ring=False)
    for _ in range(50):
        assert system.stage.ringer.ring_step(RunId(world.run_id), 1)
    record = follow(system, world)

    assert record.run["status"] == "completed"
    assert [request.turn for request in world.model.requests] == [1, 2]
    assert decided(record) == [(1, "dispatch"), (2, "answer")]
    assert [call["model_id"] for call in record.calls] == ["c1", "c2"]
    assert world.ledger.executions == {"read_note": 2}
    wait_until(lambda: _messages_left(system) == 0, 10, "all messages are taken and acknowledged")
    assert " raised " not in system.stage.workers.log()


def test_repeated_message_of_a_change_sends_it_once(calm_system: CaseSystem) -> None:
    case = a_case(
        "repeated-change",
        [asks(("c1", "send_mail")), text()],
        behaviour={"sleep": 0.3, "then": {"result": "sent"}},
        events=[{"at": "during_tool:c1", "do": "redeliver", "message": "tool"}],
    )
    world = calm_system.enter(case)
    record = follow(calm_system, world)
    for _ in range(10):
        calm_system.stage.ringer.ring_call(CallId(record.calls[0]["id"]), "send_mail")
    wait_until(lambda: _messages_left(calm_system) == 0, 10, "all messages are taken")

    assert record.run["status"] == "completed"
    assert world.ledger.starts == world.ledger.executions == {"send_mail": 1}


def _messages_left(system: CaseSystem) -> int:
    """Messages in the queues, and those taken and not acknowledged."""
    prefix = f"{{{system.stage.redis_prefix}}}:"
    with redis.Redis.from_url(system.stage.keys.url) as client:
        queued = [client.llen(f"{prefix}{name}") for name in ("umbel.loop", "umbel.tools")]
        return sum(map(int, queued)) + int(client.hlen(f"{prefix}unacked"))
