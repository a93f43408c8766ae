"""Tool workers are upgraded one after the other; a run waits for one that has its tools."""

import json

import pytest

from tests.cases.run_case import until_settled
from tests.cases.system import CaseSystem, Cast
from tests.runs.conftest import MakeSystem
from tests.runs.scenes import a_case, asks, follow, text
from tests.worker_processes import PATIENT_CLOCKS, Worker

pytestmark = pytest.mark.slow

WITHOUT = {"UMBEL_TOOLS": ""}


def start_without(system: CaseSystem) -> Worker:
    """A tool worker of a version that does not have the tools yet."""
    worker = system.stage.workers.start("tool", environment=WITHOUT)
    system.stage.workers.wait_ready()
    return worker


def test_a_worker_without_the_tool_leaves_it_to_one_that_has_it(make_system: MakeSystem) -> None:
    system = make_system(Cast(environment=PATIENT_CLOCKS))
    start_without(system)
    turns = [asks(("c1", "send_mail"), ("c2", "read_note"), ("c3", "send_mail")), text()]
    worlds = [system.enter(a_case(f"half-{n}", turns)) for n in range(8)]
    for world in worlds:
        record = follow(system, world)
        assert record.run["status"] == "completed"
        assert [call["state"] for call in record.calls] == ["returned"] * 3
        assert world.ledger.executions == {"send_mail": 2, "read_note": 1}
    assert "tool of a call is not installed here" in system.stage.workers.log()


def test_where_no_worker_has_it_the_run_pauses_and_goes_on_after_the_upgrade(
    make_system: MakeSystem,
) -> None:
    system = make_system(Cast(environment=PATIENT_CLOCKS))
    workers, old = system.stage.workers, start_without(system)
    for worker in workers.of_role("tool"):
        if worker is not old:
            workers.kill(worker.pid)
    start_without(system)
    turns = [asks(("c1", "send_mail")), asks(("c2", "send_mail")), text()]
    world = system.enter(a_case("missing", turns))
    assert until_settled(system, world)[-1] == ("paused", "contract_mismatch")
    assert world.ledger.starts == {}
    assert len(world.model.requests) == 1

    workers.start("tool")
    workers.wait_ready()
    system.stage.desk.command(world, {"do": "resume"})
    record = follow(system, world)
    refused, sent = record.calls
    assert (record.run["status"], refused["state"], sent["state"]) == (
        "completed",
        "refused",
        "returned",
    )
    assert json.loads(refused["body"])["error"]["code"] == "tool_unavailable"
    assert world.ledger.executions == {"send_mail": 1}
