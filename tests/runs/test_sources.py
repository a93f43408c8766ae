"""What a run has read changes while it works: read again, decided again, and nothing done twice."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from models.database import Database
from models.records import load_spec
from models.sources import Notice
from providers.contract import ModelProvider
from tasks.rebuilding import rebuild_request
from tasks.runtime import model_providers
from tasks.source_notices import SourceNoted, note_source
from tests.cases.commands import TENANT
from tests.cases.record import Record, read_record, read_status
from tests.cases.system import CaseSystem
from tests.cases.world import World
from tests.invariants import violations
from tests.runs.scenes import a_case, asks, follow, text
from tests.worker_processes import wait_until
from umbel.contracts import RunId
from umbel.names import WireName
from umbel.settings import load_settings

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

WAITS = ("paused", "approval_required")
"""As cases say it."""
SECONDS = 30


def reads_file(call_id: str = "r1") -> dict[str, Any]:
    """A turn that reads notes.md."""
    call = {"id": call_id, "name": "read_file", "arguments": {"path": "notes.md"}}
    return {"tool_calls": [call], "usage": {"input": 100, "output": 10}}


def entered(
    system: CaseSystem, folder: Path, title: str, turns: Sequence[dict[str, Any]], **more: Any
) -> World:
    (folder / "notes.md").write_text("Meeting at 10.\n")
    case = a_case(title, turns, **more)
    return system.enter(case, builtin=["read_file"], workspace=folder)


def edit(system: CaseSystem, folder: Path, words: str | None) -> SourceNoted:
    """Change the file, or delete it, and say so."""
    path = folder / "notes.md"
    if words is None:
        path.unlink()
    else:
        path.write_text(words)
    stage = system.stage
    notice = Notice(f"file:{path.resolve()}", is_deleted=words is None)
    return note_source(stage.database, stage.desk.wake_ups, stage.ringer.ring_step, TENANT, notice)


def request_of(world: World, turn: int) -> str:
    """The body in which the model gave this turn."""
    [body] = [str(r.body) for r in world.model.requests if r.turn == turn and r.outcome == "answer"]
    return body


def wait_for(system: CaseSystem, world: World, status: tuple[str, str | None], call: str) -> None:
    def is_there() -> bool:
        database = system.stage.database
        known = read_record(database, world.run_id).call(call)
        return known is not None and read_status(database, world.run_id) == status

    wait_until(is_there, SECONDS, f"{world.run_id} is {status} with {call}")


def providers() -> dict[WireName, ModelProvider]:
    return model_providers(load_settings())


def rebuilds(database: Database, record: Record, run_id: str) -> None:
    """Every request that was answered can be built again, byte for byte."""
    found = providers()
    for attempt in record.model_calls:
        if attempt["state"] == "closed":
            rebuild_request(database, found, RunId(run_id), attempt["step"], attempt["attempt"])


def test_an_edit_while_an_approval_waits(calm_system: CaseSystem, tmp_path: Path) -> None:
    """Scenario 14, and 6(d): the approval is void, the new text is seen, nothing is done twice."""
    desk = calm_system.stage.desk
    turns = [
        reads_file(),
        asks(("m1", "send_mail")),
        asks(("m2", "send_mail")),
        asks(("m3", "send_mail")),
        text("At 14."),
    ]
    world = entered(calm_system, tmp_path, "edit-while-approval-waits", turns, policy="ask")
    wait_for(calm_system, world, WAITS, "m1")
    assert desk.command(world, {"do": "approve", "call": "m1"}) == "accepted"
    wait_for(calm_system, world, WAITS, "m2")
    noted = edit(calm_system, tmp_path, "Meeting at 14.\n")
    assert noted.run_ids == (world.run_id,)
    assert desk.command(world, {"do": "approve", "call": "m2"}) == "refused"
    wait_for(calm_system, world, WAITS, "m3")
    assert desk.command(world, {"do": "approve", "call": "m3"}) == "accepted"
    record = follow(calm_system, world)

    assert record.run["status"] == "completed"
    assert "Meeting at 10" in request_of(world, 3)
    assert "Meeting at 14" in request_of(world, 4)
    assert "Meeting at 10" not in request_of(world, 4)
    states = {call["model_id"]: call["state"] for call in record.calls}
    assert states == {"r1": "returned", "m1": "returned", "m2": "skipped", "m3": "returned"}
    sent = [line for line in world.ledger.order if line.startswith("end")]
    assert sorted(sent) == ["end:m1", "end:m3"]
    [rows] = calm_system.stage.database.run(
        ("SELECT calls_used, step FROM runs WHERE id = %(id)s", {"id": world.run_id})
    )
    assert rows == [{"calls_used": 4, "step": 5}]
    rebuilds(calm_system.stage.database, record, world.run_id)
    assert violations(calm_system.stage.database) == []


def test_an_edit_while_the_model_speaks(calm_system: CaseSystem, tmp_path: Path) -> None:
    """The answer from the old text is not accepted; the same step is asked with the new one."""
    turns = [reads_file(), text("At 10.", delay=30), text("At 14.")]
    world = entered(calm_system, tmp_path, "edit-while-the-model-speaks", turns)
    wait_until(lambda: len(world.model.requests) == 2, SECONDS, "the model is asked")
    edit(calm_system, tmp_path, "Meeting at 14.\n")
    record = follow(calm_system, world)
    assert (record.run["answer"], record.run["step"]) == ("At 14.", 2)
    assert "Meeting at 14" in str(world.model.requests[-1].body)
    rebuilds(calm_system.stage.database, record, world.run_id)


def test_a_file_that_is_deleted_is_a_gap_that_the_model_is_told_of(
    calm_system: CaseSystem, tmp_path: Path
) -> None:
    turns = [reads_file(), asks(("m1", "send_mail")), text("I could not read the notes.")]
    world = entered(calm_system, tmp_path, "deleted-while-approval-waits", turns, policy="ask")
    wait_for(calm_system, world, WAITS, "m1")
    edit(calm_system, tmp_path, None)
    record = follow(calm_system, world)
    assert record.run["status"] == "completed"
    shown = request_of(world, 3)
    assert "Meeting at 10" not in shown
    assert f"file:{tmp_path.resolve() / 'notes.md'}" in shown
    assert "deleted" in shown
    rebuilds(calm_system.stage.database, record, world.run_id)


def test_a_file_that_is_gone_without_a_word_is_a_gap_once_something_is_said(
    calm_system: CaseSystem, tmp_path: Path
) -> None:
    """The notice says changed, and reading it again fails: no run fails of that."""
    turns = [reads_file(), asks(("m1", "send_mail")), text("I could not read the notes.")]
    world = entered(calm_system, tmp_path, "unreadable-while-approval-waits", turns, policy="ask")
    wait_for(calm_system, world, WAITS, "m1")
    (tmp_path / "notes.md").unlink()
    stage = calm_system.stage
    notice = Notice(f"file:{tmp_path.resolve() / 'notes.md'}")
    note_source(stage.database, stage.desk.wake_ups, stage.ringer.ring_step, TENANT, notice)
    record = follow(calm_system, world)
    assert record.run["status"] == "completed"
    shown = request_of(world, 3)
    assert "unreadable" in shown
    assert "Meeting at 10" not in shown
    assert load_spec(stage.database, RunId(world.run_id)).workspace == str(tmp_path)


def test_workers_that_die_amid_a_refresh_are_followed_by_others(
    rough_system: CaseSystem, tmp_path: Path
) -> None:
    """Every worker is killed right after the notice: the same step is asked with the new text."""
    turns = [reads_file(), asks(("m1", "send_mail")), text("At 14.")]
    world = entered(rough_system, tmp_path, "killed-amid-a-refresh", turns, policy="ask")
    wait_for(rough_system, world, WAITS, "m1")
    edit(rough_system, tmp_path, "Meeting at 14.\n")
    workers = rough_system.stage.workers
    for worker in [*workers.of_role("step"), *workers.of_role("tool")]:
        workers.kill_and_replace(worker.pid)
    record = follow(rough_system, world)
    assert record.run["answer"] == "At 14."
    assert "Meeting at 14" in str(world.model.requests[-1].body)
    assert violations(rough_system.stage.database) == []
