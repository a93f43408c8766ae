"""How spans tell of what went wrong, was repeated, resumed or settled by others."""

import logging
from collections.abc import Iterator
from typing import Any, Final

import pytest
from opentelemetry.trace import StatusCode

from locks.ownership import OwnershipLocks
from loop.outcome import Returned
from loop.profiles import expand_policy
from loop.response import Failure, ModelTurn
from models.calls import CallRow, Started, free_own_read, load_call, start_read
from models.database import Database
from models.owner import resume_run, stop_run
from models.records import RunSpec
from models.steps import claim_step
from providers.contract import StreamControl
from scheduler.sweeper import Sweeper
from tasks.traceparent import derived_span_id
from tests.factories import OWNER, RunWish, a_run, a_tool
from tests.models.story import ME, change, fall_silent, run_row
from tests.tasks.process import a_process, asked, said
from tests.tasks.traced import (
    FREELY,
    Traced,
    a_traced_run,
    context_of,
    linked,
    look,
    parent_id,
    told,
    write,
)
from umbel.contracts import CallId, RunId, ThreadId
from umbel.errors import InvariantBroken

STARTED: Final = Started(
    CallRow(
        call_id=CallId("call_1"),
        run_id=RunId("run_1"),
        thread_id=ThreadId("thr_1"),
        tenant="default",
        tool="look",
        tool_version="1",
        effect="read",
        state="started",
        attempt=1,
        stall_seconds=30.0,
        step=1,
        fence=1,
    ),
    ME,
    1,
    "{}",
)
SPEC: Final = RunSpec(
    run_id=RunId("run_1"),
    thread_id=ThreadId("thr_1"),
    model="scripted",
    wire="chat",
    instructions="",
    policy=expand_policy("steward", {}),
    policy_sha="",
    tools=(),
    tools_sha="",
    workspace=None,
)


class Killed(BaseException):
    """What a killed greenlet meets: not an Exception."""


@pytest.fixture
def traced(database: Database) -> Traced:
    return Traced(a_process(database, look(), write()))


def test_a_failed_model_call_tells_its_class_and_not_its_text(traced: Traced) -> None:
    run = a_run(traced.process.runtime.database)
    failure = Failure(error_class="server", is_retryable=True, message="planted-message")
    traced.process.model.script.append(ModelTurn(failure=failure))
    traced.process.step(run.run_id)
    chat = traced.one("chat")
    assert told(chat)["error.type"] == "server"
    assert (chat.status.status_code, chat.status.description) == (StatusCode.ERROR, None)
    assert "planted" not in chat.to_json()


@pytest.mark.parametrize("reason", ["drain", "lease_lost"])
def test_a_stream_that_was_given_up_tells_why(traced: Traced, reason: Any) -> None:
    run = a_run(traced.process.runtime.database)

    def given_up(control: StreamControl) -> ModelTurn:
        control.handle.abort(reason)
        return ModelTurn(failure=Failure(error_class="aborted", is_retryable=False))

    traced.process.model.script.extend([given_up, said()])
    traced.process.step(run.run_id)
    assert told(traced.one("chat"))["error.type"] == reason
    assert traced.named("invoke_agent") == []
    traced.process.step(run.run_id)
    second = traced.named("chat")[1]
    assert linked(second) == [context_of(traced.named("chat")[0]).span_id]


def test_a_killed_step_has_ended_its_span(traced: Traced) -> None:
    run = a_run(traced.process.runtime.database)
    traced.process.model.script.append(Killed())
    with pytest.raises(Killed):
        traced.process.step(run.run_id)
    assert told(traced.one("chat"))["error.type"] == "Killed"


def test_a_read_that_is_run_again_leads_to_its_first_attempt(traced: Traced) -> None:
    database = traced.process.runtime.database
    run = a_run(database, RunWish(tools=(look(),), policy=FREELY))
    traced.process.model.script.append(asked(("look", "{}")))
    traced.process.step(run.run_id)
    [call_id] = traced.process.bell.calls
    lost = load_call(database, call_id)
    assert lost is not None
    started = start_read(database, lost, ME)
    assert started is not None
    free_own_read(database, started)
    traced.process.call(call_id)
    second = traced.one("execute_tool")
    assert told(second)["umbel.attempt"] == 2
    assert linked(second) == [derived_span_id("call", call_id, 1)]


def test_a_tool_that_failed_tells_that_and_not_how(database: Database) -> None:
    def fail(**_: object) -> str:
        raise ValueError("planted-error")

    traced = Traced(a_process(database, look(fail), write()))
    a_traced_run(traced, asked(("look", "{}")), said())
    tool = traced.one("execute_tool")
    assert (told(tool)["umbel.status"], told(tool)["error.type"]) == ("errored", "errored")
    assert "planted" not in tool.to_json()


