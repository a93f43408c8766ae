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
from umbel.json_text import safe_cut, starts_escape

MAX_RESULT_BYTES: Final = 32 * 1024 * 1024
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")


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
    text = storable(raw)
    data = text.encode()
    if len(data) > MAX_RESULT_BYTES:
        raise NotJson(
            f"the result has {len(data)} bytes, at most {MAX_RESULT_BYTES} are kept of one value: "
            "return less, or yield the text in pieces"
        )
    return EncodedResult(
        text=text,
        is_escaped=text != raw or _holds_nul(text),
        size_bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        notes=notes,
    )


def storable(json_text: str) -> str:
    """A JSON text with its half surrogate pairs as escapes; U+0000 is one already."""
    return _LONE_SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", json_text)


def error_text(code: str, message: str) -> str:
    """The result that tells the model of a failure, as storable JSON text."""
    return encode_result({"error": {"code": code, "message": message}}).text


def view_of(
    beginning: str, limit_chars: int, handle: str, *, total_chars: int | None = None
) -> str:
    """What the prompt shows of a stored result: all of it, or its beginning and how to read on.

    An uncut view is the stored JSON itself. A cut never falls inside an escape. The notice comes on
    top of `limit_chars`.

    Args:
        beginning: a stored result, or as much of it as is at hand.
        limit_chars: characters of the result to show, at least 1.
        handle: the call id under which `evidence_read` finds the result.
        total_chars: length of the whole result; None: `beginning` is all of it.
    """
    total = len(beginning) if total_chars is None else total_chars
    if total <= min(limit_chars, len(beginning)):
        return beginning
    end = safe_cut(beginning, min(limit_chars, len(beginning)))
    read_on = strict_json.dump({"handle": handle, "offset": end})
    shown = f"characters 0-{end - 1}" if end else "no characters"
    return (
        f"{beginning[:end]}\n[cut: showing {shown} of {total}, {total - end} are missing; "
        f"read on with evidence_read {read_on}]"
    )


def _holds_nul(text: str) -> bool:
    index = text.find("\\u0000")
    while index >= 0:
        if starts_escape(text, index):
            return True
        index = text.find("\\u0000", index + 1)
    return False
