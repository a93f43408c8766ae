"""An exception as a short, storable fact: whatever its class does, describing it cannot fail."""

import re
from dataclasses import dataclass
from typing import Final

from umbel.errors import InvalidInput, NotFound
from umbel.tool import ToolFailed

MESSAGE_CHARS: Final = 500
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
_CREDENTIALS: Final = re.compile(r"(://)[^\s/@]{1,200}@")
"""A user name and password inside a URL; bounded, so that its cost is linear."""
_CODES: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (ToolFailed, "tool_failed"),
    (NotFound, "not_found"),
    (InvalidInput, "invalid_input"),
)
"""Failures whose own words say all: their class name would add nothing."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What may be stored and shown of an exception."""

    code: str
    message: str
    """At most 500 characters, without characters the database refuses."""


def failure_of(error: BaseException) -> Failure:
    """Code and message of an exception: its own words, after its class name where that helps."""
    words = _storable(_words_of(error))
    for kind, code in _CODES:
        if isinstance(error, kind):
            return Failure(code, words[:MESSAGE_CHARS] or type(error).__name__)
    name = _storable(type(error).__name__)
    return Failure("tool_error", (f"{name}: {words}" if words else name)[:MESSAGE_CHARS])


def _words_of(error: BaseException) -> str:
    try:
        return str(error)[: 4 * MESSAGE_CHARS]
    except BaseException:  # noqa: BLE001 -- an exception's own __str__ may raise anything
        return "(its message cannot be read)"


def _storable(text: str) -> str:
    visible = _UNSTORABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    return _CREDENTIALS.sub(r"\1***@", visible)
