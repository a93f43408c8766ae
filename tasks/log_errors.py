"""Exceptions as the log tells them: what and where, without the values that were at hand."""

import re
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Final

from umbel.log_line import LoggedError

_MESSAGE_CHARS: Final = 500
_MOST_ERRORS: Final = 5
_MOST_FRAMES: Final = 30
# PostgreSQL quotes the row it refused, SQLAlchemy the parameters, pydantic what it was given:
# prompts, arguments and results.
_QUOTES_VALUES: Final = re.compile(r"\s*(?:DETAIL:|CONTEXT:|\[parameters: |input_value=)")
_INSTALLED: Final = "site-packages/"


def logged_error(error: BaseException, redact: Callable[[str], str]) -> LoggedError:
    """The exception, and those it came from, with the frames of each."""
    chain = _chain(error)
    blocks = [
        *(f"{_kind(cause)}: {_message(cause, redact)}\n{_frames(cause)}" for cause in chain[:0:-1]),
        _frames(error),
    ]
    trace = "\n".join(blocks).strip()
    return LoggedError(_kind(error), _message(error, redact), trace)


def _kind(error: BaseException) -> str:
    kind = type(error)
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )


def _message(error: BaseException, redact: Callable[[str], str]) -> str:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - somebody else's __str__ must not cost the line
        return "(its text could not be read)"
    redacted = redact(_QUOTES_VALUES.split(text, maxsplit=1)[0])
    return redacted if len(redacted) <= _MESSAGE_CHARS else redacted[: _MESSAGE_CHARS - 1] + "…"


def _chain(error: BaseException) -> list[BaseException]:
    """The error and what it came from, the root last."""
    chain: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in chain and len(chain) < _MOST_ERRORS:
        chain.append(at)
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)
    return chain


def _frames(error: BaseException) -> str:
    """A frame a line, the innermost last; no source text, which may hold literals."""
    found: TracebackType | None = error.__traceback__
    frames = [
        f"{_place(frame.f_code.co_filename)}:{line} in {frame.f_code.co_name}"
        for frame, line in traceback.walk_tb(found)
    ]
    return "\n".join(frames[-_MOST_FRAMES:])


def _place(path: str) -> str:
    return path.rpartition(_INSTALLED)[2]
