"""What a command tells of a run: a closed set, shown as text or as one JSON line each.

The field names are the documented schema of `--json` (docs/cli.md): adding a field is fine,
renaming one is not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Literal

from umbel.cli.spending import Spending

Topic = Literal[
    "request",
    "workspace",
    "model",
    "servers",
    "database",
    "workers",
    "note",
    "stopping",
    "look",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Something on the way to the run, or a remark beside it."""

    type: ClassVar[str] = "progress"
    topic: Topic
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAccepted:
    """The request is written down: from now on nothing of it gets lost."""

    type: ClassVar[str] = "run.accepted"
    run_id: str
    thread_id: str
    agent: str
    model: str
    input: str
    workspace: str | None
    is_new: bool = True
    """False: the id was accepted before; it is the same run."""
    is_queued: bool = False
    """It waits for its turn in the thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted:
    """A worker has taken the step and asks the model."""

    type: ClassVar[str] = "step.started"
    step: int
    claim: int
    """Which claim of this step it is; above 1 an earlier one did not end it."""
    worker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelText:
    """A piece of what the model is writing. For eyes: pieces may be missing, the record is not."""

    type: ClassVar[str] = "model.text"
    step: int
    attempt: int
    kind: Literal["text", "reasoning", "call"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDecided:
    """The reply is recorded and decided upon; `text` is all the words of it."""

    type: ClassVar[str] = "step.decided"
    step: int
    attempt: int
    decision: str
    text: str | None
    model: str | None
    input_tokens: int | None
    output_tokens: int | None
    total_tokens: int | None
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallAsked:
    """The model asks for a tool; `arguments` is the exact text that is sent, or None."""

    type: ClassVar[str] = "call.asked"
    call_id: str
    step: int
    position: int
    tool: str
    effect: str
    arguments: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSettled:
    """A call ended; `result` is what the model is shown of its result."""

    type: ClassVar[str] = "call.settled"
    call_id: str
    step: int
    position: int
    tool: str
    effect: str
    state: str
    result: str | None
    result_chars: int | None
    receipt: str | None
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRetried:
    """The same step asks the model again after a wait."""

    type: ClassVar[str] = "step.retried"
    step: int
    attempt: int
    cause: str
    wait_seconds: float
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNoted:
    """Any other durable event of the run, under its own name."""

    type: ClassVar[str] = "run.noted"
    event: str
    detail: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """One durable event of a run's record, exactly one line: who keeps `seq` can go on after it."""

    type: ClassVar[str] = "event"
    run_id: str
    seq: int
    kind: str
    ref: str | None
    """The call, step or delivery it is about."""
    at: datetime
    seconds: float
    """Since the run was accepted."""
    text: str
    """In words, on one line."""
    facts: Mapping[str, object]
    """What the event holds, and of the model call or the tool call it is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettled:
    """The run stands still: the last line of a run that was carried to its end."""

    type: ClassVar[str] = "run.settled"
    run_id: str
    model: str
    status: str
    reason: str | None
    detail: str | None
    answer: str | None
    steps: int
    calls: int
    spending: Spending
    seconds: float
    look: str
    """How to look at the run from now on."""
    endpoint: str | None = None
    """The address that the model was asked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """The command ends before the run does; also the last line."""

    type: ClassVar[str] = "error"
    message: str
    exit_code: int


Moment = (
    Progress
    | RunAccepted
    | StepStarted
    | ModelText
    | StepDecided
    | CallAsked
    | CallSettled
    | StepRetried
    | RunNoted
    | Happened
    | RunSettled
    | Stopped
)
