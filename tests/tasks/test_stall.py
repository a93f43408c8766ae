"""Silence is the only clock of a tool: one that talks lives, a silent one ends where it stands."""

import signal
import time
from collections.abc import Callable, Iterator
from threading import Event

import pytest

import umbel
from models.database import Database
from tasks.drain import DrainFlag
from tasks.drain_reads import ReadInterrupted, ReadInterrupter, ToolCode, ToolStalled
from tests.factories import RunWish, a_run
from tests.invariants import violations
from tests.models.story import call_ids, query, run_row
from tests.tasks.process import Process, a_process, asked, said
from tools.definition import from_function
from umbel.contracts import CallId, RunId

FOR_EVER = 600.0

pytestmark = pytest.mark.usefixtures("own_signal")


@pytest.fixture
def own_signal() -> Iterator[None]:
    """The process's own handler comes back after the test."""
    before = signal.getsignal(signal.SIGURG)
    yield
    signal.signal(signal.SIGURG, before)


def asking(database: Database, function: Callable[..., object]) -> tuple[Process, RunId, CallId]:
    """A process that watches its tools, whose run has asked for this tool once."""
    tool = from_function(function)
    process = a_process(database, tool)
    process.runtime.reads.start()
    run = a_run(database, RunWish(tools=(tool,), policy={"permission_mode": "full_access"}))
    process.model.script.extend([asked((tool.name, "{}")), said()])
    process.step(run.run_id)
    [call_id] = call_ids(database, run.run_id)
    return process, run.run_id, call_id


def stored(database: Database) -> tuple[str, str]:
    """State of the one call, and its result."""
    [row] = query(
        database,
        "SELECT state, coalesce(body, '') AS body"
        " FROM calls LEFT JOIN evidence ON evidence.call_id = calls.id",
    )
    return row["state"], row["body"]


def test_a_silent_read_ends_as_an_error_and_the_run_goes_on(database: Database) -> None:
    @umbel.tool(effect="read", stall_seconds=0.5)
    def silent() -> str:
        """Wait."""
        Event().wait(FOR_EVER)
        return "never"

    process, run_id, call_id = asking(database, silent)
    assert process.call(call_id) == "errored, recorded"
    state, body = stored(database)
    assert state == "errored"
    assert "no sign of life for 0.5 seconds" in body
    process.carry_all()
    assert run_row(database, run_id)["status"] == "completed"
    assert violations(database) == []


def test_a_silent_change_is_ended_and_nobody_knows_what_it_did(database: Database) -> None:
    reached: list[str] = []

    @umbel.tool(effect="mutation", stall_seconds=0.5)
    def silent() -> str:
        """Wait, then change something."""
        Event().wait(FOR_EVER)
        reached.append("the change")
        return "changed"

    process, run_id, call_id = asking(database, silent)
    assert process.call(call_id) == "unknown, recorded"
    row = run_row(database, run_id)
    assert (row["status"], row["reason"], row["unknowns"]) == ("paused", "unknown_outcome", 1)
    assert reached == []
    assert violations(database) == []


@pytest.mark.parametrize("effect", ["read", "mutation"])
def test_a_tool_that_talks_lives_longer_than_it_may_be_silent(
    database: Database, effect: str
) -> None:
    @umbel.tool(effect=effect, stall_seconds=2.0)  # type: ignore[arg-type]  # an Effect
    def talks(context: umbel.ToolContext) -> str:
        """Say so every little while, for longer than the allowed silence."""
        ends_at = time.monotonic() + 3.0
        while time.monotonic() < ends_at:
            Event().wait(0.05)
            context.progress()
        return "said"

    process, _, call_id = asking(database, talks)
    assert process.call(call_id) == "returned, recorded"


def test_a_tool_that_swallows_its_end_gives_no_result(database: Database) -> None:
    @umbel.tool(effect="read", stall_seconds=0.5)
    def swallows() -> str:
        """Claim a result."""
        try:
            Event().wait(FOR_EVER)
        except BaseException as error:  # noqa: BLE001 - that is what it is for
            return f"not really: {error!r}"
        return "never"

    process, _, call_id = asking(database, swallows)
    assert process.call(call_id) == "errored, recorded"
    assert "not really" not in stored(database)[1]


def test_code_is_cut_once_its_time_has_passed_and_only_once() -> None:
    code = ToolCode(DrainFlag(), 1.0)
    with code.opened():
        code.pass_time(0.9)
        assert code.end() is None
        code.pass_time(0.2)
        assert isinstance(code.end(), ToolStalled)
        assert code.end() is None
    assert isinstance(code.cut, ToolStalled)


def test_a_sign_of_life_begins_the_silence_anew() -> None:
    code = ToolCode(DrainFlag(), 1.0)
    with code.opened():
        for _ in range(10):
            code.pass_time(0.9)
            code.hear()
        assert not code.is_due()


def test_code_is_not_cut_for_its_silence_while_it_is_inside_a_statement() -> None:
    code = ToolCode(DrainFlag(), 1.0)
    with code.opened():
        code.pass_time(5.0)
        with code.closed():
            assert code.end() is None
        assert isinstance(code.end(), ToolStalled)


def test_time_inside_a_statement_is_nobodys_silence() -> None:
    code = ToolCode(DrainFlag(), 1.0)
    with code.opened():
        code.pass_time(0.5)
        with code.closed():
            code.pass_time(5.0)
        assert code.seconds_left == pytest.approx(0.5)
        assert code.end() is None


def test_the_end_of_the_worker_ends_reads_and_leaves_changes_their_time() -> None:
    draining = DrainFlag()
    read = ToolCode(draining, 1.0)
    change = ToolCode(draining, 1.0, may_repeat=False)
    with read.opened(), change.opened():
        draining.set()
        assert isinstance(read.end(), ReadInterrupted)
        change.check()
        assert change.end() is None
        change.pass_time(1.1)
        assert isinstance(change.end(), ToolStalled)


def test_what_ended_the_code_is_raised_again_behind_a_tool_that_went_on() -> None:
    code = ToolCode(DrainFlag(), 1.0)

    def swallow() -> None:
        code.pass_time(2.0)
        assert code.end() is not None

    with pytest.raises(ToolStalled), ReadInterrupter().reading(code):
        swallow()
