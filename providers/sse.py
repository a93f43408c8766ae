"""Server-sent events, decoded from bytes as they come (WHATWG framing, gentle with servers).

The SDK's decoder crashes on wrong UTF-8 and turns a blank line after `id:` into an event without
data; both come from real endpoints, so the framing is ours.
"""

import codecs
from typing import NamedTuple


class SseEvent(NamedTuple):
    """One event that carries data."""

    name: str
    lines: tuple[str, ...]
    is_closed: bool
    """Ended by a blank line; False for what stood at the end of a stream that broke off."""

    @property
    def data(self) -> str:
        """The data lines, joined as the standard says."""
        return "\n".join(self.lines) if len(self.lines) > 1 else self.lines[0]


class SseDecoder:
    """Bytes in any cut to events; the result does not depend on the cut.

    Accepts LF, CRLF and CR, a byte order mark, comments, and bytes that are not UTF-8 (U+FFFD).
    Events whose data is blank are dropped; `id` and `retry` mean nothing here.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._partial: list[str] = []
        self._name = ""
        self._data: list[str] = []
        self._is_at_start = True
        self._is_after_cr = False

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events that these bytes complete."""
        return self._read(self._decoder.decode(chunk))

    def finish(self) -> list[SseEvent]:
        """What stood at the end without a closing blank line; the stream is over."""
        events = self._read(self._decoder.decode(b"", final=True))
        rest = "".join(self._partial)
        self._partial = []
        if rest:
            self._take_line(rest, events)
        self._dispatch(events, is_closed=False)
        return events

    def _read(self, text: str) -> list[SseEvent]:
        events: list[SseEvent] = []
        if not text:
            return events
        *whole, rest = self._unify(text).split("\n")
        if whole:
            whole[0] = "".join(self._partial) + whole[0]
            self._partial = []
            for line in whole:
                self._take_line(line, events)
        if rest:
            self._partial.append(rest)
        return events

    def _unify(self, text: str) -> str:
        """The text with LF for every line end, also for a CRLF that two chunks share."""
        if self._is_at_start:
            self._is_at_start = False
            text = text.removeprefix("\ufeff")
        if self._is_after_cr:
            text = text.removeprefix("\n")
            self._is_after_cr = False
        if "\r" in text:
            self._is_after_cr = text.endswith("\r")
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        return text

    def _take_line(self, line: str, events: list[SseEvent]) -> None:
        if not line:
            self._dispatch(events, is_closed=True)
            return
        field, _, value = line.partition(":")
        if field == "data":
            self._data.append(value.removeprefix(" "))
        elif field == "event":
            self._name = value.strip()

    def _dispatch(self, events: list[SseEvent], *, is_closed: bool) -> None:
        if any(line and not line.isspace() for line in self._data):
            events.append(SseEvent(self._name, tuple(self._data), is_closed))
        self._name = ""
        self._data = []
