r"""JSON texts that are read in parts: where they may be cut, and where their lines end.

A cut never falls inside an escape or between the two of a pair. A line of a JSON text ends with the
escape `\n`: of a text result these are the lines of the text.
"""

import re
from typing import Final

_LONGEST_ESCAPE: Final = 6
LONGEST_PAIR: Final = 2 * _LONGEST_ESCAPE
_HIGH_ESCAPE: Final = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}")
_LOW_ESCAPE: Final = re.compile(r"\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_ESCAPE: Final = re.compile(r"\\(.)")


def safe_cut(text: str, position: int) -> int:
    """The last place at or before `position` that cuts neither a JSON escape nor a pair of them."""
    start = _escape_around(text, position)
    if start is not None:
        position = start
    is_pair = _LOW_ESCAPE.match(text, position) and _HIGH_ESCAPE.match(
        text, max(0, position - _LONGEST_ESCAPE)
    )
    if is_pair and starts_escape(text, position - _LONGEST_ESCAPE):
        return position - _LONGEST_ESCAPE
    return position


def starts_escape(text: str, index: int) -> bool:
    """Whether the backslash at `index` begins an escape: an even number of others precede it."""
    before = index
    while before > 0 and text[before - 1] == "\\":
        before -= 1
    return (index - before) % 2 == 0


def _escape_around(text: str, position: int) -> int | None:
    """Where the escape begins that `position` would cut in two."""
    for start in range(position - 1, max(-1, position - _LONGEST_ESCAPE), -1):
        if text[start] == "\\" and starts_escape(text, start):
            length = _LONGEST_ESCAPE if text.startswith("u", start + 1) else 2
            return start if start + length > position else None
    return None


def count_line_ends(part: str) -> int:
    """How many lines end in a part of a JSON text that begins and ends between escapes."""
    return part.replace("\\\\", "").count("\\n")


def after_line_end(part: str, number: int) -> int | None:
    """The place right behind the line end of that number, from 1; None: it has fewer."""
    for match in _ESCAPE.finditer(part):
        if match[1] == "n":
            number -= 1
            if number == 0:
                return match.end()
    return None
