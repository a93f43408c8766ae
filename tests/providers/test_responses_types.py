"""The Responses cases and our Responses requests are what the SDK's types say, not invented."""

import json
from typing import Any

import pytest
from openai.types.responses import Response, ResponseStreamEvent
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter, ValidationError

from loop.request import (
    AssistantCall,
    AssistantMessage,
    ModelRequest,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from providers.profiles import profile_for
from providers.responses_render import render_responses_body
from providers.sse import SseDecoder
from tests.providers.cases import CASES, Case, read_cases
from tests.providers.wire import OFFERED

RESPONSES = read_cases(CASES / "responses")
STREAMED = [case for case in RESPONSES if (case.path / "wire.sse").exists()]
ON_SPEC = [case for case in STREAMED if "off_spec" not in case.expect]
OFF_SPEC = [case for case in STREAMED if "off_spec" in case.expect]
WHOLE = [case for case in RESPONSES if "whole-json" in case.name and "another" not in case.name]
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


def events_of(case: Case) -> list[Any]:
    decoder = SseDecoder()
    events = [*decoder.feed(case.wire[2]), *decoder.finish()]
    return [json.loads(event.data) for event in events if event.data != "[DONE]"]


@pytest.mark.parametrize("case", ON_SPEC, ids=lambda case: case.name)
def test_events_of_the_cases_are_events_of_the_sdk(case: Case) -> None:
    events = events_of(case)
    assert events
    for event in events:
        assert EVENT.validate_python(event).type == event["type"]


@pytest.mark.parametrize("case", OFF_SPEC, ids=lambda case: case.name)
def test_cases_beyond_the_sdk_say_so_and_are(case: Case) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(list[ResponseStreamEvent]).validate_python(events_of(case))


@pytest.mark.parametrize("case", WHOLE, ids=lambda case: case.name)
def test_whole_answers_of_the_cases_are_responses_of_the_sdk(case: Case) -> None:
    assert Response.model_validate_json(case.wire[2]).object == "response"


def test_request_is_one_of_the_sdk() -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
    layout = {"items": [reasoning, {"type": "call"}]}
    messages = (
        SystemMessage("Be kind."),
        UserMessage("hi"),
        AssistantMessage("", (AssistantCall("call_1", "now", "{}", {}),), None, layout, "here"),
        ToolMessage("call_1", "now", '{"at":1}'),
        SystemMessage("later"),
    )
    request = ModelRequest("m", messages, OFFERED, 64, cache_key="thr_1")
    profile = profile_for("https://api.openai.com/v1", "responses")
    body = json.loads(render_responses_body(request, profile, "here"))
    params: TypeAdapter[Any] = TypeAdapter(ResponseCreateParamsStreaming)
    checked = params.validate_python(body)
    assert {key for key in body if key not in checked} == set()
    assert [item.get("type") for item in body["input"]] == [
        None, "reasoning", "function_call", "function_call_output", None
    ]  # fmt: skip
