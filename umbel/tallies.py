"""What a process counts: the list of counters and histograms, and the increments not yet written.

Counting is one append to a queue, safe on every thread and greenlet, and never waits. Who writes
the increments down, and when, is not known here.
"""

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

OTHER: Final = "other"
"""Stands for every label value beyond the bound."""
_LONGEST_LABEL: Final = 100
_MOST_WAITING: Final = 200_000
"""Increments in memory at most, should nobody ever take them; the oldest are forgotten."""

_SECONDS: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)


@dataclass(frozen=True, slots=True)
class Counted:
    """A metric that processes count: a counter, or with `buckets` a histogram."""

    name: str
    meaning: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    """Upper bounds, ascending; what is above the last one is in `+Inf`."""


RUNS_SETTLED: Final = Counted(
    "umbel_runs_settled_total", "Runs that were settled", ("status", "reason")
)
LEASES_LOST: Final = Counted(
    "umbel_leases_lost_total", "Runs taken from a worker that was silent for too long", ("cause",)
)
FENCE_REJECTIONS: Final = Counted(
    "umbel_fence_rejections_total", "Writes refused because the work belonged to another by then"
)
REDELIVERED: Final = Counted(
    "umbel_redelivered_total", "Messages that found nothing to do", ("task",)
)
MESSAGES_REJECTED: Final = Counted(
    "umbel_messages_rejected_total", "Messages that are none of Umbel's", ("cause",)
)
UNKNOWN_OUTCOMES: Final = Counted(
    "umbel_unknown_outcomes_total", "Changes whose outcome was found to be unknown"
)
CHANGES_REPEATED: Final = Counted(
    "umbel_changes_repeated_total", "Changes that were done and had been sent again meanwhile"
)
MODEL_CALLS: Final = Counted(
    "umbel_model_calls_total", "Model calls that ended", ("model", "outcome")
)
TOKENS: Final = Counted("umbel_tokens_total", "Tokens that endpoints reported", ("model", "kind"))
COST: Final = Counted("umbel_cost_usd_total", "US dollars by the prices configured", ("model",))
UNPRICED: Final = Counted(
    "umbel_model_calls_unpriced_total", "Model calls without a known cost", ("model", "cause")
)
STEP_DURATION: Final = Counted(
    "umbel_step_duration_seconds", "From the claim of a step to its commit", (), _SECONDS
)
CALL_DURATION: Final = Counted(
    "umbel_call_duration_seconds", "From the start of a call to its outcome", ("tool",), _SECONDS
)
QUEUE_WAIT: Final = Counted(
    "umbel_queue_wait_seconds", "From ready to claimed or started", ("queue",), _SECONDS
)

COUNTED: Final = {
    metric.name: metric
    for metric in (
        *(RUNS_SETTLED, LEASES_LOST, FENCE_REJECTIONS, REDELIVERED, MESSAGES_REJECTED),
        *(UNKNOWN_OUTCOMES, CHANGES_REPEATED, MODEL_CALLS, TOKENS, COST, UNPRICED),
        *(STEP_DURATION, CALL_DURATION, QUEUE_WAIT),
    )
}


@dataclass(frozen=True, slots=True)
class Series:
    """One number that grows: a metric, its label values, and of a histogram the part."""

    metric: str
    values: tuple[str, ...] = ()
    part: str = ""
    """Empty for a counter; `sum`, or the upper bound of a bucket, which holds no smaller one."""


class Tallies:
    """The increments of one process since they were last taken."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Counted, tuple[str, ...], float]] = deque(maxlen=_MOST_WAITING)

    def add(self, metric: Counted, *values: str, n: float = 1.0) -> None:
        """Count `n` more, with the label values in the metric's order."""
        self._waiting.append((metric, values, n))

    def observe(self, metric: Counted, seconds: float, *values: str) -> None:
        """Put one duration into a histogram."""
        self._waiting.append((metric, values, max(seconds, 0.0)))

    def take(self) -> dict[Series, float]:
        """Sums of everything counted since the last time; from now on they are the caller's."""
        sums: defaultdict[Series, float] = defaultdict(float)
        for metric, values, n in self._emptied():
            short = tuple(value[:_LONGEST_LABEL] for value in values)
            if metric.buckets:
                sums[Series(metric.name, short, _bucket(metric, n))] += 1
                sums[Series(metric.name, short, "sum")] += n
            else:
                sums[Series(metric.name, short)] += n
        return dict(sums)

    def _emptied(self) -> Iterator[tuple[Counted, tuple[str, ...], float]]:
        while True:
            try:
                yield self._waiting.popleft()
            except IndexError:
                return


def _bucket(metric: Counted, seconds: float) -> str:
    index = bisect_left(metric.buckets, seconds)
    return bound_text(metric.buckets[index]) if index < len(metric.buckets) else "+Inf"


def bound_text(bound: float) -> str:
    """An upper bound as Prometheus writes it, such as `0.5` and `300.0`."""
    return repr(float(bound))
