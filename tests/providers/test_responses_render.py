import json
from typing import Any

import pytest

from loop.pictures import Picture
from loop.request import (
    AssistantCall,
    AssistantMessage,
    Message,
    ModelRequest,
    OfferedTool,
    PicturesMessage,
    ShownPictures,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from loop.response import ModelTurn
from providers.profiles import DEFAULT, EndpointProfile, profile_for
from providers.render import render_body
from providers.responses_render import render_responses_body
from providers.strict_schema import fits_strict_mode
from tests.providers.case_runner import read_direct
from tests.providers.cases import CASES, read_cases
from tests.providers.wire import OFFERED

HERE = "responses:here"
OPENAI = profile_for("https://api.openai.com/v1", "responses")
RECORDED = {case.name[4:]: case for case in read_cases(CASES / "responses")}


def body_of(*messages: Message, profile: EndpointProfile = DEFAULT, **more: Any) -> dict[str, Any]:
    request = ModelRequest("m", messages, more.pop("tools", ()), **more)
    body = json.loads(render_responses_body(request, profile, HERE))
    assert isinstance(body, dict)
    return body


def replayed(name: str, *, endpoint: str = HERE) -> tuple[ModelTurn, AssistantMessage]:
    """A recorded answer as it stands in the next request."""
    turn = read_direct(RECORDED[name])
    calls = tuple(
        AssistantCall(f"call_own_{number}", call.name, call.arguments_text or "{}", call.extra)
        for number, call in enumerate(turn.calls)
    )
    return turn, AssistantMessage(turn.text, calls, turn.reasoning, turn.extra, endpoint)


def said(text: str, **more: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text}]
    return {"type": "message", "role": "assistant", **more, "content": content}


def called(number: int, name: str, arguments: str) -> dict[str, Any]:
    call_id = f"call_own_{number}"
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def test_request_keeps_nothing_on_the_other_side() -> None:
    body = body_of(SystemMessage("Be kind."), UserMessage("größe"), tools=OFFERED[:1])
    assert body == {
        "model": "m",
        "instructions": "Be kind.",
        "input": [{"role": "user", "content": "größe"}],
        "tools": [
            {
                "type": "function",
                "name": "get_weather",
                "description": "Weather of a city",
                "parameters": OFFERED[0].input_schema,
            }
        ],
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "stream": True,
    }


def test_request_is_the_same_bytes_each_time() -> None:
    request = ModelRequest("m", (UserMessage("🌍"),), OFFERED, 64)
    assert render_responses_body(request, OPENAI, HERE) == render_responses_body(
        request, OPENAI, HERE
    )


def test_results_answer_the_calls_under_our_own_ids() -> None:
    _, message = replayed("call-id-is-not-item-id")
    body = body_of(UserMessage("hi"), message, ToolMessage("call_own_0", "get_weather", '{"c":9}'))
    assert body["input"][1:] == [
        called(0, "get_weather", '{"city":"Oslo"}'),
        {"type": "function_call_output", "call_id": "call_own_0", "output": '{"c":9}'},
    ]


def test_reasoning_goes_back_whole_and_before_the_call_it_led_to() -> None:
    _, message = replayed("encrypted-reasoning-before-call")
    reasoning = {
        "id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAAAfull",
    }  # fmt: skip
    assert body_of(message)["input"] == [reasoning, called(0, "now", "{}")]


def test_messages_go_back_in_their_places_with_their_phases() -> None:
    _, message = replayed("commentary-then-reasoning-then-call")
    items = body_of(message)["input"]
    assert items[0] == said("Let me look.", phase="commentary")
    assert items[1]["encrypted_content"] == "gAAAAy"
    assert items[2:] == [
        said("Still looking.", phase="commentary"),
        called(0, "list_dir", '{"path":"."}'),
    ]


def test_thoughts_go_back_only_to_the_endpoint_that_had_them() -> None:
    _, message = replayed("commentary-then-reasoning-then-call", endpoint="responses:there")
    assert body_of(message)["input"] == [
        said("Let me look.\n\nStill looking."),
        called(0, "list_dir", '{"path":"."}'),
    ]


def test_reply_of_another_wire_is_plain_text_and_calls() -> None:
    extra = {"reasoning_field": "reasoning_content", "items": "not ours"}
    call = AssistantCall("call_own_0", "now", "{}", {"extra_content": {"s": 1}})
    message = AssistantMessage("Look:", (call,), "hm", extra, "chat:here")
    assert body_of(message)["input"] == [said("Look:"), called(0, "now", "{}")]
    request = ModelRequest("m", (replayed("items-only-in-completed")[1],), ())
    sent = json.loads(render_body(request, DEFAULT, "chat:here"))["messages"][0]
    assert set(sent) == {"role", "content", "tool_calls"}


