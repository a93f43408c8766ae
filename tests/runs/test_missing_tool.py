"""A worker that lacks a run's tool says so instead of leaving the call to nobody."""

import json

from tests.cases.system import CaseSystem
from tests.runs.scenes import a_case, asks, follow, text


def test_call_of_a_tool_that_no_worker_has_is_refused_and_the_run_goes_on(
    calm_system: CaseSystem,
) -> None:
    workers = calm_system.stage.workers
    for worker in workers.of_role("tool"):
        workers.kill(worker.pid)
    without = workers.start("tool", environment={"UMBEL_TOOLS": ""})
    workers.wait_ready()
    world = calm_system.enter(a_case("missing-tool", [asks(("c1", "send_mail")), text()]))
    record = follow(calm_system, world)
    workers.kill_and_replace(without.pid)
    workers.wait_ready()

    [call] = record.calls
    assert (record.run["status"], call["state"]) == ("completed", "refused")
    assert json.loads(call["body"])["error"]["code"] == "tool_unavailable"
    assert world.ledger.starts == {}
