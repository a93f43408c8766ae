"""From the record of a run to the request of its next step. Pure, so that it can be repeated.

The transcript is, run by run of the thread, what people wrote, then per step the reply, one result
per call in the order the model asked, and then their pictures; a correction stands between two
steps, never between a call and its result. A shape leaves the oldest of it out, and a summary
stands in its place.
`RequestManifest` names everything a request was built from; the same manifest and the same record
give the same bytes at any later time.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from loop.pictures import Picture
from loop.request import (
    AssistantCall,
    AssistantMessage,
    Message,
    ModelRequest,
    OfferedTool,
    PicturesMessage,
    ShownPictures,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from loop.response import Mistake, ModelTurn
from loop.shape import WHOLE, Lens, Place, Shape, Sources
from loop.weight import Weight
from umbel.contracts import Frozen
from umbel.errors import InvariantBroken

BUILDER_VERSION: Final = 1
CONTINUE: Final = (
    "Your answer was cut at the output limit. Go on exactly where it stopped, without repeating "
    "anything."
)
MISTAKES: Final[Mapping[Mistake, str]] = {
    "empty_response": (
        "Your last reply held no text and no tool call. Answer the request, or call a tool."
    ),
    "model_output": (
        "Your last reply could not be read: it held a tool call that was not written as one. Write "
        "it again, and its arguments as one JSON object."
    ),
}
"""What the model is told when it is asked again after such a reply."""
GO_ON: Final = "What came before is summarised above. Go on with the request."
NOT_KNOWN: Final = (
    '{"error":{"code":"unknown_outcome","message":"Nobody knows whether this change happened."}}'
)
"""The view of a change whose outcome nobody knew when the run began."""
UNRESOLVED: Final = "Nobody knew when this was written whether these changes had happened:"


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
    mistake: Mistake | None = None
    """The model is told this of its last reply to the same step."""
    source_rev: int = 0
    """Of results that were read again it shows the newest up to this source revision."""
    shape: Shape = WHOLE
    """What it leaves out."""
    weight: Weight | None = None
    """How large it was; None: it was not weighed."""
    refused: Weight | None = None
    """The smallest request of the run that its endpoint refused for its size."""
    sources: Sources | None = None
    """It asks for a summary of this; None: it is a step's request."""
    form: dict[str, str | bool]
    """How the endpoint's adapter wrote it; the adapter alone reads this."""


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A settled call of an earlier step."""

    call_id: str
    name: str
    args_text: str | None
    view: str
    pictures: tuple[Picture, ...] = ()
    """Of its result, if the run's model takes pictures."""


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """An earlier step: the reply that was decided from, and its calls by position."""

    step: int
    endpoint: str | None
    reply: ModelTurn
    calls: tuple[RecordedCall, ...]
    corrections: tuple[str, ...] = ()
    """What people wrote between the results before it and this reply."""
    steers: int = 0
    """How many of its run's corrections its request held."""


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run of the same thread that began before this one, as it was then."""

    requests: tuple[str, ...]
    steps: tuple[RecordedStep, ...]
    """Its answer, if it gave one, is the last reply."""
    run_id: str = ""


@dataclass(frozen=True, slots=True)
class RecordedSummary:
    """What stands for everything before the first step that is kept."""

    text: str
    unresolved: str = ""
    """Changes among it whose outcome nobody knew, one a line."""
    corrections: tuple[str, ...] = ()
    """What people wrote to the first kept run before its first kept step, verbatim."""
    steers: int = 0
    """How many of that run's corrections these are, with those that were returned."""


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
    run_id: str = ""
    summary: RecordedSummary | None = None
    """Of what is left out before the first step here."""
    mistake: Mistake | None = None
    """What was wrong with the last reply to the step at hand."""

    @property
    def runs(self) -> tuple[RecordedRun, ...]:
        """The runs of the thread that are kept, this one last."""
        return (*self.earlier, RecordedRun(self.requests, self.steps, self.run_id))


def build_request(record: RunRecord, shape: Shape = WHOLE) -> ModelRequest:
    """The request for the step after the last recorded one.

    Args:
        record: everything from the shape's first kept step on, with the summary of what was before.
        shape: how much of the results is shown.
    """
    messages: list[Message] = []
    if record.instructions:
        messages.append(SystemMessage(record.instructions))
    lens = lens_of(record, shape)
    for at, run in enumerate(record.runs):
        messages.extend(UserMessage(text) for text in run.requests)
        if at == 0 and record.summary is not None:
            messages.extend(_summarised(record.summary))
        for step in run.steps:
            messages.extend(UserMessage(text) for text in step.corrections)
            messages.extend(_messages_of(step, lens, Place(run_id=run.run_id, step=step.step)))
    messages.extend(UserMessage(text) for text in record.corrections)
    if record.mistake is not None:
        messages.append(UserMessage(MISTAKES[record.mistake]))
    return ModelRequest(
        model=record.model,
        messages=tuple(messages),
        tools=record.tools,
        max_output_tokens=record.max_output_tokens,
        cache_key=record.cache_key,
    )


def lens_of(record: RunRecord, shape: Shape) -> Lens:
    """The shape over the runs of a record."""
    return Lens(shape, {run.run_id: at for at, run in enumerate(record.runs)})


def offered_tools(frozen: Iterable[dict[str, Any]]) -> tuple[OfferedTool, ...]:
    """The part of the run's frozen tools that the model is shown."""
    return tuple(
        OfferedTool(tool["name"], tool["description"], tool["input_schema"]) for tool in frozen
    )


def _summarised(summary: RecordedSummary) -> Iterable[Message]:
    """Never instructions: what people wrote stays theirs, the summary is the model's own word."""
    yield from (UserMessage(text) for text in summary.corrections)
    lost = f"\n\n{UNRESOLVED}\n{summary.unresolved}" if summary.unresolved else ""
    yield AssistantMessage(summary.text + lost)
    yield UserMessage(GO_ON)  # some endpoints refuse two replies in a row


def _messages_of(step: RecordedStep, lens: Lens, place: Place) -> Iterable[Message]:
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
        yield ToolMessage(call.call_id, call.name, lens.shown(place, call.call_id, call.view))
    shown = tuple(ShownPictures(c.call_id, c.name, c.pictures) for c in step.calls if c.pictures)
    if shown and not lens.is_pruned(place):  # every call has its result before anything else comes
        yield PicturesMessage(shown)
