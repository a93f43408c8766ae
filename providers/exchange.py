"""One request and its whole answer over the network, whatever the wire; never raising.

Opening, the three clocks, the abort handle, masking of the key, and the estimate of what a
broken-off answer has cost: all of it is here, once.
"""

import ssl
from dataclasses import dataclass
from typing import Final

import httpx2

from loop.request import AssistantMessage, ModelRequest
from loop.response import Failure, ModelTurn
from providers import usage
from providers.answer import NewAnswer
from providers.client import RawAnswer, open_answer
from providers.contract import Endpoint, StreamControl
from providers.normalise import AnswerReader, RequestFacts
from providers.watchdog import InactivityClocks, Watchdog
from providers.wire_socket import abortable_by

_TRANSPORT: Final = (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, ssl.SSLError, OSError)
_CERTIFICATE_HELP: Final = (
    "The certificate of the endpoint cannot be verified; install the system's ca-certificates or "
    "set SSL_CERT_FILE."
)
_SECRET_CHARS: Final = 6  # what stands in for a key at local servers is shorter: "none", "x"
_KEY_HELP: Final = "The API key holds characters that no HTTP header can carry; set it anew."


@dataclass(slots=True)
class Exchange:
    """What is needed to send one request and to read its answer."""

    endpoint: Endpoint
    path: str
    """Behind the base URL."""
    new_answer: NewAnswer
    request: ModelRequest
    body: bytes
    control: StreamControl
    reader: AnswerReader | None = None

    def run(self) -> ModelTurn:
        """Send, read to the end, and judge; every failure is part of the turn."""
        if self.control.handle.reason is not None:
            return ModelTurn(failure=_aborted(self.control))
        cut = self._read_guarded()
        if self.control.handle.reason is not None:
            cut = _aborted(self.control)
        turn = ModelTurn(failure=cut) if self.reader is None else self.reader.finish(cut)
        return self._accounted(self._masked(turn))

    def _read_guarded(self) -> Failure | None:
        """Why the connection did not end well; None if it did."""
        clocks = InactivityClocks(self.control.limits)
        try:
            with (
                abortable_by(self.control.handle),
                Watchdog(self.control, clocks),
                open_answer(
                    self.endpoint, self.path, self.body, self.control.limits, self._headers(),
                ) as answer,
            ):  # fmt: skip
                self._read(answer, clocks)
        except _TRANSPORT as error:
            return _transport_failure(error, has_begun=self.reader is not None)
        except UnicodeEncodeError:
            return Failure(error_class="auth", is_retryable=False, message=_KEY_HELP)
        return None

    def _headers(self) -> dict[str, str]:
        """For logs and gateways of the other side: which request this is, and what it is for."""
        named = {"X-Umbel-Request": self.control.request_id} if self.control.request_id else {}
        return {**named, "X-Umbel-Purpose": self.request.purpose}

    def _read(self, answer: RawAnswer, clocks: InactivityClocks) -> None:
        calls = (call for message in self.request.messages if isinstance(message, AssistantMessage)
                 for call in message.calls)  # fmt: skip
        facts = RequestFacts(
            max_tokens=self.request.max_output_tokens,
            ids_already_used=frozenset(call.call_id for call in calls),
        )
        reader = self.reader = AnswerReader(
            status=answer.status,
            headers=answer.headers,
            offered=self.request.tools,
            facts=facts,
            new_answer=self.new_answer,
            on_delta=self.control.on_delta,
        )
        clocks.saw(is_waiting=True, progress=0)
        for chunk in answer.chunks:
            reader.feed(chunk)
            clocks.saw(is_waiting=reader.is_waiting, progress=reader.progress)
            if reader.is_over:
                return

    def _accounted(self, turn: ModelTurn) -> ModelTurn:
        """Estimate what a broken-off answer has cost if the endpoint did not say."""
        if turn.failure is None or self.reader is None or not usage.is_unknown(turn.usage):
            return turn
        if not self.reader.progress:
            return turn
        estimate = usage.estimated(len(self.body), self.reader.said_chars())
        return turn.model_copy(update={"usage": estimate})

    def _masked(self, turn: ModelTurn) -> ModelTurn:
        """An endpoint may repeat the key in its message."""
        key, failure = self.endpoint.api_key, turn.failure
        if failure is None or len(key) < _SECRET_CHARS or key not in failure.message:
            return turn
        masked = failure.model_copy(update={"message": failure.message.replace(key, "***")})
        return turn.model_copy(update={"failure": masked})


def _aborted(control: StreamControl) -> Failure:
    """The stream was ended from here; the same request may be sent again."""
    if control.handle.reason == "stall":
        message = "The endpoint made no progress within the limits of inactivity."
        return Failure(error_class="stall", is_retryable=True, message=message)
    message = f"The stream was ended from here: {control.handle.reason}."
    return Failure(error_class="aborted", is_retryable=True, message=message)


def _transport_failure(error: Exception, *, has_begun: bool) -> Failure:
    message = f"{type(error).__name__}: {error}"[:500]
    if isinstance(error, httpx2.ReadTimeout | httpx2.WriteTimeout):
        return Failure(error_class="stall", is_retryable=True, message=message)
    if has_begun:
        return Failure(error_class="incomplete_stream", is_retryable=True, message=message)
    if "CERTIFICATE_VERIFY_FAILED" in message:
        message = f"{_CERTIFICATE_HELP} {message}"
        return Failure(error_class="unreachable", is_retryable=False, message=message)
    return Failure(error_class="unreachable", is_retryable=True, message=message)
