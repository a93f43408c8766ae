"""What people, models and tools wrote, as traces carry it once `trace_content` is on.

Bounded: a trace is for looking, the record has everything.
"""

import json
from collections.abc import Callable, Mapping
from typing import Final, assert_never

from loop.outcome import ToolOutcome, Unknown
from loop.request import (
    AssistantMessage,
    Message,
    ModelRequest,
    PicturesMessage,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from loop.response import ModelTurn

MAX_CHARS: Final = 2_000
"""Of one text; what is longer is cut."""
MAX_MESSAGES: Final = 20
"""Of one request, the latest."""

Part = dict[str, object]


class Content:
    """Makes attributes of what was written.

    Args:
        redact: masks secrets in a text.
        is_on: off, there are no such attributes.
    """

    def __init__(self, redact: Callable[[str], str], *, is_on: bool) -> None:
        self._redact = redact
        self._is_on = is_on

    def of_request(self, request: ModelRequest) -> Mapping[str, str]:
        """Instructions and messages."""
        if not self._is_on:
            return {}
        system = [m for m in request.messages if isinstance(m, SystemMessage)]
        others = [m for m in request.messages if not isinstance(m, SystemMessage)]
        return {
            "gen_ai.system_instructions": json.dumps([self._text(m.text) for m in system]),
            "gen_ai.input.messages": json.dumps(
                [self._message(message) for message in others[-MAX_MESSAGES:]]
            ),
        }

    def of_reply(self, reply: ModelTurn) -> Mapping[str, str]:
        """What the model said and asked for."""
        if not self._is_on or reply.failure is not None:
            return {}
        calls = [self._call(c.model_id, c.name, c.arguments_text or "") for c in reply.calls]
        said = {
            "role": "assistant",
            "parts": [self._text(reply.text), *calls],
            "finish_reason": reply.finish,
        }
        return {"gen_ai.output.messages": json.dumps([said])}

    def of_arguments(self, text: str) -> Mapping[str, str]:
        """The bytes that the tool was given."""
        return {"gen_ai.tool.call.arguments": self._cut(text)} if self._is_on else {}

    def of_outcome(self, outcome: ToolOutcome) -> Mapping[str, str]:
        """What the tool gave back."""
        if not self._is_on:
            return {}
        text = outcome.detail if isinstance(outcome, Unknown) else outcome.text
        return {"gen_ai.tool.call.result": self._cut(text)}

    def _message(self, message: Message) -> Part:
        match message:
            case SystemMessage(text=text):
                return {"role": "system", "parts": [self._text(text)]}
            case UserMessage(text=text):
                return {"role": "user", "parts": [self._text(text)]}
            case AssistantMessage(text=text, calls=calls):
                parts = [self._call(c.call_id, c.name, c.arguments_text) for c in calls]
                return {"role": "assistant", "parts": [self._text(text), *parts]}
            case ToolMessage(call_id=call_id, text=text):
                answer = {"type": "tool_call_response", "id": call_id, "response": self._cut(text)}
                return {"role": "tool", "parts": [answer]}
            case PicturesMessage(shown=shown):
                return {"role": "user", "parts": [self._text(one.caption()) for one in shown]}
            case _:
                assert_never(message)

    def _text(self, text: str) -> Part:
        return {"type": "text", "content": self._cut(text)}

    def _call(self, call_id: str, name: str, arguments: str) -> Part:
        return {"type": "tool_call", "id": call_id, "name": name, "arguments": self._cut(arguments)}

    def _cut(self, text: str) -> str:
        masked = self._redact(text)
        return masked if len(masked) <= MAX_CHARS else masked[: MAX_CHARS - 1] + "…"
