"""The call body: one intent ever, whatever the message does and whatever the tool does."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event
from typing import Any

import pytest

from models.database import Database
from models.owner import resume_run, verify_receipt
from tasks.drain import DrainFlag
from tasks.drain_reads import ToolCode
from tasks.tool_context import RunToolContext
from tests.factories import OWNER, RunWish, a_run, a_tool
from tests.invariants import violations
from tests.models.story import (
    CHANGE,
    ME,
    call_ids,
    call_row,
    call_states,
    change,
    claimed,
    count,
    dispatched,
    made_unknown,
    query,
    receipt_row,
    run_row,
    started,
)
from tests.tasks.process import Process, a_process, asked, said
from tools.definition import Tool
from tools.web.client import WebAccess
from umbel.contracts import CallId, RunId
from umbel.tallies import CHANGES_REPEATED
from umbel.tool import ToolContext, ToolFailed
from umbel.web_targets.allowing import AllowList

FREELY = {"permission_mode": "full_access"}


def prepared(
    database: Database, tool: Tool, arguments: str = '{"a":1}'
) -> tuple[Process, list[CallId]]:
    """A process and the calls of a run that asked for this tool once."""
    process = a_process(database, tool)
    run = a_run(database, RunWish(tools=(tool,), policy=FREELY))
    process.model.script.extend([asked((tool.name, arguments)), said()])
    process.step(run.run_id)
    return process, call_ids(database, run.run_id)


def result_of(database: Database) -> object:
    [row] = query(database, "SELECT body FROM evidence")
    return json.loads(row["body"])


def test_a_change_is_sent_once_however_often_its_message_comes(database: Database) -> None:
    sent = []
    tool = a_tool("write", lambda **arguments: sent.append(arguments), effect="mutation")
    process, [call_id] = prepared(database, tool)
    assert process.call(call_id) == "returned, recorded"
    assert process.call(call_id) == "nothing to do"
    assert sent == [{"a": 1}]
    assert receipt_row(database, call_id)["outcome"] == "done"
    process.carry_all()
    assert violations(database) == []


def test_a_change_is_sent_once_by_fifty_messages_at_once(
    database: Database, make_database: Callable[[], Database]
) -> None:
    sent, may_end = [], Event()

    def slowly(**arguments: object) -> str:
        sent.append(arguments)
        may_end.wait(10)
        return "ok"

    tool = a_tool("write", slowly, effect="mutation")
    process, [call_id] = prepared(database, tool)
    others = [a_process(make_database(), tool) for _ in range(4)]
    with ThreadPoolExecutor(50) as pool:
        told = [pool.submit((process, *others)[number % 5].call, call_id) for number in range(50)]
        while sum(one.done() for one in told) < 49:
            Event().wait(0.01)
        may_end.set()
    assert [one.result() for one in told].count("returned, recorded") == 1
    assert len(sent) == 1


def test_a_tool_that_raises_leaves_a_change_unknown_and_pauses_the_run(
    database: Database,
) -> None:
    def breaks(**_: object) -> None:
        raise ConnectionError("reset after send")

    process, [call_id] = prepared(database, a_tool("write", breaks, effect="mutation"))
    assert process.call(call_id) == "unknown, recorded"
    assert call_row(database, call_id)["state"] == "unknown"
    assert query(database, "SELECT status, reason FROM runs") == [
        {"status": "paused", "reason": "unknown_outcome"}
    ]
    process.bell.calls.clear()
    process.carry_all()
    assert len(process.model.requests) == 1, "no model call behind an unknown outcome"
    assert violations(database) == []


def test_a_change_whose_deadline_is_over_is_not_sent_any_more(database: Database) -> None:
    sent = []
    tool = a_tool("write", lambda **a: sent.append(a), effect="mutation", stall_seconds=1e-6)
    process, [call_id] = prepared(database, tool)
    assert process.call(call_id) == "errored, recorded"
    assert sent == []
    assert receipt_row(database, call_id)["outcome"] == "not_done"
    assert violations(database, at_rest=False) == []


def test_a_tool_that_knows_it_changed_nothing_lets_the_run_go_on(database: Database) -> None:
    def refuses(**_: object) -> None:
        raise ToolFailed("The disk is full.")

    process, [call_id] = prepared(database, a_tool("write", refuses, effect="mutation"))
    assert process.call(call_id) == "errored, recorded"
    assert receipt_row(database, call_id)["outcome"] == "not_done"
    process.bell.calls.clear()
    process.carry_all()
    assert query(database, "SELECT status FROM runs") == [{"status": "completed"}]


@pytest.mark.parametrize("error", [ValueError("odd"), SystemExit(3), KeyboardInterrupt()])
def test_a_read_that_raises_anything_ends_as_an_error(
    database: Database, error: BaseException
) -> None:
    def breaks(**_: object) -> None:
        raise error

    process, [call_id] = prepared(database, a_tool("look", breaks))
    assert process.call(call_id) == "errored, recorded"
    assert call_row(database, call_id)["state"] == "errored"


def test_a_result_longer_than_the_view_is_kept_whole_and_shown_cut(database: Database) -> None:
    process = a_process(database, tool := a_tool("look", lambda **_: "x" * 5_000))
    run = a_run(database, RunWish(tools=(tool,), policy={"result_view_chars": 1_000}))
    process.model.script.extend([asked(("look", "{}")), said()])
    process.step(run.run_id)
    process.carry_all()
    assert result_of(database) == "x" * 5_000
    [row] = query(database, "SELECT view FROM evidence")
    assert len(row["view"]) < 1_200
    assert "evidence_read" in row["view"]


def test_text_that_no_database_can_store_comes_back_as_it_was(database: Database) -> None:
    odd = "nul \x00 and half \ud83d"
    process, [call_id] = prepared(database, a_tool("look", lambda **_: odd))
    assert process.call(call_id) == "returned, recorded"
    assert result_of(database) == odd
    assert query(database, "SELECT is_escaped FROM evidence") == [{"is_escaped": True}]


def test_an_outcome_that_cannot_be_stored_is_replaced_and_never_claims_more_than_is_known(
    database: Database,
) -> None:
    tool = a_tool("write", lambda **_: "unstorable", effect="mutation")
    process, [call_id] = prepared(database, tool)
    change(database, "ALTER TABLE evidence ADD CONSTRAINT no CHECK (body NOT LIKE '%%unstor%%')")
    try:
        assert process.call(call_id) == "returned, recorded"
    finally:
        change(database, "ALTER TABLE evidence DROP CONSTRAINT no")
    assert receipt_row(database, call_id)["outcome"] == "done"
    assert "result_lost" in json.dumps(result_of(database))


def test_a_call_that_was_never_made_is_nothing_to_do(database: Database, process: Process) -> None:
    assert process.call(CallId("call_none")) == "nothing to do"


def test_a_call_that_runs_elsewhere_is_nothing_to_do(database: Database) -> None:
    process, [call_id] = prepared(database, a_tool("look"))
    started(database, call_id, ME)
    assert process.call(call_id) == "nothing to do"


def test_a_read_of_a_corrected_run_is_not_started(database: Database) -> None:
    process, [call_id] = prepared(database, a_tool("look"))
    change(database, "UPDATE runs SET steer_rev = steer_rev + 1")
    assert process.call(call_id) == "not started: the call or its run has moved on"


def test_a_tool_is_given_its_ids_earlier_results_and_a_way_to_say_that_it_lives(
    database: Database,
) -> None:
    seen: dict[str, object] = {}

    def look(context: ToolContext, **_: object) -> str:
        seen.update(run=context.run_id, call=context.call_id, key=context.effect_key)
        context.progress("half way")
        with pytest.raises(ToolFailed, match="no workspace"):
            context.workspace.list_files(".")
        return "ok"

    process, [call_id] = prepared(database, a_tool("look", look))
    assert process.call(call_id) == "returned, recorded"
    run_id = call_row(database, call_id)["run_id"]
    assert seen == {"run": run_id, "call": call_id, "key": call_id}


def test_what_a_change_makes_is_in_the_record_while_it_still_runs(database: Database) -> None:
    seen: list[Any] = []

    def pay(context: ToolContext, **_: object) -> str:
        context.record_resource("INV-1")
        seen.extend(query(database, "SELECT outcome, resources FROM receipts"))
        context.record_resource("INV-2")
        raise RuntimeError("nobody knows")

    process, [call_id] = prepared(database, a_tool("pay", pay, effect="mutation"))
    process.call(call_id)
    assert seen == [{"outcome": None, "resources": ["INV-1"]}]
    [row] = query(database, "SELECT outcome, resources FROM receipts")
    assert row == {"outcome": "unknown", "resources": ["INV-1", "INV-2"]}


@pytest.mark.parametrize("is_the_same", [True, False])
def test_a_change_that_was_done_after_all_and_sent_again_raises_an_alarm(
    database: Database, caplog: pytest.LogCaptureFixture, is_the_same: bool
) -> None:
    """Its owner has looked too early: the outside system had not done it yet."""
    sent: list[CallId] = []

    def pay(context: ToolContext, **_: object) -> str:
        if not sent:
            sent.append(CallId(context.call_id))
            again(RunId(context.run_id), sent[0])
        return "paid"

    def again(run_id: RunId, call_id: CallId) -> None:
        change(database, "UPDATE calls SET deadline_at = now() - interval '1 hour'")
        assert made_unknown(database, call_id) is not None
        verify_receipt(database, run_id, call_id, OWNER, "not_happened", "I looked there.")
        change(database, "UPDATE calls SET quiet_until = NULL")
        assert resume_run(database, run_id, OWNER) == 2
        same = call_row(database, call_id)["args_text"] if is_the_same else '{"a":2}'
        call = replace(CHANGE, tool="pay", args_text=same)
        step = dispatched(database, call, claim=claimed(database, run_id, step=2))
        sent.append(started(database, step.calls[0]).call.call_id)

    process, [call_id] = prepared(database, a_tool("pay", pay, effect="mutation"))
    process.call(call_id)
    alarms = [r for r in caplog.records if r.getMessage() == "change probably made twice"]
    assert [(r.__dict__["call_id"], r.__dict__["again"]) for r in alarms] == (
        [(call_id, sent[1])] if is_the_same else []
    )
    tallied = {series.metric for series in process.runtime.meter.tallies.take()}
    assert (CHANGES_REPEATED.name in tallied) == is_the_same


def test_progress_in_a_tight_loop_is_written_at_most_once_a_second(database: Database) -> None:
    _, [call_id] = prepared(database, a_tool("write", effect="mutation"))
    proof = started(database, call_id)
    before = query(database, "SELECT xmin::text, deadline_at FROM calls")
    context = RunToolContext(database, proof, None, ToolCode(DrainFlag()), WebAccess(AllowList()))
    for _ in range(1_000):
        context.progress()
    assert query(database, "SELECT xmin::text, deadline_at FROM calls") == before


def test_a_settled_call_rings_for_the_next_planned_one(database: Database) -> None:
    tools = (a_tool("look"), a_tool("list"))
    process = a_process(database, *tools)
    run = a_run(database, RunWish(tools=tools, policy={"parallel": 1}))
    process.model.script.append(asked(("look", "{}"), ("list", "{}")))
    process.step(run.run_id)
    first, second = call_ids(database, run.run_id)
    assert process.bell.tools == {first: "look"}
    process.bell.calls.clear()
    process.call(first)
    assert process.bell.calls == [second]
    assert process.bell.tools == {first: "look", second: "list"}
    assert call_states(database, run.run_id) == ["returned", "ready"]
    assert run_row(database, run.run_id)["open_calls"] == 1
    assert count(database, "receipts") == 0
