import json
from typing import Any

import pytest

from loop.pictures import Picture
from loop.request import (
    AssistantCall,
    AssistantMessage,
    Message,
    ModelRequest,
    PicturesMessage,
    ShownPictures,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from providers.profiles import DEFAULT, EndpointProfile, profile_for
from providers.render import render_body, sent_call_id
from tests.providers.wire import OFFERED

HERE = "chat:here"
MISTRAL = profile_for("https://api.mistral.ai/v1")


def body_of(*messages: Message, profile: EndpointProfile = DEFAULT, **more: Any) -> dict[str, Any]:
    request = ModelRequest(model="m", messages=messages, tools=more.pop("tools", ()), **more)
    body = json.loads(render_body(request, profile, HERE))
    assert isinstance(body, dict)
    return body


def said(*calls: AssistantCall, **more: Any) -> AssistantMessage:
    return AssistantMessage(more.pop("text", ""), calls, **more)


def test_request_is_the_same_bytes_each_time_and_plain_utf8() -> None:
    request = ModelRequest("m", (SystemMessage("Sei nett."), UserMessage("größe 🌍")), OFFERED[:1])
    raw = render_body(request, DEFAULT, HERE)
    assert raw == render_body(request, DEFAULT, HERE)
    assert "größe 🌍".encode() in raw
    assert json.loads(raw) == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Sei nett."},
            {"role": "user", "content": "größe 🌍"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "get_weather",
                    "description": "Weather of a city",
                    "parameters": OFFERED[0].input_schema,
                },
            }
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_no_tools_are_no_tools_at_all() -> None:
    assert "tools" not in body_of(UserMessage("hi"))
    assert "tool_choice" not in body_of(UserMessage("hi"), tools=OFFERED)


def test_calls_and_results_carry_our_own_ids() -> None:
    call = AssistantCall("call_01", "now", "{}", {})
    body = body_of(UserMessage("hi"), said(call), ToolMessage("call_01", "now", '{"at":1}'))
    function = {"name": "now", "arguments": "{}"}
    entry = {"id": "call_01", "type": "function", "function": function}
    assert body["messages"][1:] == [
        {"role": "assistant", "content": None, "tool_calls": [entry]},
        {"role": "tool", "tool_call_id": "call_01", "content": '{"at":1}'},
    ]


def test_mistral_gets_ids_of_nine_letters_and_digits_that_match() -> None:
    calls = [AssistantCall(f"call_{n}", "now", "{}", {}) for n in range(50)]
    results = [ToolMessage(call.call_id, call.name, "1") for call in calls]
    body = body_of(UserMessage("hi"), said(*calls), *results, profile=MISTRAL)
    ids = [entry["id"] for entry in body["messages"][1]["tool_calls"]]
    assert ids == [message["tool_call_id"] for message in body["messages"][2:]]
    assert len(set(ids)) == 50
    assert all(len(sent) == 9 and sent.isalnum() and sent.isascii() for sent in ids)
    assert body["messages"][2]["name"] == "now"
    assert "stream_options" not in body
    assert sent_call_id("call_1", "nine_alphanumerics") == sent_call_id(
        "call_1", "nine_alphanumerics"
    )


@pytest.mark.parametrize("text", ['{"a":', "[1]", "", "null", '{"a":1,"a":2}', '{"a":NaN}'])
def test_arguments_that_are_no_object_are_never_sent_back(text: str) -> None:
    body = body_of(said(AssistantCall("call_1", "now", text, {})))
    assert body["messages"][0]["tool_calls"][0]["function"]["arguments"] == "{}"


def test_valid_arguments_go_back_byte_for_byte() -> None:
    text = '{"b":1.5,"a":"é"}'
    body = body_of(said(AssistantCall("call_1", "now", text, {})))
    assert body["messages"][0]["tool_calls"][0]["function"]["arguments"] == text


def test_name_no_endpoint_accepts_is_sent_back_in_one_it_does() -> None:
    body = body_of(said(AssistantCall("call_1", "functions.do it!" + "x" * 90, "{}", {})))
    name = body["messages"][0]["tool_calls"][0]["function"]["name"]
    assert name.startswith("functions_do_it_xxx")
    assert len(name) == 64


def test_opaque_fields_go_back_only_to_the_endpoint_that_made_them() -> None:
    extra = {
        "extra_content": {"google": {"thought_signature": "s"}},
        "reasoning_field": "reasoning",
    }
    call = AssistantCall("call_1", "now", "{}", {"extra_content": {"x": 1}, "id": "theirs"})
    mine = body_of(said(call, extra=extra, endpoint=HERE))["messages"][0]
    other = body_of(said(call, extra=extra, endpoint="chat:there"))["messages"][0]
    assert mine["extra_content"] == {"google": {"thought_signature": "s"}}
    assert mine["tool_calls"][0]["extra_content"] == {"x": 1}
    assert mine["tool_calls"][0]["id"] == "call_1"
    assert "reasoning_field" not in mine
    assert "extra_content" not in other
    assert "extra_content" not in other["tool_calls"][0]


def test_reasoning_goes_back_where_the_endpoint_wants_it() -> None:
    message = said(
        text="4", reasoning="hm", extra={"reasoning_field": "reasoning_content"}, endpoint=HERE
    )
    wants = EndpointProfile(returns_reasoning=True)
    assert body_of(message, profile=wants)["messages"][0]["reasoning_content"] == "hm"
    assert "reasoning_content" not in body_of(message)["messages"][0]


@pytest.mark.parametrize(
    ("base_url", "field"),
    [
        ("https://api.openai.com/v1", "max_completion_tokens"),
        ("https://my.openai.azure.com/openai/v1", "max_completion_tokens"),
        ("http://localhost:11434/v1", "max_tokens"),
        ("https://notapi.openai.com.example.org/v1", "max_tokens"),
    ],
)
def test_limit_of_tokens_is_named_as_the_endpoint_knows_it(base_url: str, field: str) -> None:
    body = body_of(UserMessage("x"), profile=profile_for(base_url), max_output_tokens=64)
    assert body[field] == 64


def test_profile_survives_storage() -> None:
    assert EndpointProfile.from_data({**MISTRAL.as_data(), "knob_of_later": True}) == MISTRAL


def test_pictures_are_parts_of_one_user_message_that_names_their_calls() -> None:
    shown = (
        ShownPictures("call_1", "screenshot", (Picture("image/png", b"\x89PNG"),) * 2),
        ShownPictures("call_2", "photo", (Picture("image/jpeg", b"\xff\xd8\xff"),)),
    )
    [message] = body_of(PicturesMessage(shown))["messages"]
    png = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}
    jpeg = {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,/9j/"}}
    assert message == {
        "role": "user",
        "content": [
            {"type": "text", "text": "Pictures of the result of screenshot, call call_1:"},
            png,
            png,
            {"type": "text", "text": "Pictures of the result of photo, call call_2:"},
            jpeg,
        ],
    }


def test_pictures_name_their_call_as_the_endpoint_knows_it() -> None:
    shown = ShownPictures("call_1", "look", (Picture("image/png", b"\x89PNG"),))
    result = ToolMessage("call_1", "look", '"seen"')
    tool, user = body_of(result, PicturesMessage((shown,)), profile=MISTRAL)["messages"]
    assert tool["tool_call_id"] in user["content"][0]["text"]
