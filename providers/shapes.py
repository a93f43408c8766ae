"""Reading JSON that promises nothing: every wrong shape becomes an empty one of the right type."""

import json
import re
from typing import Final, TypeAlias

from umbel import strict_json
from umbel.strict_json import InvalidJson, Json

JsonObject: TypeAlias = "dict[str, Json]"

_EXTRA_LIMITS: Final = strict_json.Limits(depth=32, nodes=50_000, string_chars=4_000_000)
_OBJECT_ARGUMENTS: Final = re.compile(r'"arguments"\s*:\s*\{')


class NotJson(ValueError):
    """The text is not JSON that Python can read."""


class DoubledObject(dict[str, Json]):
    """An object in which a key stood twice; `pairs` keeps what was written."""

    pairs: list[tuple[str, Json]]


def read_json(text: str) -> Json:
    """The value of a JSON text as endpoints write it: lenient, but two equal keys stay visible.

    Raises:
        NotJson: it is none, or holds numbers or nesting beyond what Python reads.
    """
    decoder = _KEEPING if _OBJECT_ARGUMENTS.search(text) else _PLAIN
    try:
        value: Json = decoder.decode(text)
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error)) from error
    return value


def _keep_doubles(pairs: list[tuple[str, Json]]) -> JsonObject:
    plain = dict(pairs)
    if len(plain) == len(pairs):
        return plain
    doubled = DoubledObject(plain)
    doubled.pairs = pairs
    return doubled


_PLAIN: Final = json.JSONDecoder(strict=False)
_KEEPING: Final = json.JSONDecoder(strict=False, object_pairs_hook=_keep_doubles)


def write_json(value: Json) -> str:
    """The text of a value as it was sent, faults included (two equal keys, NaN)."""
    if isinstance(value, dict):
        pairs = value.pairs if isinstance(value, DoubledObject) else value.items()
        return "{" + ",".join(f"{write_json(key)}:{write_json(item)}" for key, item in pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(write_json, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def as_object(value: Json) -> JsonObject:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: Json) -> list[Json]:
    """The value if it is a list, a list of it if it is an object, else an empty list."""
    if isinstance(value, list):
        return value
    return [value] if isinstance(value, dict) else []


def as_text(value: Json) -> str:
    """The value if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def as_number(value: Json) -> int | None:
    """The value as a whole number; digits in a string count, true and false do not."""
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 16:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not value.is_integer():
        return None
    return int(value) if abs(value) < 2**53 else None


def storable_extra(value: JsonObject) -> JsonObject:
    """Those opaque fields that can be stored and given back unchanged; the rest is dropped."""
    return {key: item for key, item in value.items() if _is_storable({key: item})}


def _is_storable(value: JsonObject) -> bool:
    try:
        strict_json.parse(strict_json.dump(value), limits=_EXTRA_LIMITS)
    except (InvalidJson, ValueError, RecursionError):
        return False
    return True
