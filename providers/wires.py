"""The adapter for an endpoint, by the name of the wire it speaks."""

from typing import Final

from providers.chat import ChatProvider
from providers.contract import Endpoint
from providers.http_provider import HttpProvider
from providers.profiles import default_wire
from providers.refusals import PROCESS_REFUSALS, Refusals
from providers.responses import ResponsesProvider
from umbel.names import WireName

_PROVIDERS: Final[dict[WireName, type[HttpProvider]]] = {
    "chat": ChatProvider,
    "responses": ResponsesProvider,
}


def provider_for(
    endpoint: Endpoint, *, wire: WireName | None = None, refusals: Refusals = PROCESS_REFUSALS
) -> HttpProvider:
    """The adapter for an endpoint.

    Args:
        endpoint: where the model is served.
        wire: what to speak; None: Responses at OpenAI itself, Chat Completions elsewhere.
        refusals: the memory of what endpoints refused.

    Raises:
        Misconfigured: the base URL is none that a request could be sent to.
    """
    return _PROVIDERS[wire or default_wire(endpoint.base_url)](endpoint, refusals=refusals)
