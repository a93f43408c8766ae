"""What spans tell of a run: one trace, right parents, names of the conventions, no content."""

import json
from collections.abc import Callable
from datetime import datetime

import pytest
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased
from opentelemetry.trace import SpanKind

from models.database import Database
from tasks.acceptance import AgentSpec, NewRequest, accept
from tasks.traceparent import derived_trace_id
from tasks.tracing_content import MAX_CHARS, MAX_MESSAGES
from tests.factories import OWNER, RunWish, a_run
from tests.models.story import run_row
from tests.tasks.process import Process, a_process, asked, said
from tests.tasks.traced import (
    CALLER,
    FREELY,
    SECRET,
    TURNS,
    Traced,
    a_traced_run,
    context_of,
    look,
    parent_id,
    told,
    write,
)
from tools.registry import ToolRegistry
from umbel.contracts import RunId


@pytest.fixture
def traced(database: Database) -> Traced:
    return Traced(a_process(database, look(), write()))


def test_a_run_is_one_trace_of_model_and_tool_calls_under_one_root(traced: Traced) -> None:
    run_id = a_traced_run(traced, *TURNS)
    assert sorted(span.name for span in traced.spans) == [
        "chat scripted",
        "chat scripted",
        "execute_tool look",
        "execute_tool write",
        "invoke_agent default",
    ]
    root = traced.one("invoke_agent")
    assert root.parent is None
    assert {context_of(span).trace_id for span in traced.spans} == {derived_trace_id(run_id)}
    others = [span for span in traced.spans if span is not root]
    assert {parent_id(span) for span in others} == {context_of(root).span_id}
    assert len({context_of(span).span_id for span in traced.spans}) == 5


def test_the_root_lasts_from_acceptance_to_the_end_and_holds_the_others(traced: Traced) -> None:
    run_id = a_traced_run(traced, *TURNS)
    row = run_row(traced.process.runtime.database, run_id)
    root = traced.one("invoke_agent")
    assert root.start_time == microseconds(row["accepted_at"])
    assert root.end_time == microseconds(row["settled_at"])
    for span in traced.spans:
        assert span.start_time is not None
        assert span.end_time is not None
        assert root.start_time <= span.start_time <= span.end_time


def microseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000) * 1_000


def test_spans_have_the_attributes_of_the_conventions_and_our_own(traced: Traced) -> None:
    run_id = a_traced_run(traced, *TURNS)
    row = run_row(traced.process.runtime.database, run_id)
    about = {
        "gen_ai.conversation.id": row["thread_id"],
        "gen_ai.agent.name": "default",
        "umbel.run_id": run_id,
    }
    chat = traced.named("chat")[1]
    assert chat.kind is SpanKind.CLIENT
    assert told(chat) == {
        **about,
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "scripted",
        "gen_ai.response.model": "scripted-2",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 11,
        "gen_ai.usage.output_tokens": 3,
        "umbel.status": "replied",
        "umbel.step": 2,
        "umbel.attempt": 1,
        "umbel.fence": 2,
    }
    tool = told(traced.one("execute_tool write"))
    assert tool.pop("gen_ai.tool.call.id").startswith("call_")
    assert tool == {
        **about,
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "write",
        "gen_ai.tool.type": "function",
        "umbel.status": "returned",
        "umbel.step": 1,
        "umbel.attempt": 1,
        "umbel.fence": 1,
    }
    assert told(traced.one("invoke_agent")) == {
        **about,
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "scripted",
        "umbel.status": "completed",
        "umbel.step": 2,
    }


def test_nothing_that_was_written_is_in_a_span_by_default(traced: Traced) -> None:
    a_traced_run(traced, *TURNS)
    assert "planted" not in "".join(span.to_json() for span in traced.spans)


def test_content_is_told_when_it_is_asked_for_without_secrets(database: Database) -> None:
    traced = Traced(a_process(database, look(lambda **_: SECRET), write()), content=True)
    a_traced_run(traced, *TURNS)
    text = "".join(span.to_json() for span in traced.spans)
    for planted in ("planted-request", "planted-argument", "planted-result", "planted-answer"):
        assert planted in text
    assert SECRET not in text
    assert "***" in told(traced.one("execute_tool look"))["gen_ai.tool.call.result"]
    messages = json.loads(told(traced.named("chat")[1])["gen_ai.input.messages"])
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool"]
    assert json.loads(told(traced.named("chat")[1])["gen_ai.output.messages"])[0]["parts"] == [
        {"type": "text", "content": "planted-answer"}
    ]


def test_content_is_bounded(database: Database) -> None:
    traced = Traced(a_process(database, look(lambda **_: "x" * 50_000), write()), content=True)
    a_traced_run(traced, *[asked(("look", "{}"))] * 15, said())
    last = told(traced.named("chat")[-1])
    messages = json.loads(last["gen_ai.input.messages"])
    assert len(messages) == MAX_MESSAGES
    assert len(last["gen_ai.input.messages"]) < 2 * MAX_CHARS * MAX_MESSAGES
    assert len(told(traced.named("execute_tool")[0])["gen_ai.tool.call.result"]) == MAX_CHARS


def test_several_processes_put_their_spans_into_the_same_trace(
    database: Database, make_database: Callable[[], Database]
) -> None:
    steps = Traced(a_process(database, look(), write()))
    calls = Traced(a_process(make_database(), look(), write()))
    run = a_run(database, RunWish(tools=(look(),), policy=FREELY))
    steps.process.model.script.extend([asked(("look", "{}")), said()])
    steps.process.step(run.run_id)
    calls.process.call(steps.process.bell.calls[0])
    steps.process.step(run.run_id, 2)
    tool, root = calls.one("execute_tool"), steps.one("invoke_agent")
    assert context_of(tool).trace_id == context_of(root).trace_id
    assert parent_id(tool) == context_of(root).span_id


def test_a_callers_trace_contains_the_run(traced: Traced) -> None:
    run_id = a_run_of_a_caller(traced, CALLER)
    root, chat = traced.one("invoke_agent"), traced.one("chat")
    assert f"{context_of(chat).trace_id:032x}" == CALLER.split("-")[1]
    assert f"{parent_id(root):016x}" == CALLER.split("-")[2]
    assert parent_id(chat) == context_of(root).span_id
    assert context_of(root).trace_id != derived_trace_id(run_id)


def a_run_of_a_caller(traced: Traced, traceparent: str | None) -> RunId:
    database = traced.process.runtime.database
    request = NewRequest(OWNER, "Go.", "scripted", traceparent=traceparent)
    run = accept(database, ToolRegistry(()), AgentSpec(), request)
    traced.process.model.script.append(said())
    traced.process.step(run.run_id)
    return run.run_id


def test_a_caller_that_does_not_sample_gets_no_spans(traced: Traced) -> None:
    a_run_of_a_caller(traced, CALLER.removesuffix("01") + "00")
    assert traced.spans == []


def test_a_sampler_that_drops_a_run_drops_all_of_it(database: Database, process: Process) -> None:
    traced = Traced(process, sampler=ParentBased(ALWAYS_OFF))
    a_run_of_a_caller(traced, None)
    assert traced.spans == []
