"""A scripted turn as the streamed Chat Completions answer that a real server would send."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

PIECE_CHARS: Final = 24
DONE: Final = b"data: [DONE]\n\n"


def turn_chunks(turn: Mapping[str, Any], model: str, number: int) -> Iterator[bytes]:
    """The events of a text or tool-call turn, with usage and the end mark."""
    envelope = _Envelope(model, f"chatcmpl-{number}")
    yield envelope.delta({"role": "assistant", "content": ""})
    for piece in _pieces(turn.get("text") or ""):
        yield envelope.delta({"content": piece})
    calls = turn.get("tool_calls", [])
    for index, call in enumerate(calls):
        yield from _call_deltas(envelope, index, call)
    finish = turn.get("finish") or ("tool_calls" if calls else "stop")
    yield envelope.delta({}, finish)
    if (usage := turn.get("usage")) is not None:
        yield envelope.usage(usage)
    yield DONE


def stall_chunks(stall: Mapping[str, Any], model: str, number: int) -> Iterator[bytes]:
    """The pieces a stalling stream still sends."""
    envelope = _Envelope(model, f"chatcmpl-{number}")
    yield envelope.delta({"role": "assistant", "content": ""})
    chunks = stall.get("chunks")
    pieces = chunks if isinstance(chunks, list) else []
    for piece in pieces or ["…"] * int(stall.get("after_chunks") or 0):
        yield envelope.delta({"content": piece} if isinstance(piece, str) else piece)


def error_body(code: str | None, message: str) -> bytes:
    """The JSON body of a refused request."""
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return json.dumps({"error": error}).encode()


class _Envelope:
    def __init__(self, model: str, response_id: str) -> None:
        self._base = {
            "id": response_id,
            "object": "chat.completion.chunk",
            "created": 1_790_000_000,
            "model": model,
        }

    def delta(self, delta: Mapping[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": dict(delta), "finish_reason": finish}
        return _event({**self._base, "choices": [choice]})

    def usage(self, usage: Mapping[str, int]) -> bytes:
        counted = {
            "prompt_tokens": usage["input"],
            "completion_tokens": usage["output"],
            "total_tokens": usage["input"] + usage["output"],
        }
        return _event({**self._base, "choices": [], "usage": counted})


def _call_deltas(envelope: _Envelope, index: int, call: Mapping[str, Any]) -> Iterator[bytes]:
    raw = call.get("arguments_raw")
    arguments = json.dumps(call.get("arguments", {})) if raw is None else raw
    head = {"id": call["id"], "type": "function"}
    function = {"name": call["name"], "arguments": ""}
    yield envelope.delta({"tool_calls": [{"index": index, **head, "function": function}]})
    for piece in _pieces(arguments):
        yield envelope.delta({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})


def _pieces(text: str) -> Iterator[str]:
    size = max(PIECE_CHARS, len(text) // 200)
    for start in range(0, len(text), size):
        yield text[start : start + size]


def _event(value: Mapping[str, Any]) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()
