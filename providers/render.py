"""A `ModelRequest` as the body of a Chat Completions request: the same bytes for the same request.

Text that was never valid is not sent back: one unreadable argument text in the history is a 400 on
every later request.
"""

import base64
import hashlib
import json
from collections.abc import Iterator
from typing import Any, Final

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
from providers.call_names import replay_name
from providers.profiles import CallIdForm, EndpointProfile
from providers.strict_schema import fits_strict_mode
from umbel import strict_json
from umbel.strict_json import InvalidJson

_BASE62: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_MISTRAL_ID_CHARS: Final = 9
_CACHE_KEY_CHARS: Final = 64
_OUR_FIELDS: Final = frozenset(("reasoning_field",))


def render_body(request: ModelRequest, profile: EndpointProfile, endpoint_name: str) -> bytes:
    """The exact bytes to send: UTF-8 JSON without spaces, keys in a fixed order."""
    body: dict[str, Any] = {
        "model": request.model,
        "messages": [_message(item, profile, endpoint_name) for item in request.messages],
    }
    if request.tools:
        body["tools"] = [_tool(tool, profile) for tool in request.tools]
        body |= parallel_switch(profile)
    body["stream"] = True
    if profile.asks_for_usage:
        body["stream_options"] = {"include_usage": True}
    if request.max_output_tokens is not None:
        body[profile.max_tokens_field] = request.max_output_tokens
    body |= cache_key_of(request, profile)
    return encoded(body)


def encoded(body: dict[str, Any]) -> bytes:
    """The one byte form of a body."""
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")  # stored text holds no surrogates; never fail on one


def parallel_switch(profile: EndpointProfile) -> dict[str, Any]:
    """`parallel_tool_calls` if the endpoint is to be told; endpoints refuse it without tools."""
    switch = profile.parallel_tool_calls
    return {} if switch == "omit" else {"parallel_tool_calls": switch == "on"}


def strict_switch(tool: OfferedTool, profile: EndpointProfile) -> dict[str, Any]:
    """`strict` if the endpoint is to be told."""
    if profile.strict == "omit":
        return {}
    return {"strict": profile.strict == "on" and fits_strict_mode(tool.input_schema)}


def cache_key_of(request: ModelRequest, profile: EndpointProfile) -> dict[str, Any]:
    """`prompt_cache_key` if the endpoint knows it and the request has one."""
    key = request.cache_key
    if not key or not profile.sends_cache_key:
        return {}
    is_long = len(key) > _CACHE_KEY_CHARS
    return {"prompt_cache_key": hashlib.sha256(key.encode()).hexdigest() if is_long else key}


def sent_call_id(call_id: str, form: CallIdForm) -> str:
    """Our call id in the form an endpoint accepts; different ids stay different."""
    if form == "own":
        return call_id
    number = int.from_bytes(hashlib.sha256(call_id.encode()).digest()[:16], "big")
    digits = []
    for _ in range(_MISTRAL_ID_CHARS):
        number, digit = divmod(number, len(_BASE62))
        digits.append(_BASE62[digit])
    return "".join(digits)


def _tool(tool: OfferedTool, profile: EndpointProfile) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.input_schema,
            **strict_switch(tool, profile),
        },
    }


def _message(message: Message, profile: EndpointProfile, endpoint_name: str) -> dict[str, Any]:
    match message:
        case SystemMessage(text=text):
            return {"role": "system", "content": text}
        case UserMessage(text=text):
            return {"role": "user", "content": text}
        case ToolMessage():
            return _tool_result(message, profile)
        case PicturesMessage(shown=shown):
            return {
                "role": "user",
                "content": [part for one in shown for part in _shown(one, profile)],
            }
        case AssistantMessage():
            return _assistant(message, profile, is_maker=message.endpoint == endpoint_name)


def _shown(result: ShownPictures, profile: EndpointProfile) -> Iterator[dict[str, Any]]:
    sent = sent_call_id(result.call_id, profile.call_ids)
    yield {"type": "text", "text": result.caption(sent)}
    for picture in result.pictures:
        yield {"type": "image_url", "image_url": {"url": data_url(picture)}}


def data_url(picture: Picture) -> str:
    """A picture as text, in the form that both wires take."""
    return f"data:{picture.media_type};base64,{base64.b64encode(picture.body).decode('ascii')}"


def _tool_result(message: ToolMessage, profile: EndpointProfile) -> dict[str, Any]:
    result = {"role": "tool", "tool_call_id": sent_call_id(message.call_id, profile.call_ids)}
    if profile.names_tool_results:
        result["name"] = replay_name(message.name)
    return {**result, "content": message.text}


def _assistant(
    message: AssistantMessage, profile: EndpointProfile, *, is_maker: bool
) -> dict[str, Any]:
    """An earlier reply; opaque fields go back only to the endpoint that made them."""
    extra = (message.extra or {}) if is_maker else {}
    result: dict[str, Any] = {"role": "assistant", "content": message.text or None}
    if not message.calls:
        result["content"] = message.text
    if profile.returns_reasoning and message.reasoning and "reasoning_field" in extra:
        result[str(extra["reasoning_field"])] = message.reasoning
    result |= {key: value for key, value in extra.items() if _is_returned(key, result)}
    if message.calls:
        result["tool_calls"] = [_call(call, profile, is_maker=is_maker) for call in message.calls]
    return result


def _is_returned(key: str, so_far: dict[str, Any]) -> bool:
    return key not in _OUR_FIELDS and key not in so_far


def _call(call: AssistantCall, profile: EndpointProfile, *, is_maker: bool) -> dict[str, Any]:
    result: dict[str, Any] = {
        "id": sent_call_id(call.call_id, profile.call_ids),
        "type": "function",
        "function": {
            "name": replay_name(call.name),
            "arguments": replayable_arguments(call.arguments_text),
        },
    }
    extra = call.extra if is_maker else {}
    return result | {key: value for key, value in extra.items() if key not in result}


def replayable_arguments(arguments_text: str) -> str:
    """The argument text if it is an object; else an empty one, its result says what was wrong."""
    try:
        is_object = isinstance(strict_json.parse(arguments_text), dict)
    except InvalidJson:
        is_object = False
    return arguments_text if is_object else "{}"
