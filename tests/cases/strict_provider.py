"""The rules of a strict model provider: which requests a scripted model refuses, and why.

Numbers are those of FORMAT.md, "The strict provider".
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

BYTES_PER_TOKEN: Final = 4
MESSAGE_TOKENS: Final = 4
DEFAULT_WINDOW: Final = 100_000
DEFAULT_RESERVE: Final = 4_000
DEFAULT_IMAGE_TOKENS: Final = 800

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Window:
    """What the provider enforces, in tokens."""

    tokens: int = DEFAULT_WINDOW
    reserve: int = DEFAULT_RESERVE
    image: int = DEFAULT_IMAGE_TOKENS

    @classmethod
    def of(cls, model: Mapping[str, Any]) -> "Window":
        """The window of a case's `run.model`."""
        told = model.get("context_window", DEFAULT_WINDOW)
        return cls(
            tokens=model.get("real_window", told),
            reserve=model.get("output_reserve", DEFAULT_RESERVE),
            image=model.get("image_tokens", DEFAULT_IMAGE_TOKENS),
        )


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule."""

    rule: int
    text: str

    @property
    def is_size(self) -> bool:
        """The request is too long rather than malformed."""
        return self.rule == 7


def parse_body(raw: bytes) -> dict[str, Any] | Violation:
    """The request as an object, unless it is no valid UTF-8 JSON without half surrogates (6)."""
    try:
        body = json.loads(raw.decode("utf-8"))
        json.dumps(body, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        return Violation(6, f"the body is not valid UTF-8 JSON: {error}")
    return body if isinstance(body, dict) else Violation(6, "the body is not a JSON object")


def find_violation(body: Mapping[str, Any], window: Window) -> Violation | None:
    """The first broken rule, or None."""
    return next(_violations(body, window), None)


def size_tokens(body: Mapping[str, Any], window: Window) -> int:
    """The size of a request by the strict provider's count."""
    total = sum(_message_tokens(message, window) for message in body.get("messages", []))
    for tool in body.get("tools") or []:
        total += _tokens(json.dumps(tool.get("function", tool), ensure_ascii=False))
    return total


def _violations(body: Mapping[str, Any], window: Window) -> Iterator[Violation]:
    messages: Sequence[Message] = body.get("messages", [])
    first = next((m for m in messages if m.get("role") != "system"), None)
    if first is None or first.get("role") != "user":
        yield Violation(1, f"the first message after the system messages is {_role(first)}")
    yield from _pairing(messages)
    for message in messages:
        if message.get("role") == "tool" and not isinstance(message.get("content"), str):
            yield Violation(5, "the content of a tool message is not a string")
    size, limit = size_tokens(body, window), window.tokens - window.reserve
    if size > limit:
        yield Violation(7, f"the request has {size} tokens; the limit is {limit}")
    if body.get("stream") is not True:
        yield Violation(8, "stream is not true")
    if body.get("tool_choice", "auto") not in ("auto", "none"):
        yield Violation(8, f"tool_choice is {body['tool_choice']!r}")


def _pairing(messages: Sequence[Message]) -> Iterator[Violation]:
    """Rules 2, 3 and 4: one result per call, at once, in order; ids are unique."""
    seen: set[str] = set()
    waiting: list[str] = []
    for message in messages:
        if message.get("role") == "tool":
            call_id = message.get("tool_call_id")
            if not waiting or waiting.pop(0) != call_id:
                yield Violation(3, f"a tool message for {call_id!r} stands where none belongs")
            continue
        if waiting:
            yield Violation(2, f"calls {waiting} have no tool message right after them")
        waiting = [call.get("id") for call in message.get("tool_calls") or []]
        if repeated := [i for i in waiting if i in seen or waiting.count(i) > 1]:
            yield Violation(4, f"call ids {repeated} occur twice")
        seen.update(waiting)
    if waiting:
        yield Violation(2, f"calls {waiting} have no tool message right after them")


def _message_tokens(message: Message, window: Window) -> int:
    total = MESSAGE_TOKENS
    content = message.get("content")
    if isinstance(content, str):
        total += _tokens(content)
    for part in content if isinstance(content, list) else []:
        total += _tokens(part["text"]) if part.get("type") == "text" else window.image
    for call in message.get("tool_calls") or []:
        function = call.get("function", {})
        total += _tokens(function.get("name", "")) + _tokens(function.get("arguments", ""))
    return total


def _tokens(text: str) -> int:
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


def _role(message: Message | None) -> str:
    return "missing" if message is None else f"a {message.get('role')} message"
