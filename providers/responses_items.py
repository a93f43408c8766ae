"""The output items of one Responses answer, put together from deltas, endings and whole items.

Servers differ in which of them they send and in whether ids and indexes stay the same between
events, so an item is found by whatever still fits. A later, more complete form replaces what came
before; a shorter one never takes anything away.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from providers.call_pieces import CallPieces
from providers.shapes import JsonObject, as_list, as_number, as_object, as_text
from providers.storable import TextPieces
from umbel.strict_json import Json

PartKind = Literal["text", "refusal", "summary", "content"]

CALL: Final = "function_call"
_CALL_TYPES: Final = frozenset(("function_call", "custom_tool_call"))
_CALL_KEYS: Final = frozenset((
    "type", "id", "call_id", "name", "arguments", "input", "status"
))  # fmt: skip


@dataclass(slots=True)
class OutputItem:
    """One item as far as it has come."""

    kind: str
    index: int | None
    item_id: str = ""
    is_announced: bool = False
    is_done: bool = False
    is_incomplete: bool = False
    """The endpoint itself says that it was cut."""
    parts: dict[tuple[PartKind, int], TextPieces] = field(default_factory=dict)
    call: CallPieces = field(default_factory=lambda: CallPieces(None))
    whole: JsonObject = field(default_factory=dict)
    """The finished item as the endpoint sent it; empty if it never did."""

    def text(self, kind: PartKind, between: str = "") -> str:
        """The item's words of one kind."""
        numbers = sorted(number for part, number in self.parts if part == kind)
        texts = (self.parts[kind, number].joined() for number in numbers)
        return between.join(text for text in texts if text)

    def add(self, kind: PartKind, number: int, piece: str) -> None:
        """Append a delta."""
        self.parts.setdefault((kind, number), TextPieces()).add(piece)

    def settle(self, kind: PartKind, number: int, whole: str) -> str:
        """Take a part's whole text; returns what it adds behind the deltas."""
        so_far = self.parts.setdefault((kind, number), TextPieces()).joined()
        if not whole or so_far.startswith(whole):
            return ""  # an ending that was sent early, or an empty one
        settled = self.parts[kind, number] = TextPieces()
        settled.add(whole)
        return whole[len(so_far) :] if whole.startswith(so_far) else ""

    def settle_call(self, item: JsonObject) -> None:
        """Take what a form of the item says of its call."""
        self.call.model_id = as_text(item.get("call_id")) or self.call.model_id
        self.call.name = as_text(item.get("name")) or self.call.name
        self.settle_arguments(item.get("arguments", item.get("input")))
        for key, value in item.items():
            if key not in _CALL_KEYS and value:
                self.call.extra[key] = value

    def settle_arguments(self, whole: Json) -> None:
        """Take the whole arguments; an empty or shorter form does not undo the deltas."""
        later = CallPieces(None)
        later.arguments.take(whole)
        so_far, text = self.call.arguments.text(), later.arguments.text()
        says_more = text.strip() not in ("", "{}") or not so_far.strip()
        if says_more and (later.is_complete() or not so_far.startswith(text)):
            self.call.arguments = later.arguments


