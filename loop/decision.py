"""What the loop may decide from one reply: a closed set."""

from dataclasses import dataclass
from typing import Literal

from loop.response import ProposedCall
from umbel.names import Reason

RetryCause = Literal["provider", "empty_response", "context_length"]


@dataclass(frozen=True, slots=True)
class Answer:
    """The run is complete with this text."""

    text: str


@dataclass(frozen=True, slots=True)
class Dispatch:
    """These calls are prepared and run, in this order; then comes the next step.

    Without calls it comes at once: the model goes on with an answer that was cut.
    """

    calls: tuple[ProposedCall, ...]


@dataclass(frozen=True, slots=True)
class Retry:
    """The same step asks again after a wait."""

    cause: RetryCause
    wait_seconds: float
    detail: str


@dataclass(frozen=True, slots=True)
class Pause:
    """A person must act before the run goes on."""

    reason: Reason
    detail: str
    keeps_reply: bool = False
    """The reply is paid for and no fault of the model's: after a resume it is decided anew."""


@dataclass(frozen=True, slots=True)
class Discard:
    """The reply answers a state of affairs that is over; it is kept, and not acted upon."""

    detail: str


Decision = Answer | Dispatch | Retry | Pause | Discard
