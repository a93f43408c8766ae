"""One Responses answer as it comes together, event by event or as a whole response.

The end is clear here: `response.completed`, `response.incomplete` or `response.failed`. Everything
else may be missing, doubled or unknown, and is used as far as it goes.
"""

from collections.abc import Sequence
from typing import Final

from loop.response import Failure
from providers.answer import Heard, OnDelta
from providers.contract import DeltaKind
from providers.failures import is_error
from providers.responses_items import CALL, OutputItem, OutputItems, PartKind
from providers.responses_layout import BETWEEN_MESSAGES, LAYOUT_KEY, MESSAGE, OWN_CALL
from providers.shapes import JsonObject, as_number, as_object, as_text
from providers.storable import storable
from providers.think_tags import ThinkSplitter
from providers.usage import UsageMeter
from umbel.strict_json import Json

_PREFIX: Final = "response."
_NAME_CHARS: Final = 200
_ENDS: Final = frozenset(("completed", "incomplete", "failed", "cancelled"))
_WORDS: Final[dict[str, tuple[str, PartKind, str]]] = {
    "output_text": (MESSAGE, "text", "text"),
    "refusal": (MESSAGE, "refusal", "refusal"),
    "reasoning_text": ("reasoning", "content", "text"),
    "reasoning": ("reasoning", "content", "text"),
    "reasoning_summary_text": ("reasoning", "summary", "text"),
    "reasoning_summary": ("reasoning", "summary", "text"),
}
"""Stem of an event: the kind of item and part it belongs to, and the field with the whole text."""
_CALL_TEXT: Final = {"function_call_arguments": "arguments", "custom_tool_call_input": "input"}
_OPAQUE: Final = frozenset(("reasoning", "compaction"))
_FINISH: Final = {"max_output_tokens": "length", "max_messages": "length",
                  "content_filter": "content_filter"}  # fmt: skip


