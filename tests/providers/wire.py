"""Builds the bytes of streamed answers for tests, one delta a line."""

import json
from typing import Any

from loop.request import OfferedTool
from loop.response import ModelTurn
from providers.normalise import RequestFacts, normalise
from tests.providers.cases import FOLDER, read_tools

OFFERED: tuple[OfferedTool, ...] = read_tools(FOLDER / "tools.json")
SSE = {"content-type": "text/event-stream"}
DONE = b"data: [DONE]\n\n"


def event(value: Any) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()


def chunk(delta: Any, finish: str | None = None, **more: Any) -> bytes:
    return event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more})


def text(piece: str) -> bytes:
    return chunk({"content": piece})


def call(
    arguments: Any = None, *, name: str | None = None, model_id: str | None = None, **more: Any
) -> dict[str, Any]:
    """One entry of a `tool_calls` delta; what is None is left out."""
    function = {"name": name, "arguments": arguments}
    entry = {"id": model_id, "function": {k: v for k, v in function.items() if v is not None}}
    return {k: v for k, v in {**entry, **more}.items() if v is not None}


def calls(*entries: dict[str, Any]) -> bytes:
    return chunk({"tool_calls": list(entries)})


def end(finish: str = "stop") -> bytes:
    return chunk({}, finish) + DONE


def read(*parts: bytes, facts: RequestFacts | None = None) -> ModelTurn:
    """The turn that a streamed answer of these parts amounts to."""
    raw = [b"".join(parts)]
    return normalise(raw, status=200, headers=SSE, offered=OFFERED, facts=facts or RequestFacts())


def read_body(body: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> ModelTurn:
    """The turn that a whole answer amounts to; a string is sent as it is."""
    raw = body if isinstance(body, str) else json.dumps(body)
    content = headers or {"content-type": "application/json"}
    return normalise([raw.encode()], status=status, headers=content, offered=OFFERED)


def asked(turn: ModelTurn) -> list[tuple[str, str, str | None]]:
    """Name, status and argument text of every call."""
    return [(c.name, c.status, c.arguments_text) for c in turn.calls]
