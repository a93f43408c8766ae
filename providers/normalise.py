"""Bytes of an answer to a `ModelTurn`: streamed or whole, good or bad, whatever the wire.

The one entry both for a live stream and for recorded bytes; it knows nothing of the network.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from loop.request import OfferedTool
from loop.response import ErrorClass, Failure, ModelTurn
from providers.answer import NewAnswer, OnDelta
from providers.chat_answer import ChatAnswer
from providers.conclusion import RequestFacts, conclude
from providers.failures import failure_of
from providers.shapes import NotJson, as_object, read_json
from providers.sse import SseDecoder, SseEvent
from umbel.strict_json import Json

__all__ = ["AnswerReader", "RequestFacts", "normalise"]

MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
_SSE_SIGNS: Final = (b"data:", b"event:", b"id:", b"retry:", b":")
_SNIFF_BYTES: Final = 8


def normalise(
    raw: Iterable[bytes],
    *,
    status: int,
    headers: Mapping[str, str],
    offered: Sequence[OfferedTool],
    facts: RequestFacts = RequestFacts(),  # noqa: B008 - frozen
    new_answer: NewAnswer = ChatAnswer,
) -> ModelTurn:
    """The turn that an answer amounts to; the result does not depend on how the bytes are cut.

    Args:
        raw: the decoded body, in any pieces.
        status: HTTP status.
        headers: of the answer, names in any case.
        offered: the tools of the request.
        facts: of the request.
        new_answer: the wire's collector.
    """
    reader = AnswerReader(
        status=status, headers=headers, offered=offered, facts=facts, new_answer=new_answer
    )
    for chunk in raw:
        reader.feed(chunk)
        if reader.is_over:
            break
    return reader.finish()


def _announced_form(status: int, headers: Mapping[str, str]) -> bool | None:
    """True for an event stream, False for a whole body, None where only the bytes can tell."""
    if status >= 400:
        return False
    return True if "event-stream" in headers.get("content-type", "") else None


class AnswerReader:
    """Takes bytes as they come and knows at any moment how far the answer is."""

    def __init__(
        self,
        *,
        status: int,
        headers: Mapping[str, str],
        offered: Sequence[OfferedTool],
        facts: RequestFacts,
        new_answer: NewAnswer = ChatAnswer,
        on_delta: OnDelta = lambda _kind, _piece: None,
    ) -> None:
        self._status = status
        self._headers = {name.lower(): value for name, value in headers.items()}
        self._offered = offered
        self._facts = facts
        self._answer = new_answer(frozenset(tool.name for tool in offered), on_delta)
        self._decoder = SseDecoder()
        self._is_sse = _announced_form(status, self._headers)
        self._body = bytearray()
        self._size_bytes = 0
        self.is_over = False
        """Nothing that may still come can change the result."""
        self.has_data_event = False
        """A data event has come that is part of the answer."""

    @property
    def progress(self) -> int:
        """Grows with everything that brings the answer on."""
        return self._answer.progress

    @property
    def is_waiting(self) -> bool:
        """The model works unseen: only the long limit of inactivity applies."""
        return self._answer.is_waiting

    def said_chars(self) -> int:
        """Characters the model has written so far."""
        return self._answer.said_chars()

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the body."""
        if self.is_over:
            return
        self._size_bytes += len(chunk)
        if self._size_bytes > MAX_ANSWER_BYTES:
            self._fail("protocol", f"The answer is longer than {MAX_ANSWER_BYTES} bytes.")
            return
        if self._is_sse is None or not self.has_data_event:
            self._body += chunk
        if self._is_sse is None and (chunk := self._sniff()) == b"":
            return
        if self._is_sse:
            self._take_events(self._decoder.feed(chunk))

    def finish(self, cut: Failure | None = None) -> ModelTurn:
        """The turn, the body being over; `cut` says why if it did not end well."""
        if self._is_sse:
            self._take_events(self._decoder.finish())
        if not self.is_over and not self.has_data_event:
            self._take_body(cut)
        return conclude(self._answer.heard(), self._offered, self._facts, cut)

    def _sniff(self) -> bytes:
        """Decide by the first bytes what the header does not say; returns the bytes held so far."""
        start = bytes(self._body).removeprefix(b"\xef\xbb\xbf").lstrip()
        if len(start) < _SNIFF_BYTES:
            return b""
        self._is_sse = start.startswith(_SSE_SIGNS)
        return bytes(self._body)

    def _take_events(self, events: list[SseEvent]) -> None:
        for event in events:
            if self.is_over:
                return
            self._take_event(event)

    def _take_event(self, event: SseEvent) -> None:
        if event.data.strip() == "[DONE]":
            self._answer.take_done()
            self.is_over = self.has_data_event = True
            return
        try:
            value = read_json(event.data)
        except NotJson:
            self._take_unreadable(event)
            return
        self._take_value(value, event.name)

    def _take_unreadable(self, event: SseEvent) -> None:
        """Several events without blank lines between them, an error in plain words, or noise."""
        if len(event.lines) > 1:
            singles = [SseEvent(event.name, (line,), event.is_closed) for line in event.lines]
            self._take_events([single for single in singles if single.data.strip()])
        elif event.name == "error":
            self._take_value(event.data, event.name)
        elif event.is_closed and event.data.lstrip()[:1] in ("{", "["):
            self._fail("protocol", "A data event of the stream is not valid JSON.")

    def _take_value(self, value: Json, event_name: str) -> None:
        if self._answer.take_event(as_object(value), event_name):
            self.has_data_event = True
        error = self._answer.error_in(value, event_name)
        if error is not None:
            self.has_data_event = self.is_over = True
            self._answer.failure = failure_of(None, self._headers, error)
        elif self._answer.is_over:
            self.is_over = True

    def _take_body(self, cut: Failure | None) -> None:
        """Judge a body that was no event stream."""
        text = self._body.decode("utf-8-sig", "replace").strip()
        try:
            value = read_json(text)
        except NotJson:
            self._take_text(text, cut)
            return
        is_answer = self._answer.take_whole(as_object(value))
        error = value if self._status >= 400 else self._answer.error_in(value, "")
        if error is not None or self._status >= 400:
            status = self._status if self._status >= 400 else None
            self._answer.failure = failure_of(status, self._headers, error)
        elif not is_answer:
            self._fail("protocol", "The answer is JSON, but neither a completion nor an error.")

    def _take_text(self, text: str, cut: Failure | None) -> None:
        if self._status >= 400:
            self._answer.failure = failure_of(self._status, self._headers, text)
        elif cut is not None or self._is_sse:
            return  # the stream broke off, or held nothing but comments
        elif text:
            message = "The answer is no JSON and no event stream; check the base URL of the model."
            self._fail("protocol", message)
        else:
            self._answer.end_empty()

    def _fail(self, error_class: ErrorClass, message: str) -> None:
        """Gateways show pages of their own for a while, so the same may be sent again."""
        self.is_over = True
        failure = Failure(error_class=error_class, is_retryable=True, message=message)
        self._answer.failure = failure
