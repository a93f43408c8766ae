"""What every model adapter promises."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from loop.request import ModelRequest
from loop.response import ModelTurn

DeltaKind = Literal["text", "reasoning", "call"]
AbortReason = Literal["stall", "stop", "steer", "source", "lease_lost", "drain"]


RequestForm = dict[str, str | bool]
"""What beside the request decides its bytes: the knobs of an endpoint, as data."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model is served; the key is never shown."""

    base_url: str
    api_key: str = field(repr=False)
    name: str = "default"


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """Three clocks of inactivity; none of them limits a call that makes progress."""

    silence_seconds: float = 300.0
    """No byte at all: the peer is dead. Long, because many healthy servers say nothing while they
    read the prompt or reason; behind the first event `progress_seconds` is the shorter one."""
    first_event_seconds: float = 600.0
    """Headers or comments, but no data event yet: queueing and prompt reading."""
    progress_seconds: float = 90.0
    """No text, reasoning, call piece or usage since the last one."""


class StreamHandle:
    """The way into a stream that is being read elsewhere: `abort` ends it within milliseconds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shutdown: Callable[[], None] | None = None
        self._reason: AbortReason | None = None

    @property
    def reason(self) -> AbortReason | None:
        """Why the stream was aborted; None while nobody has."""
        return self._reason

    def abort(self, reason: AbortReason) -> None:
        """End the stream; the reader returns a turn whose failure says `stall` or `aborted`.

        Safe from any thread, at any time, any number of times; the first reason stands.
        """
        with self._lock:
            if self._reason is None:
                self._reason = reason
            shutdown = self._shutdown
        if shutdown is not None:
            shutdown()

    def attach(self, shutdown: Callable[[], None]) -> None:
        """Tell the handle how to end the stream; ends it at once if `abort` came first."""
        with self._lock:
            self._shutdown = shutdown
            is_aborted = self._reason is not None
        if is_aborted:
            shutdown()

    def detach(self) -> None:
        """The stream is over; a later `abort` only records its reason."""
        with self._lock:
            self._shutdown = None


@dataclass(frozen=True, slots=True)
class StreamControl:
    """How the caller follows and ends one stream."""

    handle: StreamHandle
    limits: StreamLimits
    on_delta: Callable[[DeltaKind, str], None]
    """Called with every piece as it arrives, for eyes only; must not raise."""
    watch: Callable[[], AbortReason | None]
    """Asked about once a second while the stream is open; a reason ends the stream."""
    request_id: str | None = None
    """Sent as a header of its own, so that logs of both sides can be matched."""


class ModelProvider(Protocol):
    """One endpoint's adapter. Never raises for model failures: they are part of the turn."""

    @property
    def endpoint_name(self) -> str:
        """A stable name of wire and endpoint, stored with replies and never holding a secret."""
        ...

    def prepare(self) -> None:
        """Load what the first call would have to load; cheap to call again."""
        ...

    def form(self) -> RequestForm:
        """How requests are written now; kept with each, so that it can be written again."""
        ...

    def render(self, request: ModelRequest, form: RequestForm) -> bytes:
        """The exact body of a request: pure, the same bytes for the same request and form."""
        ...

    def stream(self, request: ModelRequest, body: bytes, control: StreamControl) -> ModelTurn:
        """Send `body`, read the whole answer, return it normalised.

        `request` tells the normaliser which tools were offered. Retries nothing.
        """
        ...
