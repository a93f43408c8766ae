"""A doorbell of tests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.bell import Ring, StepRing
from umbel.contracts import CallId, RunId


@dataclass
class RecordingBell:
    """A doorbell one can ask what it has rung; `is_away` makes it a broker that is gone."""

    steps: list[tuple[RunId, int]] = field(default_factory=list)
    calls: list[CallId] = field(default_factory=list)
    is_away: bool = False
    lengths: dict[str, int] = field(default_factory=dict)
    queues: dict[RunId, str] = field(default_factory=dict)
    tools: dict[CallId, str] = field(default_factory=dict)

    def ring_step(self, run_id: RunId, step: int, rings: int = 0) -> bool:
        if not self.is_away:
            self.steps.append((run_id, step))
        return not self.is_away

    def ring_call(self, call_id: CallId, tool: str, rings: int = 0) -> bool:
        if not self.is_away:
            self.calls.append(call_id)
            self.tools[call_id] = tool
        return not self.is_away

    def ring_all(self, rings: Sequence[Ring]) -> bool:
        for ring in rings:
            if isinstance(ring, StepRing):
                self.ring_step(ring.run_id, ring.step)
                self.queues[ring.run_id] = ring.queue
            else:
                self.ring_call(ring.call_id, ring.tool)
        return not self.is_away

    def waiting(self) -> Mapping[str, int] | None:
        return None if self.is_away else self.lengths