def test_a_stored_reply_leads_to_the_call_that_was_paid_for(traced: Traced) -> None:
    database = traced.process.runtime.database
    run = a_run(database)
    change(database, "ALTER TABLE deliveries ADD CONSTRAINT for_now CHECK (false)")
    traced.process.model.script.append(said("Paid for."))
    try:
        with pytest.raises(InvariantBroken):
            traced.process.step(run.run_id)
    finally:
        change(database, "ALTER TABLE deliveries DROP CONSTRAINT for_now")
    assert resume_run(database, run.run_id, OWNER) == 1
    traced.process.step(run.run_id)
    chat, applied = traced.one("chat"), traced.one("apply_reply")
    assert linked(applied) == [context_of(chat).span_id]
    assert run_row(database, run.run_id)["answer"] == "Paid for."


def test_a_resumed_run_has_a_root_for_each_stretch(traced: Traced) -> None:
    database = traced.process.runtime.database
    run = a_run(database)
    refused = Failure(error_class="auth", is_retryable=False)
    traced.process.model.script.extend([ModelTurn(failure=refused), said()])
    traced.process.step(run.run_id)
    resume_run(database, run.run_id, OWNER)
    traced.process.step(run.run_id)
    first, second = traced.named("invoke_agent")
    assert (told(first)["umbel.status"], told(first)["umbel.reason"]) == ("paused", "credentials")
    assert told(second)["umbel.status"] == "completed"
    assert context_of(first).trace_id == context_of(second).trace_id
    assert context_of(first).span_id != context_of(second).span_id
    assert linked(second) == [context_of(first).span_id] == [parent_id(second)]
    assert [parent_id(chat) for chat in traced.named("chat")] == [
        context_of(first).span_id,
        context_of(second).span_id,
    ]
    assert first.end_time is not None
    assert second.start_time is not None
    assert second.start_time >= first.end_time


def test_a_failed_run_has_a_failed_root_even_if_its_specification_is_broken(
    traced: Traced,
) -> None:
    database = traced.process.runtime.database
    run = a_run(database)
    change(database, "UPDATE run_specs SET policy = '[]', policy_sha = sha256('[]')")
    with pytest.raises(InvariantBroken):
        traced.process.step(run.run_id)
    root = traced.one("invoke_agent")
    assert root.status.status_code is StatusCode.ERROR
    assert told(root)["error.type"] == "corrupt_record"


def test_a_run_that_was_stopped_while_the_model_spoke_has_its_root(traced: Traced) -> None:
    database = traced.process.runtime.database
    run = a_run(database)

    def stopped(control: StreamControl) -> ModelTurn:
        assert stop_run(database, run.run_id, OWNER) is not None
        assert control.watch() == "stop"
        control.handle.abort("stop")
        return ModelTurn(failure=Failure(error_class="aborted", is_retryable=False))

    traced.process.model.script.append(stopped)
    traced.process.step(run.run_id)
    root = traced.one("invoke_agent")
    assert (told(root)["umbel.status"], told(root)["umbel.reason"]) == ("cancelled", "owner_stop")


def test_an_unknown_outcome_pauses_the_run_and_ends_its_root(database: Database) -> None:
    def killed(**_: object) -> str:
        raise Killed

    traced = Traced(a_process(database, a_tool("write", killed, effect="mutation")))
    run = a_run(database, RunWish(tools=(a_tool("write", effect="mutation"),), policy=FREELY))
    traced.process.model.script.append(asked(("write", "{}")))
    traced.process.step(run.run_id)
    traced.process.call(traced.process.bell.calls[0])
    assert told(traced.one("execute_tool"))["error.type"] == "unknown"
    assert told(traced.one("invoke_agent"))["umbel.reason"] == "unknown_outcome"


def test_a_run_that_beat_settles_has_its_root_once(database: Database, traced: Traced) -> None:
    run = a_run(database)
    claimed = claim_step(database, run.run_id, 1, ME)
    assert claimed is not None
    fall_silent(database)
    stop_run(database, run.run_id, OWNER)
    sweeper = Sweeper(
        database,
        traced.process.runtime.locks,
        traced.process.bell,
        dead_after_seconds=0.0,
        ring_after_seconds=60,
        on_settled=traced.tracer.run_settled,
    )
    assert isinstance(sweeper.locks, OwnershipLocks)
    sweeper.sweep()
    sweeper.sweep()
    assert told(traced.one("invoke_agent"))["umbel.status"] == "cancelled"


def test_a_record_that_cannot_be_read_costs_spans_and_no_work(
    traced: Traced, caplog: pytest.LogCaptureFixture
) -> None:
    database = traced.process.runtime.database
    change(database, "ALTER TABLE events RENAME COLUMN kind TO sort")
    try:
        with caplog.at_level(logging.WARNING, "tasks.tracing_spans"):
            traced.tracer.run_settled(RunId("run_1"))
            with traced.tracer.tool_call(STARTED, SPEC) as span:
                span.ended(Returned("ok"))
    finally:
        change(database, "ALTER TABLE events RENAME COLUMN sort TO kind")
    ours = [record.message for record in caplog.records if record.name == "tasks.tracing_spans"]
    assert ours == ["span lost"] * 2
    assert traced.spans == []


@pytest.fixture(autouse=True)
def unlimited_log() -> Iterator[None]:
    logger = logging.getLogger("tasks.tracing_spans")
    kept, logger.filters[:] = list(logger.filters), []
    yield
    logger.filters[:] = kept
