"""Comparing a value found with one expected: numbers, ranges, permitted values, texts."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def differs(what: str, found: Any, expected: Any) -> Iterator[str]:
    """One line if `found` is not what is expected: a value, a list of permitted ones, a range."""
    if not fits(found, expected):
        yield f"{what}: expected {_shown(expected)}, found {found!r}"


def fits(found: Any, expected: Any) -> bool:
    """Whether `found` is permitted."""
    if isinstance(expected, Mapping) and expected.keys() <= {"min", "max"}:
        return bool(
            expected.get("min", float("-inf")) <= found <= expected.get("max", float("inf"))
        )
    if isinstance(expected, list):
        return found in expected
    return bool(found == expected)


def texts(value: Any) -> list[str]:
    """A text, or several, as a list."""
    return [value] if isinstance(value, str) else list(value or [])


def fits_pattern(found: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a transcript fits a pattern, in which `...` stands for anything.

    A result without a suffix in the pattern fits any suffix found.
    """
    if not pattern:
        return not found
    head, rest = pattern[0], pattern[1:]
    if head == "...":
        return any(fits_pattern(found[start:], rest) for start in range(len(found) + 1))
    return bool(found) and _fits_item(found[0], head) and fits_pattern(found[1:], rest)


def _fits_item(found: str, expected: str) -> bool:
    return found == expected or (expected.startswith("tool(") and found.startswith(f"{expected}:"))


def _shown(expected: Any) -> str:
    if isinstance(expected, Mapping):
        return f"{expected.get('min', '…')} to {expected.get('max', '…')}"
    if isinstance(expected, list):
        return " or ".join(map(repr, expected))
    return repr(expected)
