"""Tool calls put together from deltas, whatever an endpoint does with index, id and name.

Rules, each from real endpoints: "" and null mean absent. The index says which call is meant, unless
another id comes on it. Without an index the id says it; without both, the last call goes on. A call
whose JSON is complete is not continued by a piece that brings a name again.
"""

from collections.abc import Container
from dataclasses import dataclass, field

from providers.shapes import (
    JsonObject,
    NotJson,
    as_list,
    as_number,
    as_object,
    as_text,
    read_json,
    write_json,
)
from umbel.strict_json import Json

_KNOWN_KEYS = frozenset(("index", "id", "type", "function"))


@dataclass(slots=True)
class ArgumentPieces:
    """The argument text of one call: pieces, or snapshots that replace each other."""

    _pieces: list[str] = field(default_factory=list)
    _chars: int = 0

    def text(self) -> str:
        """Everything so far."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def take(self, piece: Json) -> None:
        """Append a piece, or let it replace what it repeats. Overlaps are never guessed."""
        if isinstance(piece, dict):
            if piece or not self.text().strip():
                self._replace(write_json(piece))
        elif isinstance(piece, list):
            self._replace(write_json(piece))
        elif isinstance(piece, str) and piece:
            if self._is_replaced_by(piece):
                self._replace(piece)
            else:
                self._pieces.append(piece)
                self._chars += len(piece)

    def _is_replaced_by(self, piece: str) -> bool:
        if self._chars <= 8 and self.text().strip() == "{}" and piece.lstrip().startswith("{"):
            return True  # an empty object sent ahead of the real arguments
        if len(piece) < self._chars or not self._chars:
            return False
        so_far = self.text()
        return so_far.startswith("{") and piece.startswith(so_far)  # everything so far, again

    def _replace(self, text: str) -> None:
        self._pieces = [text]
        self._chars = len(text)


@dataclass(slots=True)
class CallPieces:
    """One call as far as it has come."""

    index: int | None
    model_id: str = ""
    name: str = ""
    arguments: ArgumentPieces = field(default_factory=ArgumentPieces)
    extra: JsonObject = field(default_factory=dict)

    def is_complete(self) -> bool:
        """The argument text so far is a whole JSON object."""
        text = self.arguments.text().strip()
        if not (text.startswith("{") and text.endswith("}")):
            return False
        try:
            return isinstance(read_json(text), dict)
        except NotJson:
            return False


@dataclass(frozen=True, slots=True)
class _Piece:
    index: int | None
    model_id: str
    name: str
    arguments: Json
    extra: JsonObject

    def is_rest_of(self, call: CallPieces) -> bool:
        """Nameless text behind arguments that are not whole: a new id does not make it a call."""
        is_nameless = bool(call.name) and not self.name and bool(self.argument_text().strip())
        return is_nameless and bool(call.arguments.text().strip()) and not call.is_complete()

    def argument_text(self) -> str:
        is_whole = isinstance(self.arguments, dict | list)
        return write_json(self.arguments) if is_whole else as_text(self.arguments)


class CallAssembler:
    """Collects the calls of one answer, in their order of arrival."""

    def __init__(self, known: Container[str]) -> None:
        self._known = known
        self._calls: list[CallPieces] = []

    @property
    def calls(self) -> list[CallPieces]:
        """Calls that say anything at all."""
        return [call for call in self._calls if call.name or call.arguments.text().strip()]

    def add_delta(self, items: Json) -> list[CallPieces]:
        """Take the `tool_calls` of one delta; returns the calls they belong to."""
        entries = [as_object(item) for item in as_list(items)]
        return [
            self._take(_piece_of(entry, self._spot(entry, spot, len(entries))))
            for spot, entry in enumerate(entries)
            if entry
        ]

    def add_whole(self, items: Json) -> list[CallPieces]:
        """Take the `tool_calls` of a whole message: every entry is a call of its own."""
        entries = [as_object(item) for item in as_list(items)]
        return [self._open_with(_piece_of(entry, None)) for entry in entries if entry]

    @staticmethod
    def _spot(entry: JsonObject, spot: int, count: int) -> int | None:
        """The index given; in a list of several nameless pieces, their place in it."""
        given = as_number(entry.get("index"))
        is_bare = not entry.get("id") and not as_object(entry.get("function")).get("name")
        return spot if given is None and count > 1 and is_bare else given

    def _take(self, piece: _Piece) -> CallPieces:
        call = self._continued_by(piece)
        if call is None:
            return self._open_with(piece)
        self._merge(call, piece)
        return call

    def _open_with(self, piece: _Piece) -> CallPieces:
        call = CallPieces(piece.index)
        self._calls.append(call)
        self._merge(call, piece)
        return call

    def _continued_by(self, piece: _Piece) -> CallPieces | None:
        """The call that this piece goes on with; None if it opens one."""
        if piece.index is None:
            return self._continued_without_index(piece)
        on_index = [call for call in self._calls if call.index == piece.index]
        if not on_index and not piece.name and not piece.model_id:
            on_index = self._calls[piece.index : piece.index + 1]  # opened without an index
        if not on_index:
            return None
        same_id = [call for call in on_index if piece.model_id and call.model_id == piece.model_id]
        call = (same_id or on_index)[-1]
        if piece.model_id and call.model_id and not same_id:
            return call if piece.is_rest_of(call) else None
        return None if self._is_another(call, piece) else call

    def _continued_without_index(self, piece: _Piece) -> CallPieces | None:
        if not self._calls:
            return None
        last = self._calls[-1]
        if piece.model_id:
            found = [call for call in self._calls if call.model_id == piece.model_id]
            if not found and not piece.name and (not last.model_id or piece.is_rest_of(last)):
                return last  # the id comes late, or anew with every piece
            return None if not found or self._is_another(found[-1], piece) else found[-1]
        if piece.name and last.is_complete():
            return None
        return None if self._is_another(last, piece) else last

    def _is_another(self, call: CallPieces, piece: _Piece) -> bool:
        """A new call on a used index or id: another tool, or fresh arguments behind whole ones."""
        if not piece.name or not call.name:
            return False
        if piece.name != call.name and piece.name in self._known and call.name in self._known:
            return True
        fresh = piece.argument_text().lstrip()
        so_far = call.arguments.text()
        return (
            fresh.startswith("{")
            and so_far.strip() != "{}"
            and not fresh.startswith(so_far.lstrip())
            and call.is_complete()
        )

    def _merge(self, call: CallPieces, piece: _Piece) -> None:
        call.model_id = call.model_id or piece.model_id
        if call.index is None:
            call.index = piece.index
        call.name = self._merged_name(call.name, piece.name)
        call.arguments.take(piece.arguments)
        call.extra.update(piece.extra)

    def _merged_name(self, so_far: str, piece: str) -> str:
        if not piece or piece == so_far or so_far in self._known:
            return so_far
        if piece in self._known and piece.startswith(so_far):
            return piece  # the name so far, sent again and longer
        return so_far + piece


def _piece_of(entry: JsonObject, index: int | None) -> _Piece:
    function = as_object(entry.get("function"))
    extra: JsonObject = {
        key: value for key, value in entry.items() if key not in _KNOWN_KEYS and value
    }
    given = entry.get("id")
    return _Piece(
        index=index,
        model_id=str(given) if isinstance(given, int) and given else as_text(given),
        name=as_text(function.get("name")) or as_text(extra.pop("name", "")),
        arguments=function.get("arguments", extra.pop("arguments", None)),
        extra=extra,
    )