def test_reasoning_that_is_not_encrypted_goes_back_only_where_it_is_wanted() -> None:
    _, message = replayed("reasoning-text-of-open-models")
    assert body_of(message)["input"] == [said("42")]
    wants = EndpointProfile(returns_reasoning=True)
    content = [{"type": "reasoning_text", "text": "hm ok"}]
    reasoning = {"id": "rs_1", "type": "reasoning", "summary": [], "content": content}
    assert body_of(message, profile=wants)["input"] == [reasoning, said("42")]


def test_item_ids_stay_away_where_they_are_looked_up_in_vain() -> None:
    _, message = replayed("encrypted-reasoning-before-call")
    without = body_of(message, profile=EndpointProfile(returns_item_ids=False))["input"]
    assert "id" not in without[0]
    assert without[0]["encrypted_content"] == "gAAAAfull"


def test_thoughts_that_led_to_nothing_are_not_sent_back() -> None:
    _, message = replayed("reasoning-alone")
    assert body_of(UserMessage("hi"), message)["input"] == [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    "message",
    [
        AssistantMessage("other words", (), None, {"items": [{"type": "call"}]}, HERE),
        AssistantMessage("other words", (), None, {"items": [{"type": "compaction"}]}, HERE),
        AssistantMessage("other words", (), None, {"items": "?"}, HERE),
        AssistantMessage("other words", (), None, {"items": [{"type": "message", "chars": 3}]},
                         HERE),
    ],
)  # fmt: skip
def test_layout_that_is_not_of_this_reply_loses_no_word(message: AssistantMessage) -> None:
    assert body_of(message)["input"] == [said("other words")]


def test_arguments_that_are_no_object_are_never_sent_back() -> None:
    call = AssistantCall("call_own_0", "now", '{"a":1,"a":2}', {})
    assert body_of(AssistantMessage("", (call,)))["input"] == [called(0, "now", "{}")]


def test_knobs_are_sent_where_they_are_known_and_nowhere_else() -> None:
    sent = body_of(UserMessage("x"), profile=OPENAI, tools=OFFERED[:1], cache_key="thr_1")
    assert (sent["parallel_tool_calls"], sent["prompt_cache_key"]) == (True, "thr_1")
    assert sent["tools"][0]["strict"] is False
    plain = body_of(UserMessage("x"), tools=OFFERED[:1], cache_key="thr_1")
    assert not {"parallel_tool_calls", "prompt_cache_key", "tool_choice"} & set(plain)
    assert "strict" not in plain["tools"][0]
    assert "parallel_tool_calls" not in body_of(UserMessage("x"), profile=OPENAI)


def test_cache_key_is_never_longer_than_endpoints_accept() -> None:
    keys = [body_of(UserMessage("x"), profile=OPENAI, cache_key="k" * size)["prompt_cache_key"]
            for size in (64, 65, 66)]  # fmt: skip
    assert keys[0] == "k" * 64
    assert len(set(keys)) == 3
    assert {len(key) for key in keys} == {64}


CITY = {"city": {"type": "string"}}
CLOSED = {"type": "object", "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "fits"),
    [
        ({**CLOSED, "properties": CITY, "required": ["city"]}, True),
        ({**CLOSED, "properties": {}, "required": []}, True),
        ({"type": "object", "properties": CITY, "required": ["city"]}, False),
        ({**CLOSED, "properties": CITY}, False),
        ({**CLOSED, "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]},
         False),
        ({**CLOSED, "properties": {"a": {"type": "object", "properties": CITY}},
          "required": ["a"]}, False),
        ({**CLOSED, "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
          "required": ["a"]}, True),
        ({**CLOSED, "properties": {"a": {"type": "array", "items": {}}}, "required": ["a"]}, False),
        ({}, False),
    ],
)  # fmt: skip
def test_strict_mode_is_asked_for_only_where_the_schema_fits(
    schema: dict[str, Any], *, fits: bool
) -> None:
    assert fits_strict_mode(schema) is fits
    tool = OfferedTool("t", "t", schema)
    sent = body_of(UserMessage("x"), profile=EndpointProfile(strict="on"), tools=(tool,))
    assert sent["tools"][0]["strict"] is fits
    request = ModelRequest("m", (UserMessage("x"),), (tool,))
    chat = json.loads(render_body(request, EndpointProfile(strict="on"), "chat:here"))
    assert chat["tools"][0]["function"]["strict"] is fits


def test_pictures_are_parts_of_one_user_message() -> None:
    shown = ShownPictures("call_1", "look", (Picture("image/png", b"\x89PNG"),))
    [item] = body_of(PicturesMessage((shown,)))["input"]
    assert item == {
        "role": "user",
        "content": [
            {"type": "input_text", "text": "Pictures of the result of look, call call_1:"},
            {"type": "input_image", "image_url": "data:image/png;base64,iVBORw=="},
        ],
    }
