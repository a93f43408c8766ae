"""Scenarios 2 and 7, and workers killed in the middle of a run."""

import pytest

from tests.cases.happenings import Event, Occurrence
from tests.cases.record import read_record
from tests.cases.system import CaseSystem
from tests.cases.world import World
from tests.runs.scenes import a_case, asks, decided, follow, reads, text
from tests.worker_processes import wait_until
from umbel.contracts import CallId

pytestmark = pytest.mark.slow


@pytest.fixture
def system(rough_system: CaseSystem) -> CaseSystem:
    """One worker of each kind, ready."""
    rough_system.stage.workers.wait_ready()
    return rough_system


def test_reply_whose_application_failed_is_applied_without_asking_again(
    system: CaseSystem,
) -> None:
    workers = system.stage.workers
    workers.kill(workers.of_role("step")[0].pid)
    workers.start("step", "gevent", environment={"UMBEL_FAULTS": "decide.applying:raise:n=1"})
    workers.wait_ready()
    world = system.enter(a_case("raises-once", [reads("c1"), text()]))
    wait_until(lambda: _is_booked(system, world), 20, "usage and reply are booked alone")
    [booked] = read_record(system.stage.database, world.run_id).model_calls
    workers.kill(workers.of_role("step")[0].pid)
    workers.start("step", "gevent")
    record = follow(system, world)

    assert (booked["decision"], booked["input_tokens"]) == (None, 100)
    assert record.run["status"] == "completed"
    assert decided(record) == [(1, "dispatch"), (2, "answer")]
    assert [request.turn for request in world.model.requests] == [1, 2]
    assert [row["attempt"] for row in record.model_calls] == [1, 1]
    assert record.run["fence"] >= 3  # claimed, taken over or claimed again, and step 2


def test_worker_killed_while_the_model_speaks_costs_one_attempt_of_unknown_usage(
    system: CaseSystem,
) -> None:
    events = [{"at": "during_model:1", "do": "kill"}]
    world = system.enter(a_case("killed-in-flight", [reads("c1"), text()], events=events))
    record = follow(system, world)

    first, second, third = record.model_calls
    assert (first["state"], first["input_tokens"], first["decision"]) == ("lost", None, None)
    assert (second["step"], second["attempt"], second["decision"]) == (1, 2, "dispatch")
    assert (third["step"], third["decision"]) == (2, "answer")
    assert record.run["status"] == "completed"


def test_change_without_a_receipt_is_unknown_and_is_never_sent_again(system: CaseSystem) -> None:
    events = [{"at": "after_effect:c1", "do": "kill"}]
    case = a_case("no-receipt", [asks(("c1", "send_mail")), text()], events=events)
    world = system.enter(case)
    record = follow(system, world)
    for _ in range(10):
        assert system.stage.ringer.ring_call(CallId(record.calls[0]["id"]), "send_mail")
    bystander = system.enter(a_case("afterwards", [asks(("c1", "send_mail")), text()]))
    follow(system, bystander)  # the tool worker has taken every message that came before

    later = read_record(system.stage.database, world.run_id)
    assert (later.run["status"], later.run["reason"]) == ("paused", "unknown_outcome")
    assert later.calls[0]["outcome"] == "unknown"
    assert world.ledger.executions == {"send_mail": 1}
    assert len(world.model.requests) == 1
    assert len(later.events) == len(record.events)


def test_step_worker_killed_after_its_decision_leaves_one_decision_per_step(
    system: CaseSystem,
) -> None:
    events = [{"at": "after_model:1", "do": "kill"}, {"at": "after_model:2", "do": "kill"}]
    turns = [reads("c1"), reads("c2"), text()]
    world = system.enter(a_case("step-killed", turns, events=events))
    record = follow(system, world)

    assert record.run["status"] == "completed"
    assert decided(record) == [(1, "dispatch"), (2, "dispatch"), (3, "answer")]
    assert world.ledger.executions == {"read_note": 2}
    assert len(world.model.requests) == 3


def test_tool_worker_killed_during_reads_runs_them_again(system: CaseSystem) -> None:
    world = _run_with_tool_worker_killed(system, "read_note")
    record = follow(system, world)

    assert record.run["status"] == "completed"
    assert decided(record) == [(1, "dispatch"), (2, "answer")]
    assert world.ledger.starts == {"read_note": 2}
    assert world.ledger.executions == {"read_note": 1}


def test_tool_worker_killed_during_a_change_pauses_the_run(system: CaseSystem) -> None:
    world = _run_with_tool_worker_killed(system, "send_mail")
    record = follow(system, world)

    assert (record.run["status"], record.run["reason"]) == ("paused", "unknown_outcome")
    assert world.ledger.starts == {"send_mail": 1}
    assert len(world.model.requests) == 1


def _run_with_tool_worker_killed(system: CaseSystem, tool: str) -> World:
    """A run during whose only call the whole tool worker dies, parent and children."""

    def perform(*_: World | Event | Occurrence) -> None:
        workers = system.stage.workers
        workers.kill_and_replace(workers.of_role("tool")[0].pid)

    events = [{"at": "during_tool:c1", "do": "kill_all"}]
    case = a_case(f"tool-worker-killed-{tool}", [asks(("c1", tool)), text()], events=events)
    return system.enter(case, perform=perform)


def _is_booked(system: CaseSystem, world: World) -> bool:
    rows = read_record(system.stage.database, world.run_id).model_calls
    return bool(rows) and rows[0]["state"] == "closed"
