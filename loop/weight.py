"""How large a request is: bytes that are counted, as tokens that a model would count at most.

No tokenizer is asked: a model's own counts, as its endpoint reports them, say how many bytes make a
token there. Without any report the usual value stands; no report makes a request look smaller than
`MOST_BYTES_PER_TOKEN` allows.
"""

import json
from collections.abc import Iterable
from typing import Final, assert_never

from loop.request import (
    AssistantMessage,
    Message,
    ModelRequest,
    OfferedTool,
    PicturesMessage,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from umbel.contracts import Frozen

REQUEST_TOKENS: Final = 32
MESSAGE_TOKENS: Final = 8
PICTURE_TOKENS: Final = 2_048
"""What a request, a message and a picture cost on top of their text."""

USUAL_BYTES_PER_TOKEN: Final = 3.5
LEAST_BYTES_PER_TOKEN: Final = 1.0
MOST_BYTES_PER_TOKEN: Final = 4.0
"""Whatever an endpoint reports: a token is never taken for more bytes than this."""

_TELLING_BYTES: Final = 2_000
"""A smaller request says nothing about bytes and tokens: what the endpoint adds outweighs it."""


class Weight(Frozen):
    """What there is to count of a request."""

    text_bytes: int
    """UTF-8 bytes of messages and tool schemas."""
    messages: int
    pictures: int = 0

    def tokens(self, bytes_per_token: float) -> int:
        """The request in tokens."""
        return int(-(-self.text_bytes // bytes_per_token)) + self._fixed_tokens()

    def bytes_per_token(self, input_tokens: int) -> float | None:
        """What `tokens` should be given so that it tells what the endpoint counted.

        None: the request says nothing about it, being small or made of pictures.
        """
        if self.pictures or self.text_bytes < _TELLING_BYTES or input_tokens <= 0:
            return None
        counted = max(1, input_tokens - self._fixed_tokens())
        return min(MOST_BYTES_PER_TOKEN, max(LEAST_BYTES_PER_TOKEN, self.text_bytes / counted))

    def _fixed_tokens(self) -> int:
        return REQUEST_TOKENS + MESSAGE_TOKENS * self.messages + PICTURE_TOKENS * self.pictures


def weigh(request: ModelRequest) -> Weight:
    """The weight of a request."""
    schemas = weigh_tools(request.tools)
    texts = sum(_bytes_of(message) for message in request.messages)
    return Weight(
        text_bytes=schemas.text_bytes + texts,
        messages=len(request.messages),
        pictures=sum(map(_pictures_in, request.messages)),
    )


def weigh_tools(tools: Iterable[OfferedTool]) -> Weight:
    """The weight of tool schemas alone."""
    texts = (json.dumps([t.name, t.description, t.input_schema], ensure_ascii=False) for t in tools)
    return Weight(text_bytes=sum(map(_size, texts)), messages=0)


def _pictures_in(message: Message) -> int:
    if not isinstance(message, PicturesMessage):
        return 0
    return sum(len(result.pictures) for result in message.shown)


def _bytes_of(message: Message) -> int:
    match message:
        case SystemMessage(text=text) | UserMessage(text=text) | ToolMessage(text=text):
            return _size(text)
        case AssistantMessage():
            calls = sum(
                _size(call.name) + _size(call.arguments_text) + _size_of_extra(call.extra)
                for call in message.calls
            )
            return _size(message.text) + calls + _size_of_extra(message.extra)
        case PicturesMessage(shown=shown):
            return sum(_size(result.caption()) for result in shown)
        case _:
            assert_never(message)


def _size_of_extra(extra: dict[str, object] | None) -> int:
    """Opaque provider fields go back to their maker, and some are long."""
    return _size(json.dumps(extra, ensure_ascii=False)) if extra else 0


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
