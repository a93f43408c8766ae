"""What a model said, in one form whatever the endpoint: the only thing `decide()` reads of it."""

from typing import Annotated, Any, Literal

from pydantic import Field

from umbel.contracts import Frozen

CallStatus = Literal["ok", "invalid_arguments", "unknown_tool", "incomplete"]
Finish = Literal["stop", "tool_calls", "length", "content_filter", "refusal"]
ErrorClass = Literal[
    "rate_limit",
    "quota",
    "context_length",
    "content_filter",
    "auth",
    "bad_request",
    "server",
    "model_output",
    "incomplete_stream",
    "empty_response",
    "protocol",
    "stall",
    "aborted",
    "unreachable",
]
Mistake = Literal["empty_response", "model_output"]
"""Failures of the model rather than of its endpoint."""


class Usage(Frozen):
    """Tokens of one model call; None is unknown, never zero."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cached_input_tokens: int | None = None
    reasoning_tokens: int | None = None
    is_estimated: bool = False


class ProposedCall(Frozen):
    """A tool call as the model asked for it; nothing of it has been checked against the tool."""

    model_id: str
    """The id the model gave, or a generated one; unique within the answer."""
    name: str
    status: CallStatus
    arguments_text: str | None = None
    """The strictly parsed arguments in their one text form: these bytes are hashed, shown and sent.
    None when they cannot be used."""
    raw_arguments: str = ""
    """What the model wrote, storable form."""
    problem: str | None = None
    """Why the status is not `ok`, in words for the model."""
    extra: dict[str, Any] = Field(default_factory=dict)
    """Opaque provider fields, sent back only to the provider that made them."""
    is_recovered: bool = False
    """Read out of text markup, not out of a proper call."""
    is_repaired: bool = False
    """Characters had to be replaced so that it could be stored; such a call is refused."""


class Failure(Frozen):
    """The endpoint gave no usable reply."""

    kind: Literal["failure"] = "failure"
    error_class: ErrorClass
    is_retryable: bool
    """The same request may be sent again, bounded, by the loop."""
    retry_after_seconds: float | None = None
    """What the provider asked for."""
    http_status: int | None = None
    message: str = ""


class ModelTurn(Frozen):
    """One reply, normalised and storable; what a model call row keeps."""

    version: Literal[1] = 1
    text: str = ""
    reasoning: str | None = None
    calls: tuple[ProposedCall, ...] = ()
    usage: Usage = Usage()
    finish: Finish | None = None
    failure: Failure | None = None
    extra: dict[str, Any] = Field(default_factory=dict)
    """Opaque provider state of the whole message."""
    is_repaired: bool = False
    model: str | None = None
    """The model name the endpoint reported."""
    response_id: str | None = None


class Text(Frozen):
    """The model said something and asked for nothing."""

    kind: Literal["text"] = "text"
    text: str
    is_cut: bool = False


class ToolUse(Frozen):
    """The model asked for tools, perhaps with words beside."""

    kind: Literal["tool_use"] = "tool_use"
    text: str
    calls: tuple[ProposedCall, ...] = Field(min_length=1)


ModelResponse = Annotated[Text | ToolUse | Failure, Field(discriminator="kind")]


def response_of(turn: ModelTurn) -> Text | ToolUse | Failure:
    """The reply as exactly one of the three kinds `decide()` knows."""
    if turn.failure is not None:
        return turn.failure
    if turn.calls:
        return ToolUse(text=turn.text, calls=turn.calls)
    return Text(text=turn.text, is_cut=turn.finish == "length")
