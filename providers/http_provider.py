"""What every adapter over HTTP does the same way; a wire adds its path, its body and its events."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import urlsplit

from loop.request import ModelRequest
from loop.response import ModelTurn
from providers.answer import NewAnswer
from providers.client import client_for
from providers.contract import Endpoint, RequestForm, StreamControl
from providers.exchange import Exchange
from providers.profiles import EndpointProfile, profile_for
from providers.refusals import PROCESS_REFUSALS, Refusals
from umbel.errors import Misconfigured
from umbel.names import WireName


@dataclass(frozen=True, slots=True)
class Wire:
    """One wire form: how a request is written and its answer collected."""

    name: WireName
    path: str
    """Behind the base URL."""
    render: Callable[[ModelRequest, EndpointProfile, str], bytes]
    """The body for a profile; the third argument names the endpoint it is for."""
    new_answer: NewAnswer


class HttpProvider:
    """`ModelProvider` over one wire.

    Raises:
        Misconfigured: the base URL is none that a request could be sent to.
    """

    wire: ClassVar[Wire]

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        profile: EndpointProfile | None = None,
        refusals: Refusals = PROCESS_REFUSALS,
    ) -> None:
        _check_address(endpoint.base_url)
        self._endpoint = endpoint
        self._profile = profile or profile_for(endpoint.base_url, self.wire.name)
        self._refusals = refusals

    @property
    def endpoint_name(self) -> str:
        """Wire, name and host; never a secret."""
        address = urlsplit(self._endpoint.base_url)
        return f"{self.wire.name}:{self._endpoint.name}@{address.netloc.rpartition('@')[2]}"

    def prepare(self) -> None:
        """Import the SDK and make the client, about half a second that the first step saves."""
        client_for(self._endpoint)

    def form(self) -> RequestForm:
        """The endpoint's knobs, without what this base URL has refused."""
        profile = self._refusals.applied_to(self._profile, self._endpoint.base_url)
        return {"endpoint": self.endpoint_name, **profile.as_data()}

    def render(self, request: ModelRequest, form: RequestForm) -> bytes:
        """The exact body of a request in a form of now or of an earlier time."""
        return self.wire.render(request, EndpointProfile.from_data(form), str(form["endpoint"]))

    def stream(self, request: ModelRequest, body: bytes, control: StreamControl) -> ModelTurn:
        """Send `body`, read the whole answer, return it normalised. Never raises for failures."""
        wire = self.wire
        exchange = Exchange(self._endpoint, wire.path, wire.new_answer, request, body, control)
        return self._with_lesson(exchange.run(), body)

    def _with_lesson(self, turn: ModelTurn, body: bytes) -> ModelTurn:
        """A refused field makes the failure retryable: the next body leaves it out."""
        if turn.failure is None:
            return turn
        field = self._refusals.learn(self._endpoint.base_url, body, turn.failure)
        if field is None:
            return turn
        message = f"{turn.failure.message} ({field!r} will not be sent to this endpoint again.)"
        lesson = turn.failure.model_copy(update={"is_retryable": True, "message": message})
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
