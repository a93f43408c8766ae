import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from loop.request import (
    AssistantCall,
    AssistantMessage,
    Message,
    ModelRequest,
    OfferedTool,
    ToolMessage,
    UserMessage,
)
from loop.response import ModelTurn
from providers.contract import StreamLimits
from providers.demo import DemoServer
from providers.demo_faults import UnknownFault, describe, fault_of, is_demo_model, known_faults
from providers.demo_script import INTRO
from tests.providers.endpoint import control, failure, provider_at

TOOLS = tuple(
    OfferedTool(name, name, {"type": "object"})
    for name in ("search_files", "list_files", "read_file")
)
SEARCH: tuple[Message, ...] = (UserMessage('Where is "needle" written?'),)
LIMITS = StreamLimits(silence_seconds=3, first_event_seconds=3, progress_seconds=1.5)
TALK = ModelRequest("demo", (UserMessage("hello there"),), ())


def ask(server: DemoServer, model: str, *, run: str = "run_1", **more: Any) -> ModelTurn:
    """One request of a run; the search for a needle unless told otherwise."""
    request = replace(ModelRequest(model, SEARCH, TOOLS), **more)
    provider = provider_at(server.base_url)
    provider.prepare()  # a machine under load takes its time
    body = provider.render(request, provider.form())
    return provider.stream(request, body, control(LIMITS, request_id=f"{run}:s1:a1"))


def how(turn: ModelTurn) -> str:
    """The error class, the finish if it is unusual, else what was said."""
    if turn.failure is not None:
        return turn.failure.error_class
    return turn.finish or ""


@pytest.mark.parametrize(
    ("model", "wanted"),
    [
        ("demo", ["tool_calls"] * 2),
        ("demo:429", ["rate_limit", "rate_limit", "tool_calls"]),
        ("demo:429:1", ["rate_limit", "tool_calls"]),
        ("demo:500", ["server", "server", "tool_calls"]),
        ("demo:401", ["auth"] * 4),
        ("demo:401:1", ["auth", "tool_calls"]),
        ("demo:402", ["quota"] * 4),
        ("demo:html", ["server", "tool_calls"]),
        ("demo:stall", ["stall", "tool_calls"]),
        ("demo:silence", ["stall", "tool_calls"]),
        ("demo:cut", ["incomplete_stream", "tool_calls"]),
        ("demo:cut:2", ["incomplete_stream", "incomplete_stream", "tool_calls"]),
        ("demo:eof", ["incomplete_stream", "tool_calls"]),
        ("demo:empty", ["empty_response", "tool_calls"]),
        ("demo:length", ["length", "tool_calls"]),
        ("demo:error-in-200", ["server", "tool_calls"]),
        ("demo:slow:1", ["tool_calls"] * 2),
        ("demo:comments", ["tool_calls"] * 2),
    ],
)
def test_fault_is_shown_so_often_and_then_all_is_well(model: str, wanted: list[str]) -> None:
    with DemoServer() as server:
        assert [how(ask(server, model)) for _ in wanted] == wanted


def test_every_fault_is_described_and_shows_what_it_says() -> None:
    described = dict(describe())
    assert list(described) == list(known_faults())
    assert described["429"] == "rate limit: answers 429 with Retry-After 1, 2 times"
    assert all(20 < len(meaning) < 100 for meaning in described.values())


def test_rate_limit_says_how_long_to_wait() -> None:
    with DemoServer() as server:
        assert failure(ask(server, "demo:429")).retry_after_seconds == 1.0


def test_runs_meet_a_fault_each_for_itself() -> None:
    with DemoServer() as server:
        runs = [how(ask(server, "demo:eof", run=run)) for run in ("run_1", "run_2", "run_1")]
    assert runs == ["incomplete_stream", "incomplete_stream", "tool_calls"]


def test_conversation_without_our_header_is_told_by_its_first_words() -> None:
    body = {"model": "demo:500:1", "messages": [{"role": "user", "content": "hi"}]}
    other = {**body, "messages": [{"role": "user", "content": "ho"}]}
    with DemoServer() as server, httpx2.Client(trust_env=False) as client:
        url = f"{server.base_url}/chat/completions"
        statuses = [client.post(url, json=sent).status_code for sent in (body, other, body)]
    assert statuses == [500, 500, 200]


def test_request_that_was_too_large_is_refused_however_often_it_comes() -> None:
    smaller = (UserMessage('Where is "needle"?'),)
    with DemoServer() as server:
        turns = [ask(server, "demo:context") for _ in range(3)]
        later = ask(server, "demo:context", messages=smaller)
    assert [how(turn) for turn in turns] == ["context_length"] * 3
    assert not any(failure(turn).is_retryable for turn in turns)
    assert how(later) == "tool_calls"


