"""The Responses adapter, for OpenAI itself and whoever speaks it: stateless, as everything here."""

from typing import ClassVar

from providers.http_provider import HttpProvider, Wire
from providers.responses_answer import ResponsesAnswer
from providers.responses_render import render_responses_body


class ResponsesProvider(HttpProvider):
    """`ModelProvider` over the Responses API; nothing is kept on the endpoint's side."""

    wire: ClassVar[Wire] = Wire("responses", "/responses", render_responses_body, ResponsesAnswer)
