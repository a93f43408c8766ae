"""Python values as plain JSON values: one form per type, nothing dropped, nothing guessed.

| Python | JSON |
| --- | --- |
| datetime, date, time | ISO 8601 string |
| timedelta | seconds, a number |
| Decimal | string, so that no digit is lost |
| bytes, bytearray, memoryview | `{"base64": "…"}` |
| UUID, Path | string |
| Enum | its value |
| dataclass, pydantic model | object |
| tuple, deque, range and other sequences, sets | array; sets are sorted |
| NaN, Infinity, integers beyond 64 bits | string, with a note |

Anything else is refused: a `repr` would look like data and change from run to run.
"""

import base64
import dataclasses
import datetime
import decimal
import enum
import json
import math
import pathlib
import uuid
from collections.abc import Mapping, Sequence, Set
from typing import Any, Final

from pydantic import BaseModel

from umbel.errors import InvalidInput
from umbel.strict_json import Json

MAX_DEPTH: Final = 100
MAX_VALUES: Final = 2_000_000
MAX_NOTES: Final = 5
_INT64: Final = 2**63


class NotJson(InvalidInput):
    """A value without a JSON form; says where it is and what type, never the value itself."""


def plain_value(value: object) -> tuple[Json, tuple[str, ...]]:
    """The value in JSON types, and notes on what is written differently.

    Raises:
        NotJson: no JSON form, nested deeper than 100, two keys with the same text, or the value's
            own code raised while it was read.
    """
    encoder = _Encoder()
    try:
        plain = encoder.encode(value, "result", 0)
    except NotJson:
        raise
    except Exception as error:
        # A tool's objects run their own code (properties, iterators) and may raise anything.
        raise NotJson(
            f"reading a value of type {type(value).__name__} raised {type(error).__name__}"
        ) from error
    return plain, tuple(encoder.notes)


class _Encoder:
    """One pass over one value; collects the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.values = 0

    def encode(self, value: object, path: str, depth: int) -> Json:
        self.values += 1
        if self.values > MAX_VALUES:  # shared lists inside shared lists grow without end
            raise NotJson(f"the result holds more than {MAX_VALUES} values: return less")
        if depth > MAX_DEPTH:
            raise NotJson(f"{path[:100]}… is nested deeper than {MAX_DEPTH}, or contains itself")
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, enum.Enum):
            return self.encode(value.value, path, depth + 1)
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, int | float):
            return self._number(value, path)
        if (scalar := _scalar(value)) is not None:
            return scalar
        return self._composite(value, path, depth)

    def _number(self, value: float, path: str) -> Json:
        if isinstance(value, int):
            exact = int.__int__(value)
            if -_INT64 <= exact < _INT64:
                return exact
            return self._noted(_digits(exact, path), path, "an integer beyond 64 bits")
        number = float.__float__(value)
        if math.isfinite(number):
            return number
        name = "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
        return self._noted(name, path, "not a finite number")

    def _noted(self, text: str, path: str, reason: str) -> str:
        if len(self.notes) < MAX_NOTES:
            self.notes.append(f"{path[:100]} is {reason} and is written as a string")
        return text

    def _composite(self, value: object, path: str, depth: int) -> Json:
        if isinstance(value, BaseModel):
            return self._object(dict(value), path, depth)
        if isinstance(value, Mapping):
            return self._object(value, path, depth)
        if isinstance(value, Set):
            items = [self.encode(item, f"{path}[]", depth + 1) for item in value]
            return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))
        if isinstance(value, Sequence):
            return [
                self.encode(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)
            ]
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [field.name for field in dataclasses.fields(value)]
            return self._object({name: getattr(value, name) for name in names}, path, depth)
        raise NotJson(
            f"{path[:200]} is of type {type(value).__name__}, which has no JSON form: "
            "return strings, numbers, lists and dicts"
        )

    def _object(self, items: Mapping[Any, object], path: str, depth: int) -> Json:
        plain: dict[str, Json] = {}
        for key, item in items.items():
            name = _key_text(key, path)
            if name in plain:
                raise NotJson(f"{path[:200]} has two keys with the same text")
            plain[name] = self.encode(item, f"{path}.{name[:40]}", depth + 1)
        return plain


def _scalar(value: object) -> Json:
    """The JSON form of a single value of a richer type; None: it is no such value."""
    match value:
        case datetime.timedelta():
            return value.total_seconds()
        case bytes() | bytearray() | memoryview():
            return {"base64": base64.b64encode(value).decode("ascii")}
        case _:
            return _scalar_text(value)


def _scalar_text(value: object) -> str | None:
    """The text of a value that JSON has no type for but that has one exact text form."""
    match value:
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat()
        case decimal.Decimal() | uuid.UUID() | pathlib.PurePath():
            return str(value)
        case _:
            return None


def _key_text(key: object, path: str) -> str:
    match key:
        case enum.Enum():
            return _key_text(key.value, path)
        case str():
            return str.__str__(key)
        case None | bool() | int() | float():
            return json.dumps(key)
        case _:
            text = _scalar_text(key)
    if text is None:
        raise NotJson(
            f"{path[:200]} has a key of type {type(key).__name__}, which has no text form"
        )
    return text


def _digits(number: int, path: str) -> str:
    try:
        return str(number)
    except ValueError as error:  # Python refuses to write more than 4,300 digits
        raise NotJson(f"{path[:200]} is an integer of more than 4,300 digits") from error
