"""Scenario 10: a worker that was frozen past its term changes nothing when it wakes up."""

from pathlib import Path

import pytest

from tests.cases.found import Found
from tests.cases.record import read_record
from tests.cases.system import CaseSystem
from tests.runs.scenes import a_case, asks, decided, follow, reads, text
from tests.worker_processes import wait_until

pytestmark = pytest.mark.slow


def test_reply_of_a_frozen_step_worker_is_booked_and_not_applied(rough_system: CaseSystem) -> None:
    system, workers = rough_system, rough_system.stage.workers
    workers.kill(workers.of_role("step")[0].pid)
    first = workers.start("step", "gevent", environment={"UMBEL_FAULTS": "model.answered:stop:n=1"})
    workers.wait_ready()
    world = system.enter(a_case("frozen-step", [text("Of the first."), text("Of the second.")]))
    wait_until(lambda: _is_stopped(first.pid), 20, "the worker has stopped itself")
    workers.freeze(first.pid)  # so that it is continued with the others
    workers.start("step", "gevent")
    record = follow(system, world)
    before = len(record.events)
    workers.continue_all()
    wait_until(lambda: len(_closed(system, world.run_id)) == 2, 20, "the late reply is booked")
    later = read_record(system.stage.database, world.run_id)
    workers.kill(first.pid)

    assert (later.run["status"], later.run["answer"]) == ("completed", "Of the second.")
    assert later.run["fence"] == record.run["fence"]
    assert [event["kind"] for event in later.events[before:]] == ["step.fenced_out"]
    assert [d["body"] for d in later.deliveries] == ["Of the second."]
    assert Found(world, later).transcript() == ["user", "assistant:text"]
    assert [(m["attempt"], m["decision"]) for m in later.model_calls] == [
        (1, "discard"),
        (2, "answer"),
    ]


def test_result_of_a_frozen_tool_worker_changes_no_row(rough_system: CaseSystem) -> None:
    system, workers = rough_system, rough_system.stage.workers
    workers.start("tool", "prefork")
    workers.wait_ready()
    events = [{"at": "during_tool:c1", "do": "freeze"}]
    world = system.enter(a_case("frozen-read", [reads("c1"), text()], events=events))
    record = follow(system, world)
    assert workers.has_frozen
    workers.continue_all()
    wait_until(lambda: world.ledger.executions == {"read_note": 2}, 20, "the frozen tool goes on")
    wait_until(lambda: "too late" in workers.log(), 10, "its worker finds that it came too late")
    later = read_record(system.stage.database, world.run_id)

    assert record.run["status"] == "completed"
    assert decided(later) == [(1, "dispatch"), (2, "answer")]
    assert later == record


def test_late_receipt_of_a_frozen_change_is_kept_and_moves_nothing(
    rough_system: CaseSystem,
) -> None:
    system, workers = rough_system, rough_system.stage.workers
    events = [{"at": "during_tool:c1", "do": "freeze"}]
    case = a_case("frozen-change", [asks(("c1", "send_mail")), text()], events=events)
    world = system.enter(case)
    paused = follow(system, world)
    workers.continue_all()
    wait_until(
        lambda: read_record(system.stage.database, world.run_id).calls[0]["outcome"] == "done",
        20,
        "the late receipt lands",
    )
    later = read_record(system.stage.database, world.run_id)

    assert (paused.run["status"], paused.run["reason"]) == ("paused", "unknown_outcome")
    assert (later.run["status"], later.run["reason"]) == ("paused", "unknown_outcome")
    assert later.calls[0]["is_late"]
    assert world.ledger.executions == {"send_mail": 1}
    assert len(world.model.requests) == 1


def _is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def _closed(system: CaseSystem, run_id: str) -> list[int]:
    rows = read_record(system.stage.database, run_id).model_calls
    return [row["attempt"] for row in rows if row["state"] == "closed"]
