"""What every wire's collector of an answer offers the reader, and what it hears in the end.

A wire (Chat Completions, Responses) knows its own events. Framing, sizes, errors, clocks and the
verdict are the same for all and stand elsewhere, once.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from loop.response import Failure, Usage
from providers.call_pieces import CallPieces
from providers.contract import DeltaKind
from providers.shapes import JsonObject
from umbel.strict_json import Json

OnDelta = Callable[[DeltaKind, str], None]


@dataclass(slots=True)
class Heard:
    """All that an endpoint said in one answer, in one form whatever the wire; not yet judged."""

    text: str = ""
    tagged: str = ""
    """Reasoning that stood in the text between tags."""
    reasoning: str = ""
    refusal: str = ""
    calls: list[CallPieces] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    finish_reason: str = ""
    """In the endpoint's word; "" if it gave none."""
    is_ended: bool = False
    """The endpoint itself marked the end, with or without a reason."""
    failure: Failure | None = None
    extra: JsonObject = field(default_factory=dict)
    model: str | None = None
    response_id: str | None = None


class Answer(Protocol):
    """One answer of one wire as it comes together; never raises, whatever an endpoint sends."""

    failure: Failure | None
    """Set by the reader when the endpoint reports an error."""

    @property
    def progress(self) -> int:
        """Grows with everything that brings the answer on; keep-alives and empty deltas do not."""
        ...

    @property
    def is_waiting(self) -> bool:
        """The model works unseen: before its first piece, or while it reasons without a word."""
        ...

    @property
    def is_over(self) -> bool:
        """Nothing that may still come can change the answer."""
        ...

    def take_event(self, value: JsonObject, name: str) -> bool:
        """Add one data event; True if it is one of this wire."""
        ...

    def take_done(self) -> None:
        """The endpoint sent `[DONE]`."""
        ...

    def take_whole(self, value: JsonObject) -> bool:
        """Add an answer that came in one piece; False if it is none of this wire."""
        ...

    def end_empty(self) -> None:
        """The body was over without a byte, and the connection ended well."""
        ...

    def error_in(self, value: Json, name: str) -> Json:
        """The body of the error that an event or a whole answer reports; None if it is none."""
        ...

    def said_chars(self) -> int:
        """Characters the model has written, for an estimate of its tokens."""
        ...

    def heard(self) -> Heard:
        """Everything so far."""
        ...


NewAnswer = Callable[[frozenset[str], OnDelta], Answer]
"""Makes a collector that knows the names of the tools offered."""
