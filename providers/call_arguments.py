"""Argument text to arguments: read once, strictly, with one meaning; never coerced, never guessed.

Lenient only where no meaning can be lost: blank text is an empty object, raw control characters
inside strings are kept, text encoded twice is decoded twice.
"""

from dataclasses import dataclass
from typing import Any

from providers.storable import storable
from umbel import strict_json
from umbel.strict_json import InvalidJson, Json, MalformedJson, UnstorableText


@dataclass(frozen=True, slots=True)
class ReadArguments:
    """What became of one call's argument text."""

    text: str | None
    """The arguments in their one text form; None if they cannot be used."""
    problem: str | None = None
    """Why not, in words for the model."""
    is_repaired: bool = False
    """Holds characters that no database can store."""
    is_cut: bool = False
    """Not JSON at all, as when an answer was cut."""


def read_arguments(written: str, schema: dict[str, Any]) -> ReadArguments:
    """The arguments that a model wrote for a tool with this input schema."""
    text, is_repaired = storable(written)
    try:
        value = _parse(text)
        if isinstance(value, str):
            value = _parse(value)
    except UnstorableText as error:
        return ReadArguments(None, _unusable(str(error)), is_repaired=True)
    except InvalidJson as error:
        is_cut = isinstance(error, MalformedJson)
        return ReadArguments(None, _unusable(str(error)), is_repaired=is_repaired, is_cut=is_cut)
    if not isinstance(value, dict):
        return ReadArguments(None, _unusable(f"one JSON object is needed, not {_kind(value)}"))
    if is_repaired:
        problem = _unusable("characters in it are not valid Unicode or are U+0000")
        return ReadArguments(None, problem, is_repaired=True)
    return ReadArguments(strict_json.dump(_decode_inner(value, schema, schema)))


def _parse(text: str) -> Json:
    if not text.strip():
        return {}
    value = strict_json.parse(text, lenient_controls=True)
    return {} if value is None else value


def _unusable(fact: str) -> str:
    return f"The arguments of this call cannot be used: {fact}. Nothing was run; send it again."


def _kind(value: Json) -> str:
    names = {list: "a list", str: "a string", bool: "a truth value"}
    return names.get(type(value), "a number")


def _decode_inner(value: Json, schema: dict[str, Any], root: dict[str, Any]) -> Json:
    """The value with encoded strings decoded, only where the schema wants a list or an object."""
    schema = _resolve(schema, root)
    if isinstance(value, str):
        return _decode_string(value, _types(schema, root))
    if isinstance(value, list) and isinstance(items := schema.get("items"), dict):
        return [_decode_inner(item, items, root) for item in value]
    properties = schema.get("properties")
    if isinstance(value, dict) and isinstance(properties, dict):
        return {
            key: _decode_inner(item, properties[key], root)
            if isinstance(properties.get(key), dict)
            else item
            for key, item in value.items()
        }
    return value


def _decode_string(text: str, types: set[str]) -> Json:
    if "string" in types or not types & {"array", "object"}:
        return text
    try:
        value = strict_json.parse(text, lenient_controls=True)
    except InvalidJson:
        return text  # the check against the schema tells the model
    fits = (isinstance(value, list) and "array" in types) or (
        isinstance(value, dict) and "object" in types
    )
    return value if fits else text


def _resolve(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """The schema behind a local reference; an empty one for anything else that is referred to."""
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return schema
    node: Any = root
    for part in reference.removeprefix("#/").split("/"):
        node = node.get(part) if isinstance(node, dict) else None
    return node if isinstance(node, dict) and "$ref" not in node else {}


def _types(schema: dict[str, Any], root: dict[str, Any]) -> set[str]:
    """Every type the schema names, its alternatives included."""
    named = schema.get("type")
    types = {named} if isinstance(named, str) else set(named or ())
    for key in ("anyOf", "oneOf"):
        for option in schema.get(key) or ():
            if isinstance(option, dict):
                types |= _types(_resolve(option, root), root)
    return types
