"""A call whose tool is missing here is left to others; where nobody has it, its run pauses."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from loop.decision import Pause
from loop.outcome import Unknown
from models.calls import settle
from models.database import Database
from models.owner import resume_run, steer_run, stop_run
from models.steps import Applied, claim_step
from models.workers import Capacity, register, remove
from tasks.giving_back import pause_unsent
from tasks.refusing import LOOKS_AT_ONCE, MOST_LOOKS
from tests.factories import OWNER, RunWish, a_run, a_tool
from tests.invariants import violations
from tests.models.story import call_ids, call_row, call_states, change, query, run_row, started
from tests.services import Place
from tests.tasks.process import Process, a_process, asked, said
from tools.definition import Tool
from tools.registry import ToolRegistry
from umbel.contracts import CallId, RunId, WorkerId
from umbel.names import TOOLS_QUEUE

LOOK = a_tool("look")
WRITE = a_tool("write", effect="mutation")
FREELY = {"permission_mode": "full_access"}
OTHER = WorkerId("wrk_other")


@pytest.fixture
def own_database(place: Place) -> Iterator[Database]:
    """A database whose tables the test may change."""
    pool = Database(place.database_url, role="test", pool_size=2)
    yield pool
    pool.close()


def a_step(database: Database, *asks: str, here: tuple[Tool, ...] = ()) -> tuple[Process, RunId]:
    """A run that asked for these tools, and a process without patience that has those `here`."""
    run_id = a_run(database, RunWish(tools=(LOOK, WRITE), policy=FREELY)).run_id
    process = a_process(database, *here)
    process.runtime = replace(process.runtime, tool_patience_seconds=0.0)
    process.model.script.extend([asked(*((name, "{}") for name in asks)), said()])
    process.step(run_id)
    process.bell.calls.clear()
    return process, run_id


def look_until_refused(process: Process, call_id: CallId) -> str:
    for _ in range(MOST_LOOKS - 1):
        assert process.call(call_id) == "left to others: no such tool here"
    return process.call(call_id)


@pytest.mark.parametrize(
    "here",
    [
        a_tool("other"),
        replace(LOOK, version="2"),
        replace(LOOK, description="It does something else by now."),
    ],
)
def test_a_call_is_left_to_a_worker_that_has_its_tool_as_it_was_offered(
    database: Database, here: Tool
) -> None:
    process, run_id = a_step(database, "look", here=(here,))
    [call_id] = call_ids(database, run_id)
    assert process.call(call_id) == "left to others: no such tool here"
    assert process.bell.calls == [call_id], "others hear of it at once"
    call = call_row(database, call_id)
    assert (call["state"], call["attempt"], call["misses"]) == ("ready", 0, 1)
    has_it = a_process(database, LOOK)
    assert has_it.call(call_id) == "returned, recorded"
    assert call_row(database, call_id)["misses"] == 0
    assert run_row(database, run_id)["work"] == "ready"


def test_where_nobody_has_the_tool_the_run_pauses_and_says_what_to_do(database: Database) -> None:
    process, run_id = a_step(database, "look")
    [call_id] = call_ids(database, run_id)
    assert look_until_refused(process, call_id) == "refused: contract_mismatch"
    assert process.bell.calls == [call_id] * (LOOKS_AT_ONCE - 1)
    run, call = run_row(database, run_id), call_row(database, call_id)
    assert (run["status"], run["reason"]) == ("paused", "contract_mismatch")
    assert all(word in run["detail"] for word in ("'look', version 1", "UMBEL_TOOLS", "resume"))
    assert (call["state"], call["attempt"]) == ("refused", 0)
    [event] = query(database, "SELECT data FROM events WHERE kind = 'run.paused'")
    assert event["data"] == {"reason": "contract_mismatch", "detail": run["detail"]}
    assert violations(database) == []


def test_after_a_resume_the_model_knows_and_may_ask_again(database: Database) -> None:
    process, run_id = a_step(database, "look")
    look_until_refused(process, call_ids(database, run_id)[0])
    assert resume_run(database, run_id, OWNER) == 2
    upgraded = a_process(database, LOOK)
    upgraded.model.script.extend([asked(("look", "{}")), said()])
    upgraded.step(run_id, 2)
    upgraded.carry_all()
    assert run_row(database, run_id)["status"] == "completed"
    states = query(database, "SELECT state FROM calls ORDER BY step")
    assert [row["state"] for row in states] == ["refused", "returned"]
    assert "tool_unavailable" in str(upgraded.model.requests[0].messages[-1])


def test_looks_before_their_time_do_not_count(database: Database) -> None:
    process, run_id = a_step(database, "look")
    process.runtime = replace(process.runtime, tool_patience_seconds=600.0)
    [call_id] = call_ids(database, run_id)
    said_of_it = [process.call(call_id) for _ in range(MOST_LOOKS + 5)]
    assert said_of_it[LOOKS_AT_ONCE:] == ["left to others: it is too early for another look"] * (
        MOST_LOOKS + 5 - LOOKS_AT_ONCE
    )
    assert call_row(database, call_id)["misses"] == LOOKS_AT_ONCE
    [row] = query(database, "SELECT ring_at - now() > '100 s' AS waits FROM calls")
    assert row["waits"]


def test_while_a_living_worker_has_the_tool_its_call_waits_however_long(
    database: Database,
) -> None:
    register(
        database,
        OTHER,
        node="tool-2@here",
        role="tool",
        pool="prefork",
        pid=1,
        capacity=Capacity(1, (TOOLS_QUEUE,)),
        tools=ToolRegistry((LOOK,)).digests(),
    )
    process, run_id = a_step(database, "look")
    [call_id] = call_ids(database, run_id)
    for _ in range(3 * MOST_LOOKS):
        assert process.call(call_id) == "left to others: no such tool here"
    assert run_row(database, run_id)["status"] == "running"
    remove(database, OTHER)
    for _ in range(MOST_LOOKS - LOOKS_AT_ONCE):
        process.call(call_id)
    assert run_row(database, run_id)["reason"] == "contract_mismatch"


@pytest.mark.parametrize("queues", [(), ("umbel.loop",)])
def test_a_worker_that_takes_no_calls_has_no_tools_for_them(
    database: Database, queues: tuple[str, ...]
) -> None:
    tools = ToolRegistry((LOOK,)).digests()
    capacity = Capacity(1, queues)
    register(database, OTHER, node="s@x", role="x", pool="x", pid=1, capacity=capacity, tools=tools)
    process, run_id = a_step(database, "look")
    look_until_refused(process, call_ids(database, run_id)[0])
    assert run_row(database, run_id)["reason"] == "contract_mismatch"


def test_the_run_pauses_only_when_its_other_calls_have_ended(database: Database) -> None:
    process, run_id = a_step(database, "look", "write", here=(WRITE,))
    look, write = call_ids(database, run_id)
    look_until_refused(process, look)
    assert run_row(database, run_id)["status"] == "running"
    assert process.call(write) == "returned, recorded"
    assert run_row(database, run_id)["reason"] == "contract_mismatch"
    assert call_states(database, run_id) == ["refused", "returned"]


def test_an_outcome_that_nobody_knows_is_the_stronger_reason(database: Database) -> None:
    process, run_id = a_step(database, "look", "write", here=(WRITE,))
    look, write = call_ids(database, run_id)
    look_until_refused(process, look)
    sent = started(database, write)
    settled = settle(database, sent, Unknown("?"), "")
    assert settled is not None
    assert settled.ended == ("paused", "unknown_outcome")
    assert "nobody knows" in run_row(database, run_id)["detail"]


def test_a_stop_or_a_correction_is_stronger_than_the_pause(database: Database) -> None:
    process, run_id = a_step(database, "look", "write", here=(WRITE,))
    look_until_refused(process, call_ids(database, run_id)[0])
    assert steer_run(database, run_id, OWNER, "Leave it.", "redirect") is not None
    assert (run_row(database, run_id)["work"], call_states(database, run_id)) == (
        "ready",
        ["refused", "skipped"],
    )
    process, run_id = a_step(database, "look", "write", here=(WRITE,))
    look_until_refused(process, call_ids(database, run_id)[0])
    stop_run(database, run_id, OWNER)
    assert run_row(database, run_id)["reason"] == "owner_stop"
    resume_run(database, run_id, OWNER)
    process.model.script.append(asked(("write", '{"again":1}')))
    process.step(run_id, 2)
    process.carry_all()
    assert run_row(database, run_id)["status"] == "completed", "an old pause does not come back"


@pytest.mark.parametrize("name", ["policy", "tools"])
def test_a_run_whose_contract_was_changed_pauses_before_anybody_is_asked(
    own_database: Database, name: str
) -> None:
    run_id = a_run(own_database, RunWish(tools=(LOOK,))).run_id
    tamper(own_database, name)
    process = a_process(own_database, LOOK)
    assert process.step(run_id) == "pause contract_mismatch, 0 tok"
    run = run_row(own_database, run_id)
    assert (run["status"], run["reason"]) == ("paused", "contract_mismatch")
    assert f"SHA-256 of its {name} differs" in run["detail"]
    assert process.model.requests == []
    assert violations(own_database) == []


def test_a_call_whose_contract_was_changed_is_refused_and_its_run_pauses(
    own_database: Database,
) -> None:
    _, run_id = a_step(own_database, "look")
    tamper(own_database, "tools")
    process = a_process(own_database, LOOK)
    assert process.call(call_ids(own_database, run_id)[0]) == "refused: contract_mismatch"
    assert run_row(own_database, run_id)["reason"] == "contract_mismatch"
    assert call_states(own_database, run_id) == ["refused"]


def test_a_run_that_moved_on_is_given_back_and_not_paused(database: Database) -> None:
    run_id = a_run(database, RunWish(tools=(LOOK,))).run_id
    process = a_process(database, LOOK)
    claim = claim_step(database, run_id, 1, process.worker)
    assert claim is not None
    steer_run(database, run_id, OWNER, "Wait.", "redirect")
    pause = Pause("contract_mismatch", "why")
    assert pause_unsent(process.runtime, claim, pause) == Applied(next_step=1)
    assert (run_row(database, run_id)["work"], run_row(database, run_id)["reason"]) == (
        "ready",
        None,
    )


def tamper(database: Database, name: str) -> None:
    """Change what the run was accepted with, behind the back of the table."""
    change(database, f"ALTER TABLE run_specs DROP CONSTRAINT run_specs_{name}_sha")
    change(database, f"UPDATE run_specs SET {name} = {name} || ' '")