class ResponsesAnswer:
    """What has been said so far."""

    def __init__(self, known: frozenset[str], on_delta: OnDelta) -> None:
        self.failure: Failure | None = None
        self.progress = 0
        self.is_over = False
        self._items = OutputItems()
        self._usage = UsageMeter()
        self._known = known
        self._on_delta = on_delta
        self._shown = ThinkSplitter()
        self._announced: set[int] = set()
        self._thinking: OutputItem | None = None
        self._finish_reason = ""
        self._is_ended = False
        self._model: str | None = None
        self._response_id: str | None = None

    @property
    def is_waiting(self) -> bool:
        """Before the first piece, and while a reasoning item is open: it may be long silent."""
        return not self.progress or self._thinking is not None

    def take_event(self, value: JsonObject, name: str) -> bool:
        """Add one event; its type stands in its data, with some servers only in its name."""
        kind = as_text(value.get("type")) or name
        if not kind.startswith(_PREFIX):
            return False
        kind = kind.removeprefix(_PREFIX)
        stem, _, stage = kind.rpartition(".")
        if stem in _WORDS:
            self._take_words(stem, stage, value)
        elif stem in _CALL_TEXT:
            self._take_arguments(stem, stage, value)
        elif stem == "output_item":
            self._take_item(stage, value)
        elif not stem:
            self._take_response(as_object(value.get("response")), kind)
        return True

    def take_done(self) -> None:
        """`[DONE]` alone says nothing here: the terminal event is the mark."""

    def take_whole(self, value: JsonObject) -> bool:
        """Add a response that came in one piece."""
        is_response = value.get("object") == "response" or isinstance(value.get("output"), list)
        if is_response:
            self._take_response(value, as_text(value.get("status")) or "completed")
        return is_response

    def end_empty(self) -> None:
        """A body without a byte is no answer."""

    def error_in(self, value: Json, name: str) -> Json:
        """The error an event reports, or the response that failed."""
        event = as_object(value)
        inner = as_object(event.get("response"))
        is_failed = event.get("type") == "response.failed" or name == "response.failed"
        if is_failed or as_text(event.get("status")) == "failed":
            return inner or event
        return value if is_error(value, name) else None

    def said_chars(self) -> int:
        """Characters the model has written, reasoning included."""
        kinds: tuple[PartKind, ...] = ("text", "refusal", "summary", "content")
        return sum(
            len(item.call.arguments.text()) + sum(len(item.text(kind)) for kind in kinds)
            for item in self._items
        )

    def heard(self) -> Heard:
        """Everything so far."""
        items = list(self._items)
        splitter = ThinkSplitter()
        splitter.feed(_joined(_texts(items)))
        splitter.finish()
        is_cut = any(item.is_incomplete for item in items if item.kind in (CALL, MESSAGE))
        return Heard(
            text=splitter.text.joined(),
            tagged=splitter.reasoning.joined().strip(),
            reasoning=_joined([_thought(item) for item in items if item.kind == "reasoning"]),
            refusal=_joined([item.text("refusal") for item in items]),
            calls=[item.call for item in items if _is_call(item)],
            usage=self._usage.result(),
            finish_reason=self._finish_reason or ("length" if is_cut and self._is_ended else ""),
            is_ended=self._is_ended,
            failure=self.failure,
            extra=_layout(items),
            model=self._model,
            response_id=self._response_id,
        )

    def _take_words(self, stem: str, stage: str, event: JsonObject) -> None:
        kind, part, field = _WORDS[stem]
        number = as_number(event.get("content_index", event.get("summary_index"))) or 0
        item = self._items.at(kind, event)
        if stage == "delta":
            piece = as_text(event.get("delta"))
            item.add(part, number, piece)
        else:
            piece = item.settle(part, number, as_text(event.get(field)))
        if piece:
            self.progress += 1
            self._thinking = self._thinking if kind == "reasoning" else None
            self._show("reasoning" if kind == "reasoning" else "text", piece)

    def _take_arguments(self, stem: str, stage: str, event: JsonObject) -> None:
        item = self._items.at(CALL, event)
        piece = event.get("delta" if stage == "delta" else _CALL_TEXT[stem])
        if stage == "delta":
            item.call.arguments.take(piece)
        else:
            item.settle_arguments(piece)
            item.call.name = item.call.name or as_text(event.get("name"))
        self.progress += 1 if piece else 0
        self._announce(item)

    def _take_item(self, stage: str, event: JsonObject) -> None:
        given, index = as_object(event.get("item")), as_number(event.get("output_index"))
        if stage == "added":
            item = self._items.announce(given, index)
        else:
            item = self._items.settle(given, index)
        if item.kind in (CALL, "reasoning") or stage == "done":
            self.progress += 1
        if item.kind == "reasoning" and not item.is_done:
            self._thinking = item
        elif item is self._thinking or item.kind != "reasoning":
            self._thinking = None  # whoever speaks has thought
        self._announce(item)

    def _take_response(self, response: JsonObject, status: str) -> None:
        self._model = (
            self._model or storable(as_text(response.get("model")))[0][:_NAME_CHARS] or None
        )
        named = storable(as_text(response.get("id")))[0][:_NAME_CHARS]
        self._response_id = self._response_id or named or None
        if self._usage.add_chunk(response, {}):
            self.progress += 1
        if status not in _ENDS:
            return
        self._items.settle_all(response.get("output"))
        self.is_over = True
        reason = as_text(as_object(response.get("incomplete_details")).get("reason"))
        self._finish_reason = _FINISH.get(reason, "") if status == "incomplete" else ""
        self._is_ended = status == "completed" or bool(self._finish_reason)

    def _announce(self, item: OutputItem) -> None:
        """Show the name of a call once."""
        if item.call.name in self._known and id(item) not in self._announced:
            self._announced.add(id(item))
            self._on_delta("call", item.call.name)

    def _show(self, kind: DeltaKind, piece: str) -> None:
        pieces: Sequence[tuple[DeltaKind, str]] = [(kind, piece)]
        if kind == "text":
            pieces = self._shown.feed(piece)
        for shown, words in pieces:
            self._on_delta(shown, storable(words)[0])


def _is_call(item: OutputItem) -> bool:
    return item.kind == CALL and bool(item.call.name or item.call.arguments.text().strip())


def _texts(items: list[OutputItem]) -> list[str]:
    return [item.text("text") for item in items if item.kind == MESSAGE]


def _thought(item: OutputItem) -> str:
    """The reasoning itself where the endpoint shows it, else its summary."""
    return item.text("content") or item.text("summary", BETWEEN_MESSAGES)


def _joined(texts: list[str]) -> str:
    return BETWEEN_MESSAGES.join(text for text in texts if text)


def _layout(items: list[OutputItem]) -> JsonObject:
    """The order of the items, if there is anything in it that text and calls do not say."""
    entries: list[Json] = []
    for item in items:
        if item.kind in _OPAQUE and item.whole:
            entries.append(item.whole)
        elif item.kind == MESSAGE:
            entry: JsonObject = {"type": MESSAGE, "chars": len(storable(item.text("text"))[0])}
            phase = item.whole.get("phase")
            entries.append({**entry, "phase": phase} if phase else entry)
        elif _is_call(item):
            entries.append({"type": OWN_CALL})
    is_telling = any(
        as_object(e).get("type") in _OPAQUE or "phase" in as_object(e) for e in entries
    )
    return {LAYOUT_KEY: entries} if is_telling else {}