def test_nothing_of_a_cut_answer_runs() -> None:
    with DemoServer() as server:
        for model in ("demo:length", "demo:cut", "demo:eof"):
            calls = ask(server, model, run=model).calls
            assert {call.status for call in calls} <= {"incomplete"}
        cut, whole = (
            ask(server, "demo:length", run="talk", messages=TALK.messages, tools=())
            for _ in range(2)
        )
    assert (cut.finish, whole.finish) == ("length", "stop")
    assert whole.text.startswith(cut.text)
    assert whole.text.startswith(INTRO)
    assert 0 < len(cut.text) < len(whole.text)


def test_calls_of_odd_endpoints_are_whole_and_apart() -> None:
    with DemoServer() as server:
        for model in ("demo:dup-ids", "demo:glued"):
            turn = ask(server, model)
            assert [(call.name, call.status) for call in turn.calls] == [
                ("search_files", "ok"),
                ("list_files", "ok"),
            ]
            assert len({call.model_id for call in turn.calls}) == 2


@pytest.mark.parametrize(
    ("model", "status", "code"),
    [
        ("demo:badjson", "invalid_arguments", "invalid_arguments"),
        ("demo:unknown-tool", "unknown_tool", "unknown_tool"),
    ],
)
def test_model_makes_its_call_again_once_it_is_told_of_its_mistake(
    model: str, status: str, code: str
) -> None:
    with DemoServer() as server:
        first = ask(server, model)
        assert [call.status for call in first.calls] == ["ok", status]
        calls = [AssistantCall(f"c{number}", call.name, call.arguments_text or "{}", {})
                 for number, call in enumerate(first.calls)]  # fmt: skip
        error = json.dumps({"error": {"code": code, "message": "Nothing was done."}})
        results = [ToolMessage(call.call_id, call.name, error) for call in calls]
        messages = (*SEARCH, AssistantMessage(first.text, tuple(calls)), *results)
        second = ask(server, model, messages=messages)
    assert [(call.name, call.status) for call in second.calls] == [
        ("search_files", "ok"),
        ("list_files", "ok"),
    ]


def test_fault_waits_for_a_reply_that_it_fits() -> None:
    with DemoServer() as server:
        talk = ask(server, "demo:badjson", messages=TALK.messages, tools=())
        search = ask(server, "demo:badjson")
    assert (talk.failure, talk.finish) == (None, "stop")
    assert search.calls[-1].status == "invalid_arguments"


@pytest.mark.parametrize(
    ("model", "words"), [("demo:flood", "'flood'; it knows 429, 500"), ("demo:429:x", "demo:429:3"),
                         ("demo:429:0", "'0' is no number"), ("demo:", "''; it knows")],
)  # fmt: skip
def test_fault_that_does_not_exist_is_answered_with_those_that_do(model: str, words: str) -> None:
    with DemoServer() as server:
        found = failure(ask(server, model))
    assert (found.http_status, found.error_class, found.is_retryable) == (404, "bad_request", False)
    assert words in found.message
    with pytest.raises(UnknownFault):
        fault_of(model)


def test_names_of_demo_models_are_told_from_others() -> None:
    assert [is_demo_model(name) for name in ("demo", "demo:429", "demon", None)] == [
        True, True, False, False,
    ]  # fmt: skip
    assert fault_of("demo") is None
    assert fault_of(None) is None


def test_models_are_listed_the_plain_one_first() -> None:
    with DemoServer() as server, httpx2.Client(trust_env=False) as client:
        listed = client.get(f"{server.base_url}/models").json()["data"]
    assert [entry["id"] for entry in listed][:2] == ["demo", "demo:429"]


def test_server_closes_though_a_stalled_reader_is_still_there() -> None:
    with DemoServer() as server, httpx2.Client(trust_env=False) as client:
        body = {"model": "demo:stall", "stream": True,
                "messages": [{"role": "user", "content": "hello"}]}  # fmt: skip
        with client.stream("POST", f"{server.base_url}/chat/completions", json=body) as answer:
            assert b"data:" in next(answer.iter_bytes())


def test_page_of_the_models_names_every_fault() -> None:
    page = (Path(__file__).parents[2] / "docs" / "providers.md").read_text("utf-8")
    assert [name for name in known_faults() if f"\n| `{name}` |" not in page] == []
