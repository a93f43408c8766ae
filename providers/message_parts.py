"""Text, reasoning and refusal of one delta or message, in every form endpoints give them."""

from typing import Final, Literal, TypeAlias

from providers.shapes import JsonObject, as_list, as_object, as_text
from umbel.strict_json import Json

PartKind: TypeAlias = Literal["text", "reasoning", "refusal"]
Part: TypeAlias = tuple[PartKind, str]

REASONING_FIELDS: Final = ("reasoning_content", "reasoning", "reasoning_text", "thinking")
_REASONING_TYPES: Final = frozenset(("thinking", "reasoning", "reasoning_content", "thought"))
_PLAIN_FIELDS: Final = frozenset((
    "role", "content", "refusal", "tool_calls", "function_call", "name", "usage", *REASONING_FIELDS
))  # fmt: skip


def parts_of(message: JsonObject) -> list[Part]:
    """Every piece of words in a delta or message, reasoning first."""
    parts: list[Part] = []
    reasoning = _reasoning_of(message)
    if reasoning:
        parts.append(("reasoning", reasoning))
    parts += _content_parts(message.get("content"))
    refusal = as_text(message.get("refusal"))
    if refusal:
        parts.append(("refusal", refusal))
    return parts


def reasoning_field(message: JsonObject) -> str | None:
    """The field that carries reasoning; endpoints that fill two of them repeat themselves."""
    for name in REASONING_FIELDS:
        if name in message and _flat(message[name]):
            return name
    return None


def opaque_fields(message: JsonObject) -> JsonObject:
    """Fields nobody here understands, to be given back to the provider that made them."""
    return {key: value for key, value in message.items() if key not in _PLAIN_FIELDS and value}


def _reasoning_of(message: JsonObject) -> str:
    field = reasoning_field(message)
    if field is not None:
        return _flat(message.get(field))
    if "reasoning_details" not in message:
        return ""
    details = (as_object(item) for item in as_list(message.get("reasoning_details")))
    return "".join(as_text(item.get("text")) or as_text(item.get("summary")) for item in details)


def _content_parts(content: Json) -> list[Part]:
    if isinstance(content, str):
        return [("text", content)] if content else []
    parts: list[Part] = []
    for item in as_list(content):
        part = as_object(item)
        kind = as_text(part.get("type"))
        if kind in _REASONING_TYPES:
            words = _flat(part.get(kind)) or _flat(part.get("text"))
            parts.append(("reasoning", words))
        elif kind == "refusal":
            parts.append(("refusal", _flat(part.get("refusal"))))
        else:
            parts.append(("text", item if isinstance(item, str) else _flat(part.get("text"))))
    return [part for part in parts if part[1]]


def _flat(value: Json) -> str:
    """The words of a string, of `{text}`, or of a list of such parts."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return as_text(value.get("text")) or _flat(value.get("content"))
    return "".join(_flat(item) for item in value) if isinstance(value, list) else ""
