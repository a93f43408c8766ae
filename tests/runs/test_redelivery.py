"""Scenario 12: a message comes again while its call runs, as after a visibility timeout."""

from collections.abc import Iterator

import pytest
import redis

from tests.cases.happenings import Event, Occurrence
from tests.cases.system import CaseSystem
from tests.cases.world import World
from tests.runs.scenes import a_case, asks, decided, follow, text
from tests.worker_processes import wait_until
from umbel.contracts import CallId
from umbel.names import TOOLS_QUEUE

AGAIN = 10
TALKING = {"progress": {"every": 0.2, "for": 1.0}, "then": {"result": "done"}}


@pytest.fixture
def client(calm_system: CaseSystem) -> Iterator[redis.Redis]:
    """A look into the workers' broker."""
    with redis.Redis.from_url(calm_system.stage.keys.url) as client:
        yield client


@pytest.mark.parametrize("tool", ["send_mail", "read_note"])
def test_a_message_that_comes_again_while_its_call_runs_starts_nothing(
    calm_system: CaseSystem, client: redis.Redis, tool: str
) -> None:
    stage = calm_system.stage
    prefix = f"{{{stage.redis_prefix}}}:"

    def are_taken() -> bool:
        """Also the first message of the running call: no timeout will bring it back."""
        return not client.llen(f"{prefix}{TOOLS_QUEUE}") and not client.hlen(f"{prefix}unacked")

    def redeliver(_world: World, _event: Event, occurrence: Occurrence) -> None:
        for _ in range(AGAIN):
            assert stage.ringer.ring_call(CallId(occurrence.facts["call_id"]), tool)
        wait_until(are_taken, 30, "all messages are taken while the call runs")

    events = [{"at": "during_tool:c1", "do": "redeliver_and_wait"}]
    case = a_case(f"again-{tool}", [asks(("c1", tool)), text()], behaviour=TALKING, events=events)
    world = calm_system.enter(case, perform=redeliver)
    record = follow(calm_system, world)

    assert decided(record) == [(1, "dispatch"), (2, "answer")]
    assert world.ledger.starts == world.ledger.executions == {tool: 1}
    [call] = record.calls
    assert (call["state"], call["attempt"], call["body"]) == ("returned", 1, '"done"')
    assert call["outcome"] == ("done" if tool == "send_mail" else None)
    assert [e["kind"] for e in record.events].count("call.returned") == 1
