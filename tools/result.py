r"""Tool results as text: JSON that every reader can load, and the view of it that a prompt shows.

The stored text is JSON in which U+0000 and lone surrogates, which PostgreSQL refuses, are written
as `\u0000` and `\ud83d`: lossless, valid JSON, storable. Read it back with `json.loads`.
Pictures (`{"text", "images"}`) are an ordinary object here; splitting them off happens before.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Final

from tools.encoding import NotJson, plain_value
from umbel import strict_json

MAX_RESULT_BYTES: Final = 32 * 1024 * 1024
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_LONGEST_ESCAPE: Final = 6
_HIGH_ESCAPE: Final = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}")
_LOW_ESCAPE: Final = re.compile(r"\\u[dD][c-fC-F][0-9a-fA-F]{2}")


@dataclass(frozen=True, slots=True)
class EncodedResult:
    """A result in the form in which it is stored."""

    text: str
    """JSON text without any character that PostgreSQL refuses."""
    is_escaped: bool
    """U+0000 or half surrogate pairs were in it and are written as JSON escapes."""
    size_bytes: int
    """Length of `text` in UTF-8."""
    sha256: str
    """Of the UTF-8 bytes of `text`, in hex."""
    notes: tuple[str, ...]
    """What had to be written differently, such as NaN as a string; empty for most results."""


def encode_result(value: object) -> EncodedResult:
    """Any result of a tool as storable JSON text; the same value gives the same text.

    Raises:
        NotJson: the value has no JSON form, or is larger than 32 MiB; names the type and the
            place, never the value.
    """
    plain, notes = plain_value(value)
    raw = json.dumps(plain, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    text = _LONE_SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", raw)
    data = text.encode()
    if len(data) > MAX_RESULT_BYTES:
        raise NotJson(
            f"the result has {len(data)} bytes, at most {MAX_RESULT_BYTES} are kept: return less, "
            "or write a file"
        )
    return EncodedResult(
        text=text,
        is_escaped=text != raw or _holds_nul(text),
        size_bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        notes=notes,
    )


def error_text(code: str, message: str) -> str:
    """The result that tells the model of a failure, as storable JSON text."""
    return encode_result({"error": {"code": code, "message": message}}).text


def view_of(text: str, limit_chars: int, handle: str) -> str:
    """What the prompt shows of a stored result: all of it, or its beginning and how to read on.

    An uncut view is the stored JSON itself. A cut never falls inside an escape. The notice comes on
    top of `limit_chars`.

    Args:
        text: a stored result.
        limit_chars: characters of the result to show, at least 1.
        handle: the call id under which `evidence_read` finds the result.
    """
    if len(text) <= limit_chars:
        return text
    end = safe_cut(text, limit_chars)
    read_on = strict_json.dump({"handle": handle, "offset": end})
    shown = f"characters 0-{end - 1}" if end else "no characters"
    return (
        f"{text[:end]}\n[cut: showing {shown} of {len(text)}, {len(text) - end} are missing; "
        f"read on with evidence_read {read_on}]"
    )


def safe_cut(text: str, position: int) -> int:
    """The last place at or before `position` that cuts neither a JSON escape nor a pair of them."""
    start = _escape_around(text, position)
    if start is not None:
        position = start
    is_pair = _LOW_ESCAPE.match(text, position) and _HIGH_ESCAPE.match(
        text, max(0, position - _LONGEST_ESCAPE)
    )
    if is_pair and _starts_escape(text, position - _LONGEST_ESCAPE):
        return position - _LONGEST_ESCAPE
    return position


def _escape_around(text: str, position: int) -> int | None:
    """Where the escape begins that `position` would cut in two."""
    for start in range(position - 1, max(-1, position - _LONGEST_ESCAPE), -1):
        if text[start] == "\\" and _starts_escape(text, start):
            length = _LONGEST_ESCAPE if text.startswith("u", start + 1) else 2
            return start if start + length > position else None
    return None


def _starts_escape(text: str, index: int) -> bool:
    """Whether the backslash at `index` begins an escape: an even number of others precede it."""
    before = index
    while before > 0 and text[before - 1] == "\\":
        before -= 1
    return (index - before) % 2 == 0


def _holds_nul(text: str) -> bool:
    index = text.find("\\u0000")
    while index >= 0:
        if _starts_escape(text, index):
            return True
        index = text.find("\\u0000", index + 1)
    return False
