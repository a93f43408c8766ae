"""JSON read strictly: what every later reader (PostgreSQL, a tool, a person) can read the same way.

Python's own parser accepts NaN, keeps the last of two equal keys, builds integers no database can
give back, and dies of deep nesting (so it is read on the way in with
the limits of the way out). One set of limits, in one place.
"""

import json
import re
from dataclasses import dataclass
from typing import Final, NoReturn, TypeAlias

from umbel.errors import InvalidInput

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"

_INT64: Final = 2**63
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_BRACKET: Final = re.compile(r"[\[\]{}]")
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes a JSON text may have; exceeding one is an error, never a silent cut."""

    depth: int = 64
    nodes: int = 10_000
    string_chars: int = 262_144


DEFAULT_LIMITS: Final = Limits()


class InvalidJson(InvalidInput):
    """The text is not JSON that can be stored and given back unchanged."""


class MalformedJson(InvalidJson):
    """The text does not follow the grammar of JSON, as when it was cut."""


class UnstorableText(InvalidJson):
    """A string holds characters that no database can store."""


def parse(text: str, *, limits: Limits = DEFAULT_LIMITS, lenient_controls: bool = False) -> Json:
    """The value of a JSON text in which every key, number and string has one meaning.

    Args:
        text: the whole JSON text.
        limits: sizes allowed.
        lenient_controls: accept raw control characters inside strings, which some models write.

    Raises:
        InvalidJson: duplicate keys, NaN or infinities, numbers beyond 64 bits, half surrogates,
            U+0000 (both UnstorableText), too deep, too large, or not JSON (MalformedJson).
    """
    _check_depth(text, limits.depth)
    try:
        value: Json = json.loads(
            text,
            strict=not lenient_controls,
            object_pairs_hook=_unique_keys,
            parse_constant=_refuse_constant,
            parse_int=_int64,
            parse_float=_finite,
        )
    except json.JSONDecodeError as error:
        raise MalformedJson(f"not valid JSON: {error.msg} at character {error.pos}") from error
    _check_tree(value, limits)
    return value


def dump(value: Json) -> str:
    """The one text form of a value: compact, keys in their order, characters unescaped."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def canonical(value: Json) -> str:
    """The text form used for hashing: as `dump`, with sorted keys."""
    return json.dumps(
        value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, sort_keys=True
    )


def _check_depth(text: str, allowed: int) -> None:
    """Refuse deep nesting before the recursive parser meets it; strings do not count."""
    depth = 0
    for bracket in _BRACKET.findall(_STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > allowed:
            raise InvalidJson(f"nested deeper than {allowed} levels")


def _unique_keys(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        double = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise InvalidJson(f"the key {double[:60]!r} appears twice in one object")
    return result


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidJson(f"{name} is not a JSON number")


def _int64(digits: str) -> int:
    if len(digits) > 20 or not -_INT64 <= int(digits) < _INT64:
        raise InvalidJson(f"the integer {digits[:24]}… does not fit into 64 bits")
    return int(digits)


def _finite(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise InvalidJson(f"the number {digits[:24]} is too large")
    return number


def _check_tree(value: Json, limits: Limits) -> None:
    stack, nodes = [value], 0
    while stack:
        item = stack.pop()
        nodes += 1
        if nodes > limits.nodes:
            raise InvalidJson(f"more than {limits.nodes} values")
        if isinstance(item, str):
            _check_text(item, limits)
        elif isinstance(item, list):
            stack.extend(item)
        elif isinstance(item, dict):
            stack.extend(item.keys())
            stack.extend(item.values())


def _check_text(text: str, limits: Limits) -> None:
    if len(text) > limits.string_chars:
        raise InvalidJson(f"a string is longer than {limits.string_chars} characters")
    if "\x00" in text:
        raise UnstorableText("a string holds the character U+0000, which the database cannot store")
    if _LONE_SURROGATE.search(text):
        raise UnstorableText("a string holds half a surrogate pair, which is not valid Unicode")
