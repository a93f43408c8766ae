"""Which tool schemas an endpoint can enforce to the letter ("strict mode").

Strict mode knows a part of JSON Schema only, and wants every property required: a schema that does
not fit would be refused with the whole request, so it is offered without.
"""

from typing import Any, Final

_PLAIN: Final = frozenset((
    "type", "description", "title", "enum", "const", "properties", "required", "items", "anyOf",
    "additionalProperties",
))  # fmt: skip
_MAX_DEPTH: Final = 5


def fits_strict_mode(schema: dict[str, Any]) -> bool:
    """True if strict mode surely accepts the schema and changes nothing of its meaning."""
    return schema.get("type") == "object" and "anyOf" not in schema and _fits(schema, _MAX_DEPTH)


def _fits(schema: Any, depth: int) -> bool:
    if not isinstance(schema, dict) or depth == 0 or not set(schema) <= _PLAIN:
        return False
    inner = [*_values(schema.get("properties")), *(schema.get("anyOf") or ())]
    if "items" in schema:
        inner.append(schema["items"])
    is_closed = schema.get("type") != "object" or _is_closed(schema)
    has_type = bool({"type", "anyOf", "enum", "const"} & set(schema))
    return is_closed and has_type and all(_fits(part, depth - 1) for part in inner)


def _is_closed(schema: dict[str, Any]) -> bool:
    """No further properties are allowed and none of the named ones may be left out."""
    named = set(schema.get("properties") or ())
    is_all_required = set(schema.get("required") or ()) == named
    return schema.get("additionalProperties") is False and is_all_required


def _values(properties: Any) -> list[Any]:
    return list(properties.values()) if isinstance(properties, dict) else []
