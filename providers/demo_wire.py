"""A reply of the demo model in the real wire format: streamed in small pieces, or whole."""

import json
import time
from collections.abc import Iterator
from typing import Any, Final

from providers.demo_script import DemoReply

MODEL: Final = "demo"
DONE: Final = b"data: [DONE]\n\n"
_TEXT_PIECE_CHARS: Final = 12
_ARGUMENT_PIECE_CHARS: Final = 16
_CHARS_PER_TOKEN: Final = 4

Chunk = dict[str, Any]


def reply_chunks(reply: DemoReply, tokens: int, body: dict[str, Any]) -> list[Chunk]:
    """The reply as the data of its events, in small pieces, usage at the end if it is asked for."""
    finish = "tool_calls" if reply.calls else "stop"
    chunks = [_chunk({"role": "assistant", "content": ""})]
    chunks += [_chunk({"content": piece}) for piece in _pieces(reply.text, _TEXT_PIECE_CHARS)]
    for index, call in enumerate(_calls(reply, body)):
        arguments = call["function"].pop("arguments")
        call["function"]["arguments"] = ""
        chunks.append(_chunk({"tool_calls": [{"index": index, **call}]}))
        chunks += [
            _chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
            for piece in _pieces(arguments, _ARGUMENT_PIECE_CHARS)
        ]
    chunks.append(_chunk({}, finish))
    if (body.get("stream_options") or {}).get("include_usage"):
        usage = {"choices": [], "usage": _counts(reply, tokens)}
        chunks.append({**_head("chat.completion.chunk"), **usage})
    return chunks


def event_of(value: Chunk) -> bytes:
    """One server-sent event."""
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


def whole_reply(reply: DemoReply, tokens: int, body: dict[str, Any]) -> dict[str, Any]:
    """The reply in one piece."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.calls:
        message["tool_calls"] = list(_calls(reply, body))
    finish = "tool_calls" if reply.calls else "stop"
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {**_head("chat.completion"), "choices": [choice], "usage": _counts(reply, tokens)}


def tokens_of(raw: bytes) -> int:
    """About how many tokens a request has."""
    return len(raw) // _CHARS_PER_TOKEN


def error_body(message: str, code: str | None = None) -> dict[str, Any]:
    """An error of the request in the form endpoints give it."""
    return {"error": {"message": message, "type": "invalid_request_error", "code": code}}


def _calls(reply: DemoReply, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Calls with ids that count on through the conversation."""
    made = sum(len(message.get("tool_calls") or ()) for message in body["messages"])
    for number, call in enumerate(reply.calls, start=made):
        arguments = json.dumps(call.arguments, ensure_ascii=False)
        function = {"name": call.name, "arguments": arguments}
        yield {"id": f"call_demo_{number}", "type": "function", "function": function}


def _chunk(delta: dict[str, Any], finish: str | None = None) -> Chunk:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {**_head("chat.completion.chunk"), "choices": [choice]}


def _head(kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-demo", "object": kind, "created": int(time.time()), "model": MODEL}


def _pieces(text: str, size: int) -> Iterator[str]:
    return (text[start : start + size] for start in range(0, len(text), size))


def _counts(reply: DemoReply, tokens: int) -> dict[str, int]:
    said = len(reply.text) + sum(len(json.dumps(call.arguments)) for call in reply.calls)
    output = max(said // _CHARS_PER_TOKEN, 1)
    return {
        "prompt_tokens": tokens,
        "completion_tokens": output,
        "total_tokens": tokens + output,
    }
