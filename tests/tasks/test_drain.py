"""A process that is told to end: what it takes, cuts short, finishes and gives back."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from threading import Event, Thread

import pytest

import umbel
from models.database import Database
from models.owner import stop_run
from tasks.drain import DrainFlag
from tasks.drain_reads import ReadInterrupted, ReadInterrupter, ToolCode
from tests.factories import RunWish, a_run, a_tool
from tests.invariants import violations
from tests.models.story import call_ids, call_row, query, run_row
from tests.tasks.process import Process, a_process, asked, said
from tools.definition import from_function
from umbel.contracts import CallId, Principal, RunId

LONG_SECONDS = 60.0


@pytest.fixture
def own_signal() -> Iterator[None]:
    """The process's own handler comes back after the test."""
    before = signal.getsignal(signal.SIGURG)
    yield
    signal.signal(signal.SIGURG, before)


def asking(database: Database, function: Callable[..., object]) -> tuple[Process, RunId, CallId]:
    """A process whose run has asked for this tool once."""
    tool = from_function(function)
    process = a_process(database, tool)
    run = a_run(database, RunWish(tools=(tool,), policy={"permission_mode": "full_access"}))
    process.model.script.extend([asked((tool.name, "{}")), said()])
    process.step(run.run_id)
    process.bell.calls.clear()
    process.bell.tools.clear()
    [call_id] = call_ids(database, run.run_id)
    return process, run.run_id, call_id


def soon(act: Callable[[], object]) -> None:
    """Do something beside the test, a moment from now."""

    def later() -> None:
        Event().wait(0.2)
        act()

    Thread(target=later, daemon=True).start()


def test_a_forked_child_sees_that_the_worker_ends() -> None:
    flag = DrainFlag()
    child = os.fork()
    if child == 0:
        ends_at = time.monotonic() + 10
        while not flag.is_set() and time.monotonic() < ends_at:
            Event().wait(0.01)
        os._exit(7 if flag.is_set() else 1)
    flag.set()
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7


def test_messages_that_come_to_an_ending_worker_are_passed_on(database: Database) -> None:
    process = a_process(database, a_tool())
    waiting = a_run(database)
    run = a_run(database, RunWish(tools=(a_tool(),)))
    process.model.script.append(asked(("look", "{}")))
    process.step(run.run_id)
    [call_id] = call_ids(database, run.run_id)
    process.bell.calls.clear()
    process.bell.tools.clear()

    process.runtime.draining.set()
    assert process.call(call_id) == "left to others: this worker is about to end"
    assert process.step(waiting.run_id) == "left to others: this worker is about to end"
    assert (process.bell.calls, process.bell.steps) == ([call_id], [(waiting.run_id, 1)])
    assert process.bell.tools == {call_id: "look"}
    assert call_row(database, call_id)["state"] == "ready"
    assert run_row(database, waiting.run_id)["work"] == "ready"


@pytest.mark.usefixtures("own_signal")
def test_a_read_that_sleeps_is_cut_short_and_costs_no_attempt(database: Database) -> None:
    @umbel.tool(effect="read")
    def sleeps() -> str:
        """Wait."""
        Event().wait(LONG_SECONDS)
        return "slept"

    process, _, call_id = asking(database, sleeps)
    process.runtime.reads.start()
    soon(process.runtime.draining.set)
    began = time.monotonic()
    assert process.call(call_id) == "handed back: this worker is about to end"
    assert time.monotonic() - began < LONG_SECONDS / 2
    row = call_row(database, call_id)
    assert (row["state"], row["attempt"], row["ring_at"]) == ("ready", 0, None)
    assert process.bell.tools == {call_id: "sleeps"}
    assert violations(database, at_rest=False) == []


def test_a_read_that_reports_progress_is_cut_short_on_any_thread(database: Database) -> None:
    @umbel.tool(effect="idempotent")
    def loops(context: umbel.ToolContext) -> str:
        """Begin, and go on for ever."""
        process.runtime.draining.set()
        assert context.is_ending
        while True:
            context.progress()

    process, _, call_id = asking(database, loops)
    told: list[str] = []
    thread = Thread(target=lambda: told.append(process.call(call_id)))
    thread.start()
    thread.join(10)
    assert told == ["handed back: this worker is about to end"]


def test_a_read_that_swallows_its_end_is_run_again_all_the_same(database: Database) -> None:
    @umbel.tool(effect="read")
    def swallows(context: umbel.ToolContext) -> str:
        """Claim a result."""
        process.runtime.draining.set()
        try:
            context.progress()
        except BaseException:  # noqa: BLE001 - that is what it is for
            return "not really"
        return "really"

    process, _, call_id = asking(database, swallows)
    assert process.call(call_id) == "handed back: this worker is about to end"
    assert query(database, "SELECT * FROM evidence") == []


@pytest.mark.usefixtures("own_signal")
def test_a_change_is_never_cut_short(database: Database) -> None:
    @umbel.tool(effect="mutation")
    def changes(context: umbel.ToolContext) -> str:
        """Take a moment for a change."""
        process.runtime.draining.set()
        Event().wait(0.5)
        context.progress()
        return "changed"

    process, _, call_id = asking(database, changes)
    process.runtime.reads.start()
    assert process.call(call_id) == "returned, recorded"
    assert call_row(database, call_id)["state"] == "returned"
    assert violations(database, at_rest=False) == []


def test_a_read_of_a_stopped_run_ends_instead_of_waiting_for_ever(database: Database) -> None:
    @umbel.tool(effect="read")
    def stopped_meanwhile(context: umbel.ToolContext) -> str:
        """Be cut short after the owner has stopped the run."""
        [row] = query(database, "SELECT tenant, owner FROM runs")
        stop_run(database, run_id, Principal(tenant=row["tenant"], user=row["owner"]))
        process.runtime.draining.set()
        context.progress()
        return "never"

    process, run_id, call_id = asking(database, stopped_meanwhile)
    assert process.call(call_id) == "ended early: its run has moved on"
    assert call_row(database, call_id)["state"] == "errored"
    assert run_row(database, run_id)["status"] == "cancelled"
    assert violations(database) == []


def test_code_is_cut_once_and_never_inside_a_statement() -> None:
    draining, interrupter = DrainFlag(), ReadInterrupter()
    code = ToolCode(draining)
    reached: list[str] = []

    def run() -> None:
        try:
            with code.closed():
                draining.set()
                code.check()
                reached.append("the statement's end")
        finally:
            code.check()
            reached.append("the clean-up's end")

    with pytest.raises(ReadInterrupted), interrupter.reading(code):
        run()
    assert reached == ["the statement's end", "the clean-up's end"]


def test_code_that_begins_after_the_end_has_begun_does_not_run() -> None:
    draining = DrainFlag()
    draining.set()
    entered = False
    with pytest.raises(ReadInterrupted), ReadInterrupter().reading(ToolCode(draining)):
        entered = True
    assert not entered
