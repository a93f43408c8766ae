"""What is sent to a model, in one form whatever the endpoint."""

from dataclasses import dataclass
from typing import Any, Literal

from loop.pictures import Picture

Purpose = Literal["main", "compact"]


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool as the model sees it."""

    name: str
    description: str
    input_schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SystemMessage:
    """Instructions: from configuration only, never from a request, a tool or a source."""

    text: str


@dataclass(frozen=True, slots=True)
class UserMessage:
    """Words of the owner, verbatim; or, after a reply that was cut or none, what to do now."""

    text: str


@dataclass(frozen=True, slots=True)
class AssistantCall:
    """A call as it stands in the transcript."""

    call_id: str
    """Our own id: unique in every request, whatever ids the model made up."""
    name: str
    arguments_text: str
    extra: dict[str, Any]


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """An earlier reply of the model."""

    text: str
    calls: tuple[AssistantCall, ...] = ()
    reasoning: str | None = None
    extra: dict[str, Any] | None = None
    endpoint: str | None = None
    """Which endpoint made `extra`; only that one gets it back."""


@dataclass(frozen=True, slots=True)
class ToolMessage:
    """The result of one call: always text, exactly one per call, in the model's order."""

    call_id: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class ShownPictures:
    """The pictures of one result."""

    call_id: str
    name: str
    """Of the tool."""
    pictures: tuple[Picture, ...]

    def caption(self, call_id: str | None = None) -> str:
        """What stands before them, with the call's id as the endpoint is told it."""
        return f"Pictures of the result of {self.name}, call {call_id or self.call_id}:"


@dataclass(frozen=True, slots=True)
class PicturesMessage:
    """What the results of a step show, after all of them; a word of the user's, by its place only.

    Never without a picture.
    """

    shown: tuple[ShownPictures, ...]


Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage | PicturesMessage


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """Everything a provider adapter needs to write one request."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[OfferedTool, ...]
    max_output_tokens: int | None = None
    purpose: Purpose = "main"
    cache_key: str | None = None
    """The same for every request of one conversation, so that an endpoint finds its cache again;
    sent only where the endpoint's profile says so."""