class OutputItems:
    """All items of one answer."""

    def __init__(self) -> None:
        self._items: list[OutputItem] = []

    def __iter__(self) -> Iterator[OutputItem]:
        """The items in the model's order."""
        if all(item.index is not None for item in self._items):
            return iter(sorted(self._items, key=lambda item: item.index or 0))
        return iter(self._items)

    def at(self, kind: str, event: JsonObject) -> OutputItem:
        """The item a delta or an ending belongs to; opened if nobody announced it."""
        item_id, index = as_text(event.get("item_id")), as_number(event.get("output_index"))
        mine = [item for item in self._items if item.kind == kind]
        found = [item for item in mine if item_id and item.item_id == item_id]
        found = found or [item for item in mine if index is not None and item.index == index]
        if not found and not item_id and index is None:
            found = mine
        return found[-1] if found else self._open(kind, index, item_id)

    def announce(self, item: JsonObject, index: int | None) -> OutputItem:
        """An item was added: a new one unless its deltas came before."""
        early = [known for known in self._items if not known.is_announced]
        found = _same(item, index, self._items)
        if found is None and index is not None:
            found = _beside(item, index, early)
        found = found or self._open(kind_of(item), index, as_text(item.get("id")))
        found.is_announced = True
        self._take(found, item, is_done=False)
        return found

    def settle(self, item: JsonObject, index: int | None) -> OutputItem:
        """An item is done; it stands for everything that came of it."""
        open_ones = [known for known in self._items if not known.is_done]
        found = _same(item, index, self._items) or _beside(item, index, open_ones)
        found = found or self._open(kind_of(item), index, as_text(item.get("id")))
        self._take(found, item, is_done=True)
        return found

    def settle_all(self, output: Json) -> None:
        """The whole output at the end; each item is one that is known, or a new one.

        Never doubles a call: ids that changed on the way are matched by order and name.
        """
        left = list(self._items)
        unknown: list[tuple[int, JsonObject]] = []
        for index, entry in enumerate(as_list(output)):
            item = as_object(entry)
            found = _same(item, index, left)
            if found is None:
                unknown.append((index, item))
            else:
                left.remove(found)
                self._take(found, item, is_done=True)
        for index, item in unknown:
            found = next((known for known in left if _could_be(known, item)), None)
            if found is None:
                found = self._open(kind_of(item), index, as_text(item.get("id")))
            else:
                left.remove(found)
            self._take(found, item, is_done=True)

    def _open(self, kind: str, index: int | None, item_id: str) -> OutputItem:
        item = OutputItem(kind, index, item_id)
        self._items.append(item)
        return item

    @staticmethod
    def _take(known: OutputItem, item: JsonObject, *, is_done: bool) -> None:
        known.item_id = known.item_id or as_text(item.get("id"))
        if known.kind == CALL:
            known.settle_call(item)
        if not is_done:
            return
        known.is_done = True
        known.is_incomplete = as_text(item.get("status")) == "incomplete"
        known.whole = _richer(known.whole, item)
        for kind, number, text in words_of(item):
            known.settle(kind, number, text)


def kind_of(item: JsonObject) -> str:
    """The item's type; the two kinds of calls of our tools are one."""
    kind = as_text(item.get("type"))
    return CALL if kind in _CALL_TYPES else kind


def words_of(item: JsonObject) -> Iterator[tuple[PartKind, int, str]]:
    """Every part of a whole item that holds words."""
    is_reasoning = kind_of(item) == "reasoning"
    for number, entry in enumerate(as_list(item.get("content"))):
        part = as_object(entry)
        if as_text(part.get("type")) == "refusal":
            yield "refusal", number, as_text(part.get("refusal"))
        else:
            yield "content" if is_reasoning else "text", number, as_text(part.get("text"))
    for number, entry in enumerate(as_list(item.get("summary"))):
        yield "summary", number, as_text(as_object(entry).get("text"))


def _same(item: JsonObject, index: int | None, known: list[OutputItem]) -> OutputItem | None:
    """The item with the same call id, else with the same id.

    One call id alone may stand for two calls: its item's id or place must fit as well.
    """
    kind, item_id, call_id = kind_of(item), as_text(item.get("id")), as_text(item.get("call_id"))
    mine = [other for other in known if other.kind == kind]
    by_call = (
        other
        for other in mine
        if call_id and other.call.model_id == call_id and _is_near(other, item_id, index)
    )
    by_id = (
        other
        for other in mine
        if item_id and other.item_id == item_id and _may_be_call(other, call_id)
    )
    return next(by_call, None) or next(by_id, None)


def _is_near(known: OutputItem, item_id: str, index: int | None) -> bool:
    if not item_id or not known.item_id or known.item_id == item_id:
        return True
    return index is None or known.index is None or known.index == index


def _beside(item: JsonObject, index: int | None, known: list[OutputItem]) -> OutputItem | None:
    """The item that is open on the same index."""
    call_id = as_text(item.get("call_id"))
    found = (
        other
        for other in known
        if other.kind == kind_of(item)
        and (index is None or other.index == index)
        and _may_be_call(other, call_id)
    )
    return next(found, None)


def _may_be_call(known: OutputItem, call_id: str) -> bool:
    return not call_id or not known.call.model_id or known.call.model_id == call_id


def _could_be(known: OutputItem, item: JsonObject) -> bool:
    name = as_text(item.get("name"))
    return known.kind == kind_of(item) and (not name or known.call.name in ("", name))


def _richer(one: JsonObject, other: JsonObject) -> JsonObject:
    """The later form; its encrypted content is that of `output_item.done` if it has none."""
    given: JsonObject = {key: value for key, value in other.items() if value is not None}
    kept = one.get("encrypted_content")
    if kept and not given.get("encrypted_content"):
        return {**given, "encrypted_content": kept}
    return given
