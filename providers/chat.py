"""The Chat Completions adapter: one streamed request, read from raw bytes, never raising."""

import ssl
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import httpx2

from loop.request import AssistantMessage, ModelRequest
from loop.response import Failure, ModelTurn
from providers import usage
from providers.client import RawAnswer, client_for, open_answer
from providers.contract import Endpoint, RequestForm, StreamControl
from providers.normalise import ChatReader, RequestFacts
from providers.profiles import PROCESS_REFUSALS, EndpointProfile, Refusals, profile_for
from providers.render import render_body
from providers.watchdog import InactivityClocks, Watchdog
from providers.wire_socket import abortable_by
from umbel.errors import Misconfigured

_TRANSPORT: Final = (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, ssl.SSLError, OSError)
_CERTIFICATE_HELP: Final = (
    "The certificate of the endpoint cannot be verified; install the system's ca-certificates or "
    "set SSL_CERT_FILE."
)


class ChatProvider:
    """`ModelProvider` for everybody who speaks Chat Completions.

    Raises:
        Misconfigured: the base URL is none that a request could be sent to.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        profile: EndpointProfile | None = None,
        refusals: Refusals = PROCESS_REFUSALS,
    ) -> None:
        _check_address(endpoint.base_url)
        self._endpoint = endpoint
        self._profile = profile or profile_for(endpoint.base_url)
        self._refusals = refusals

    @property
    def endpoint_name(self) -> str:
        """Wire, name and host; never a secret."""
        address = urlsplit(self._endpoint.base_url)
        return f"chat:{self._endpoint.name}@{address.netloc.rpartition('@')[2]}"

    def prepare(self) -> None:
        """Import the SDK and make the client, about half a second that the first step saves."""
        client_for(self._endpoint)

    def form(self) -> RequestForm:
        """The endpoint's knobs, without what this base URL has refused."""
        profile = self._refusals.applied_to(self._profile, self._endpoint.base_url)
        return {"endpoint": self.endpoint_name, **profile.as_data()}

    def render(self, request: ModelRequest, form: RequestForm) -> bytes:
        """The exact body of a request in a form of now or of an earlier time."""
        return render_body(request, EndpointProfile.from_data(form), str(form["endpoint"]))

    def stream(self, request: ModelRequest, body: bytes, control: StreamControl) -> ModelTurn:
        """Send `body`, read the whole answer, return it normalised. Never raises for failures."""
        if control.handle.reason is not None:
            return ModelTurn(failure=_aborted(control))
        exchange = _Exchange(self._endpoint, request, body, control)
        turn = exchange.run()
        return self._with_lessons(turn, body)

    def _with_lessons(self, turn: ModelTurn, body: bytes) -> ModelTurn:
        """A refused field makes the failure retryable: the next body leaves it out."""
        failure = turn.failure
        if failure is None or failure.http_status not in (400, 422):
            return turn
        field = self._refusals.learn(self._endpoint.base_url, body, failure.message)
        if field is None:
            return turn
        message = f"{failure.message} ({field!r} will not be sent to this endpoint again.)"
        lesson = failure.model_copy(update={"is_retryable": True, "message": message})
        return turn.model_copy(update={"failure": lesson})


def _check_address(base_url: str) -> None:
    try:
        address = urlsplit(base_url)
        is_usable = address.scheme in ("http", "https") and bool(address.hostname)
        is_usable = is_usable and address.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise Misconfigured(
            f"The model's base URL {base_url[:200]!r} is no http or https address; "
            "set one such as http://localhost:11434/v1."
        )


@dataclass(slots=True)
class _Exchange:
    """One request and its answer."""

    endpoint: Endpoint
    request: ModelRequest
    body: bytes
    control: StreamControl
    reader: ChatReader | None = None

    def run(self) -> ModelTurn:
        clocks = InactivityClocks(self.control.limits)
        cut: Failure | None = None
        try:
            with (
                abortable_by(self.control.handle),
                Watchdog(self.control, clocks),
                open_answer(
                    self.endpoint, self.body, self.control.limits, self.control.request_id
                ) as answer,
            ):
                self._read(answer, clocks)
        except _TRANSPORT as error:
            cut = _transport_failure(error, has_begun=self.reader is not None)
        except UnicodeEncodeError:
            cut = Failure(error_class="auth", is_retryable=False, message=_KEY_HELP)
        if self.control.handle.reason is not None:
            cut = _aborted(self.control)
        turn = ModelTurn(failure=cut) if self.reader is None else self.reader.finish(cut)
        return self._accounted(self._masked(turn))

    def _read(self, answer: RawAnswer, clocks: InactivityClocks) -> None:
        calls = (call for message in self.request.messages if isinstance(message, AssistantMessage)
                 for call in message.calls)  # fmt: skip
        facts = RequestFacts(
            max_tokens=self.request.max_output_tokens,
            ids_already_used=frozenset(call.call_id for call in calls),
        )
        reader = self.reader = ChatReader(
            status=answer.status,
            headers=answer.headers,
            offered=self.request.tools,
            facts=facts,
            on_delta=self.control.on_delta,
        )
        clocks.saw(has_data_event=False, progress=0)
        for chunk in answer.chunks:
            reader.feed(chunk)
            clocks.saw(has_data_event=reader.has_data_event, progress=reader.progress)
            if reader.is_over:
                return

    def _accounted(self, turn: ModelTurn) -> ModelTurn:
        """Estimate what a broken-off answer has cost if the endpoint did not say."""
        if turn.failure is None or self.reader is None or not usage.is_unknown(turn.usage):
            return turn
        said = self.reader.said_chars()
        estimate = usage.estimated(len(self.body), said)
        return turn.model_copy(update={"usage": estimate}) if said else turn

    def _masked(self, turn: ModelTurn) -> ModelTurn:
        """An endpoint may repeat the key in its message."""
        key, failure = self.endpoint.api_key, turn.failure
        if failure is None or not key or key not in failure.message:
            return turn
        masked = failure.model_copy(update={"message": failure.message.replace(key, "***")})
        return turn.model_copy(update={"failure": masked})


_KEY_HELP: Final = "The API key holds characters that no HTTP header can carry; set it anew."


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
