"""Turns log records into lines: bounded, without secrets, each with run_id, step_no and fence."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tasks.log_celery import about_record, refusal, text_of
from tasks.log_errors import logged_error
from umbel.log_context import current
from umbel.log_line import RUN_KEYS, LoggedError, LogLine, time_text, to_json, to_text, trace_text
from umbel.redaction import MASK, Redactor

LINE_BYTES: Final = 4_095
"""A pipe takes so much and a line break in one piece: lines of a pool's processes never mix."""
_MESSAGE_CHARS: Final = 1_000
_FIELD_CHARS: Final = 500
_SHORT_CHARS: Final = 200
_SECRET_NAMES: Final = ("password", "secret", "token", "api_key", "authorization", "auth")
_OWN_ATTRIBUTES: Final = frozenset(
    {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", "data"}
)
"""What a record has without `extra`; `data` is how Celery passes on a task's arguments."""


class LineFormatter(logging.Formatter):
    """Formats records as JSON, or as text for a terminal.

    Args:
        process: role and node of this process.
        redact: masks secrets in whatever is shown.
        is_json: JSON, else text.
    """

    def __init__(self, *, process: str, redact: Redactor, is_json: bool) -> None:
        super().__init__()
        self._process = process
        self._redact = redact
        self._is_json = is_json

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line; as text, with the frames of its error below."""
        line = self.line_of(record)
        if not self._is_json:
            return to_text(line) + trace_text(line)
        text = ""
        for shorter in _shorter_and_shorter(line):
            text = to_json(shorter)
            if len(text.encode()) <= LINE_BYTES:
                break
        return text

    def line_of(self, record: logging.LogRecord) -> LogLine:
        """All that the record may tell."""
        return LogLine(
            at=time_text(record.created),
            level=record.levelname,
            logger=record.name,
            process=self._process,
            pid=record.process or 0,
            message=self._shown(
                refusal(record) or text_of(record) or _message(record), _MESSAGE_CHARS
            ),
            fields=self._fields(record),
            error=self._error(record),
        )

    def _fields(self, record: logging.LogRecord) -> dict[str, object]:
        given = {key: value for key, value in vars(record).items() if key not in _OWN_ATTRIBUTES}
        about = {**current(), **about_record(record)}
        return about | {key: self._value(key, value) for key, value in given.items()}

    def _value(self, key: str, value: object) -> object:
        if key.lower().endswith(_SECRET_NAMES):
            return MASK
        if value is None or isinstance(value, bool | int | float):
            return value
        return self._shown(str(value), _FIELD_CHARS)

    def _error(self, record: logging.LogRecord) -> LoggedError | None:
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return None
        if refusal(record) is not None:
            return LoggedError(type(error).__name__, "", "")
        return logged_error(error, self._redact)

    def _shown(self, text: str, limit: int) -> str:
        return _cut(self._redact(text), limit)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - a line with wrong arguments is still a line
        return str(record.msg)


def _shorter_and_shorter(line: LogLine) -> Iterator[LogLine]:
    """The line, then less of it: what is left out first is what is missed least."""
    yield line
    error = line.error
    if error is not None:
        for chars in (2_000, 1_000, 0):
            trace = "…" + error.trace[-chars:] if chars else ""
            yield replace(line, error=replace(error, trace=trace))
        error = LoggedError(error.type[:_SHORT_CHARS], _cut(error.message, _SHORT_CHARS), "")
    fields = {key: value for key, value in line.fields.items() if key in (*RUN_KEYS, "call_id")}
    yield replace(line, message=_cut(line.message, _SHORT_CHARS), fields=fields, error=error)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
