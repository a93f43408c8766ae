"""The Chat Completions adapter: what everybody speaks."""

from typing import ClassVar

from providers.chat_answer import ChatAnswer
from providers.http_provider import HttpProvider, Wire
from providers.render import render_body


class ChatProvider(HttpProvider):
    """`ModelProvider` for everybody who speaks Chat Completions."""

    wire: ClassVar[Wire] = Wire("chat", "/chat/completions", render_body, ChatAnswer)
