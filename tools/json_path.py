"""Paths into JSON texts: the part of RFC 9535 that one pass over a text of any length can answer.

`$`, names (`.name`, `['any name']`), indexes from 0 (`[3]`), slices (`[2:5]`) and `*`. What needs
the whole value at hand (negative indexes, `..`, filters) is refused with these words.
"""

import json
import re
from dataclasses import dataclass
from typing import Final

from umbel.errors import InvalidInput

MAX_STEPS: Final = 32
_STEP: Final = re.compile(
    r"""\s*(?:
      \.(?P<dotted>[^\W\d]\w*)
    | \[\s*'(?P<single>(?:[^'\\]|\\.)*)'\s*\]
    | \[\s*"(?P<double>(?:[^"\\]|\\.)*)"\s*\]
    | \[\s*(?P<index>\d{1,12})\s*\]
    | \[\s*(?P<start>\d{0,12})\s*:\s*(?P<stop>\d{0,12})\s*\]
    | (?P<every>\.\*|\[\s*\*\s*\])
    )""",
    re.VERBOSE | re.DOTALL,
)
_QUOTE: Final = re.compile(r"\\.|\"", re.DOTALL)
_END: Final = 10**12


@dataclass(frozen=True, slots=True)
class Name:
    """The member of an object."""

    name: str


@dataclass(frozen=True, slots=True)
class Elements:
    """Elements of an array, from `start` on and before `stop`."""

    start: int
    stop: int
    is_one: bool = False
    """It was asked for by its index."""


@dataclass(frozen=True, slots=True)
class Every:
    """All members of an object, all elements of an array."""


Step = Name | Elements | Every


def parse_path(path: str) -> tuple[Step, ...]:
    """The steps of a path, from the whole value inwards.

    Raises:
        InvalidInput: it is no path, or not one of this kind; names the place.
    """
    if not path.startswith("$"):
        raise InvalidInput(f"path {path[:100]!r} must begin with $, the whole result")
    steps: list[Step] = []
    at = 1
    while at < len(path.rstrip()):
        match = _STEP.match(path, at)
        if match is None or len(steps) == MAX_STEPS:
            raise InvalidInput(
                f"path {path[:100]!r} cannot be read from character {at} on: use up to "
                f"{MAX_STEPS} of .name, ['name'], [0], [2:5] and [*]"
            )
        steps.append(_step_of(match))
        at = match.end()
    return tuple(steps)


def selects_one(steps: tuple[Step, ...]) -> bool:
    """Whether a path leads to one value at most."""
    return all(
        isinstance(step, Name) or (isinstance(step, Elements) and step.is_one) for step in steps
    )


def _step_of(match: re.Match[str]) -> Step:
    found = match.groupdict()
    if found["every"] is not None:
        return Every()
    if found["index"] is not None:
        index = int(found["index"])
        return Elements(index, index + 1, is_one=True)
    if found["start"] is not None:
        return Elements(int(found["start"] or 0), int(found["stop"] or _END))
    if found["dotted"] is not None:
        return Name(found["dotted"])
    return Name(_unquoted(found["single"], found["double"]))


def _unquoted(single: str | None, double: str | None) -> str:
    """The name inside quotes, with its escapes."""
    inner = double if single is None else _QUOTE.sub(_requoted, single)
    try:
        return str(json.loads(f'"{inner}"', strict=False))
    except ValueError as error:
        raise InvalidInput(f"the name {inner!r} in the path has a wrong escape") from error


def _requoted(match: re.Match[str]) -> str:
    """A quote, or an escape, of a name in single quotes as it stands in double ones."""
    return {"\\'": "'", '"': '\\"'}.get(match[0], match[0])
