"""From the record of a run to the request of its next step. Pure, so that it can be repeated.

The transcript is, run by run of the thread, what people wrote, then per step the reply and one
result per call in the order the model asked; a correction stands between two steps, never between
a call and its result.
`RequestManifest` names everything a request was built from; the same manifest and the same record
give the same bytes at any later time.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

from loop.request import (
    AssistantCall,
    AssistantMessage,
    Message,
    ModelRequest,
    OfferedTool,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from loop.response import ModelTurn
from umbel.contracts import Frozen
from umbel.errors import InvariantBroken

BUILDER_VERSION: Final = 1
CONTINUE: Final = (
    "Your answer was cut at the output limit. Go on exactly where it stopped, without repeating "
    "anything."
)


class RequestManifest(Frozen):
    """What one request was built from; constant in size, however long the run."""

    version: Literal[1] = 1
    builder: int = BUILDER_VERSION
    policy_sha: str
    tools_sha: str
    through_step: int
    """The last step whose reply and results are in the request; 0: none."""
    steers: int = 0
    """How many of the run's corrections are in the request."""
    form: dict[str, str | bool]
    """How the endpoint's adapter wrote it; the adapter alone reads this."""


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A settled call of an earlier step."""

    call_id: str
    name: str
    args_text: str | None
    view: str


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """An earlier step: the reply that was decided from, and its calls by position."""

    step: int
    endpoint: str | None
    reply: ModelTurn
    calls: tuple[RecordedCall, ...]
    corrections: tuple[str, ...] = ()
    """What people wrote between the results before it and this reply."""


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run of the same thread that began before this one, as it was then."""

    requests: tuple[str, ...]
    steps: tuple[RecordedStep, ...]
    """Its answer, if it gave one, is the last reply."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """Everything a request is built from."""

    model: str
    instructions: str
    requests: tuple[str, ...]
    """What people wrote, verbatim and in order."""
    steps: tuple[RecordedStep, ...]
    tools: tuple[OfferedTool, ...]
    max_output_tokens: int | None
    corrections: tuple[str, ...] = ()
    """What people wrote that no reply has heard yet."""
    earlier: tuple[RecordedRun, ...] = ()
    """The thread's runs before this one."""
    cache_key: str | None = None
    """Names the conversation, for endpoints that cache by a key."""


def build_request(record: RunRecord) -> ModelRequest:
    """The request for the step after the last recorded one."""
    messages: list[Message] = []
    if record.instructions:
        messages.append(SystemMessage(record.instructions))
    own = RecordedRun(record.requests, record.steps)
    for run in (*record.earlier, own):
        messages.extend(UserMessage(text) for text in run.requests)
        for step in run.steps:
            messages.extend(UserMessage(text) for text in step.corrections)
            messages.extend(_messages_of(step))
    messages.extend(UserMessage(text) for text in record.corrections)
    return ModelRequest(
        model=record.model,
        messages=tuple(messages),
        tools=record.tools,
        max_output_tokens=record.max_output_tokens,
        cache_key=record.cache_key,
    )


def offered_tools(frozen: Iterable[dict[str, Any]]) -> tuple[OfferedTool, ...]:
    """The part of the run's frozen tools that the model is shown."""
    return tuple(
        OfferedTool(tool["name"], tool["description"], tool["input_schema"]) for tool in frozen
    )


def _messages_of(step: RecordedStep) -> Iterable[Message]:
    """The reply and exactly one result per call."""
    proposed = step.reply.calls
    if len(proposed) != len(step.calls):
        raise InvariantBroken(
            f"Step {step.step} asked for {len(proposed)} calls and has {len(step.calls)} rows."
        )
    yield AssistantMessage(
        text=step.reply.text,
        calls=tuple(
            AssistantCall(call.call_id, call.name, call.args_text or "{}", asked.extra)
            for call, asked in zip(step.calls, proposed, strict=True)
        ),
        reasoning=step.reply.reasoning,
        extra=step.reply.extra,
        endpoint=step.endpoint,
    )
    if step.reply.finish == "length" and not proposed:
        yield UserMessage(CONTINUE)
    for call in step.calls:
        yield ToolMessage(call.call_id, call.name, call.view)
