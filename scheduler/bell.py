"""What the sweeper rings with: single rings, many at once, and a look at how long the lists are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from umbel.contracts import CallId, RunId
from umbel.names import LOOP_QUEUE


@dataclass(frozen=True, slots=True)
class StepRing:
    """An announcement of a run's step."""

    run_id: RunId
    step: int
    rings: int = 0
    queue: str = LOOP_QUEUE


@dataclass(frozen=True, slots=True)
class CallRing:
    """An announcement of a call."""

    call_id: CallId
    tool: str
    rings: int = 0


Ring = StepRing | CallRing


class Bell(Protocol):
    """Announces ready work; never raises."""

    def ring_step(self, run_id: RunId, step: int, rings: int = 0) -> bool:
        """Announce a run's step; False when the broker did not take it."""
        ...

    def ring_call(self, call_id: CallId, tool: str, rings: int = 0) -> bool:
        """Announce a call of a tool; False when the broker did not take it."""
        ...

    def ring_all(self, rings: Sequence[Ring]) -> bool:
        """Announce all of them; False when the broker may have taken only some, or none."""
        ...

    def waiting(self) -> Mapping[str, int] | None:
        """Messages in each queue that no worker has fetched; None when the broker is away."""
        ...
