"""What a worker counts of its steps and calls: facts of the loop as increments of metrics.

Counted after the commit that made it so: what a lost answer or a killed process hides is missing
here, and never in the record.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from loop.response import ModelTurn, Usage
from umbel.agent_settings import ModelSettings
from umbel.names import LOOP_QUEUE, TOOLS_QUEUE, Reason, RunStatus
from umbel.tallies import (
    CALL_DURATION,
    CHANGES_REPEATED,
    COST,
    FENCE_REJECTIONS,
    LEASES_LOST,
    MODEL_CALLS,
    QUEUE_WAIT,
    REDELIVERED,
    RUNS_SETTLED,
    STEP_DURATION,
    TOKENS,
    UNKNOWN_OUTCOMES,
    UNPRICED,
    Tallies,
)


def _unpriced(_model: str) -> ModelSettings:
    return ModelSettings()


class Meter:
    """Counts for one process. Never fails and never waits."""

    def __init__(
        self,
        tallies: Tallies | None = None,
        settings_of: Callable[[str], ModelSettings] = _unpriced,
    ) -> None:
        self.tallies = tallies or Tallies()
        self._settings_of = settings_of

    @contextmanager
    def step(self, waited_seconds: float | None) -> Iterator[None]:
        """Around a step, from its claim to its end."""
        if waited_seconds is not None:
            self.tallies.observe(QUEUE_WAIT, waited_seconds, LOOP_QUEUE)
        began = time.monotonic()
        try:
            yield
        finally:
            self.tallies.observe(STEP_DURATION, time.monotonic() - began)

    @contextmanager
    def call(self, tool: str, waited_seconds: float | None) -> Iterator[None]:
        """Around a call of a tool that exists here, from its start to its recorded outcome."""
        if waited_seconds is not None:
            self.tallies.observe(QUEUE_WAIT, waited_seconds, TOOLS_QUEUE)
        began = time.monotonic()
        try:
            yield
        finally:
            self.tallies.observe(CALL_DURATION, time.monotonic() - began, tool)

    def idle(self, task: str) -> None:
        """A message found nothing to do."""
        self.tallies.add(REDELIVERED, task)

    def fenced_out(self) -> None:
        """A write changed nothing: its work belonged to somebody else by then."""
        self.tallies.add(FENCE_REJECTIONS)

    def presence_lost(self) -> None:
        """A step was given up because this process could not beat."""
        self.tallies.add(LEASES_LOST, "presence_lost")

    def run_settled(self, status: RunStatus, reason: Reason | None = None) -> None:
        """A run was settled by this process."""
        self.tallies.add(RUNS_SETTLED, status, reason or "")

    def outcome_unknown(self) -> None:
        """A change was recorded as unknown."""
        self.tallies.add(UNKNOWN_OUTCOMES)

    def change_repeated(self) -> None:
        """A change was done that its owner had let be sent again meanwhile."""
        self.tallies.add(CHANGES_REPEATED)

    def model_replied(self, model: str, reply: ModelTurn) -> None:
        """A model call ended, well or not, under the name that the run asked for."""
        outcome = reply.failure.error_class if reply.failure else "ok"
        self.tallies.add(MODEL_CALLS, model, outcome)
        usage = reply.usage
        for kind, tokens in (
            ("input", usage.input_tokens),
            ("cached_input", usage.cached_input_tokens),
            ("output", usage.output_tokens),
            ("reasoning", usage.reasoning_tokens),
        ):
            if tokens is not None and tokens > 0:
                self.tallies.add(TOKENS, model, kind, n=tokens)
        self._add_cost(model, usage)

    def _add_cost(self, model: str, usage: Usage) -> None:
        if usage.input_tokens is None or usage.output_tokens is None:
            self.tallies.add(UNPRICED, model, "no_usage")
            return
        cost = self._settings_of(model).cost_usd(
            usage.input_tokens, usage.output_tokens, usage.cached_input_tokens or 0
        )
        if cost is None:
            self.tallies.add(UNPRICED, model, "no_price")
        else:
            self.tallies.add(COST, model, n=cost)
