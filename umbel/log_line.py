"""One line of the log: the JSON object that processes write, and the text that people read."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, cast

from umbel.safe_text import one_line, safe, safe_json

RUN_KEYS: Final = ("run_id", "step_no", "fence")
"""Always there; null in a line that is about no run."""
ERROR_LEVELS: Final = ("ERROR", "CRITICAL")

Fields = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class LoggedError:
    """An exception as the log tells it."""

    type: str
    message: str
    trace: str
    """A frame a line, the innermost last; "" in a line that had no room for it."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One event of one process."""

    at: str
    """ISO time in UTC, to the millisecond."""
    level: str
    logger: str
    process: str
    """Role and node: `step@host`."""
    pid: int
    message: str
    fields: Fields
    error: LoggedError | None = None

    @property
    def is_trouble(self) -> bool:
        """Whether somebody should look."""
        return self.level in ERROR_LEVELS


def time_text(seconds: float) -> str:
    """Seconds since 1970 in the form of `LogLine.at`."""
    moment = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return moment.replace("+00:00", "Z")


def to_json(line: LogLine) -> str:
    """The line as one JSON object; non-ASCII text stays, control characters are escapes."""
    known: dict[str, object] = {
        "at": line.at,
        "level": line.level,
        "logger": line.logger,
        "process": line.process,
        "pid": line.pid,
        "message": line.message,
        **dict.fromkeys(RUN_KEYS),
    }
    # A field cannot replace what says where a line comes from.
    shown = known | {
        key: value for key, value in line.fields.items() if key not in known or key in RUN_KEYS
    }
    if line.error is not None:
        error = line.error
        shown["error"] = {"type": error.type, "message": error.message, "trace": error.trace}
    # Half a character pair is no text: a reader of UTF-8 would refuse the whole line.
    text = json.dumps(shown, ensure_ascii=False, default=str)
    return safe_json(text.encode("utf-8", "replace").decode())


def parse(text: str) -> LogLine | None:
    """The line that `to_json` wrote; None for any other text."""
    if not text.startswith("{"):
        return None
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    fields = cast("dict[str, object]", found)  # keys of a JSON object are texts
    at, level, logger, process, message = (
        fields.pop(key, None) for key in ("at", "level", "logger", "process", "message")
    )
    pid = fields.pop("pid", None)
    if not (
        isinstance(at, str)
        and isinstance(level, str)
        and isinstance(logger, str)
        and isinstance(process, str)
        and isinstance(message, str)
        and isinstance(pid, int)
    ):
        return None
    error = _error(fields.pop("error", None))
    return LogLine(at, level, logger, process, pid, message, fields, error)


def to_text(line: LogLine) -> str:
    """Time, level, message, fields and error on one line, harmless for a terminal."""
    time = line.at.partition("T")[2] or line.at
    return f"{one_line(time)} {untimed_text(line)}"


def untimed_text(line: LogLine) -> str:
    """As `to_text`, for those who say the time themselves."""
    shown = [
        f"{one_line(key)}={_value(value)}"
        for key, value in line.fields.items()
        if value not in (None, "")
    ]
    if line.error is not None:
        shown.append(f"error={_value(f'{line.error.type}: {line.error.message}')}")
    return f"{one_line(line.level):<8} {one_line(line.message)}  {' '.join(shown)}".rstrip()


def _value(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = one_line(text)
    return json.dumps(text, ensure_ascii=False) if " " in text else text


def trace_text(line: LogLine) -> str:
    """The frames of the line's error below each other, for a terminal; "" without an error."""
    if line.error is None or not line.error.trace:
        return ""
    return "".join(f"\n    {safe(frame)}" for frame in line.error.trace.splitlines())


def _error(found: object) -> LoggedError | None:
    if not isinstance(found, dict):
        return None
    told = cast("dict[str, object]", found)  # keys of a JSON object are texts
    kind, message, trace = (str(told.get(key, "")) for key in ("type", "message", "trace"))
    return LoggedError(kind, message, trace)
