"""The metrics page: how the system stands by the record and the broker, and what it has counted."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import redis
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from models.overview import Overview
from tasks.presence import role_of
from umbel.errors import UmbelError
from umbel.tallies import COUNTED, Counted, Series, bound_text

Found = TypeVar("Found")
Labels = TypeVar("Labels", bound=tuple[str, ...])

KEPT_SECONDS: Final = 2.0
"""One look serves everybody who asks within this time."""
PATIENCE_SECONDS: Final = 6.0
"""Longest wait of a scrape for PostgreSQL or Redis; Prometheus itself waits 10 s by default."""


@dataclass(frozen=True, slots=True)
class Gauge:
    """A metric that is looked up when somebody asks."""

    name: str
    meaning: str
    labels: tuple[str, ...] = ()


UP: Final = Gauge("umbel_up", "Whether the part answered the last look", ("part",))
RUNS: Final = Gauge("umbel_runs", "Runs that are not over, and paused ones", ("status", "reason"))
READY: Final = Gauge("umbel_ready", "Steps or calls that any worker may take now", ("queue",))
READY_AGE: Final = Gauge(
    "umbel_ready_oldest_age_seconds", "How long the oldest of them has been ready", ("queue",)
)
BROKER: Final = Gauge("umbel_broker_messages", "Messages in the broker's list", ("queue",))
UNKNOWN_RECEIPTS: Final = Gauge(
    "umbel_unknown_receipts_open", "Changes of which nobody knows whether they happened"
)
WORKERS: Final = Gauge("umbel_workers", "Worker processes alive", ("role",))

GAUGES: Final = (UP, RUNS, READY, READY_AGE, BROKER, UNKNOWN_RECEIPTS, WORKERS)

# Shown as 0, so that an alert can tell none from unknown.
_ALWAYS_RUNS: Final = (("queued", ""), ("running", ""), ("cancelling", ""))
_ALWAYS_ROLES: Final = ("step", "tool", "control")


class Shared(Generic[Found]):
    """One look for everybody who asks at about the same time; None when it does not succeed.

    A look that hangs holds nobody up for longer than `patience_seconds`, and there is only one.
    """

    def __init__(
        self,
        look: Callable[[], Found | None],
        *,
        kept_seconds: float = KEPT_SECONDS,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._look = look
        self._kept_seconds = kept_seconds
        self._patience_seconds = patience_seconds
        self._changed = threading.Condition()
        self._is_looking = False
        self._found: Found | None = None
        self._found_at = float("-inf")

    def get(self) -> Found | None:
        """What was found not long ago, or is found now."""
        with self._changed:
            if time.monotonic() - self._found_at <= self._kept_seconds:
                return self._found
            if not self._is_looking:
                self._is_looking = True
                threading.Thread(target=self._refresh, daemon=True).start()
            is_over = self._changed.wait_for(lambda: not self._is_looking, self._patience_seconds)
            return self._found if is_over else None

    def _refresh(self) -> None:
        found = None
        try:
            found = self._look()
        finally:
            with self._changed:
                self._found, self._found_at = found, time.monotonic()
                self._is_looking = False
                self._changed.notify_all()


class SystemCollector(Collector):
    """All metrics of Umbel; parts that do not answer are left out and said to be down."""

    def __init__(
        self,
        record: Callable[[], Overview],
        broker: Callable[[], Mapping[str, int]],
    ) -> None:
        self._record = Shared(lambda: _unless(record, UmbelError))
        self._broker = Shared(lambda: _unless(broker, redis.RedisError))

    def collect(self) -> Iterator[Metric]:
        """Every metric, in the order of the documentation."""
        overview, messages = self._record.get(), self._broker.get()
        answers = {"postgresql": overview is not None, "redis": messages is not None}
        yield _gauge(UP, {(part,): float(is_up) for part, is_up in answers.items()})
        if messages is not None:
            yield _gauge(BROKER, {(queue,): n for queue, n in messages.items()})
        if overview is not None:
            yield from _standing(overview)
            yield from _counted(overview.tallies)


def _standing(overview: Overview) -> Iterator[Metric]:
    yield _gauge(RUNS, dict.fromkeys(_ALWAYS_RUNS, 0) | overview.runs)
    yield _gauge(READY, {(queue,): backlog.depth for queue, backlog in overview.ready.items()})
    yield _gauge(
        READY_AGE, {(queue,): backlog.oldest_seconds for queue, backlog in overview.ready.items()}
    )
    yield _gauge(UNKNOWN_RECEIPTS, {(): overview.unknown_receipts})
    workers = dict.fromkeys(_ALWAYS_ROLES, 0)
    for name, n in overview.workers.items():
        workers[role_of(name)] = workers.get(role_of(name), 0) + n
    yield _gauge(WORKERS, {(role,): n for role, n in workers.items()})


def _gauge(gauge: Gauge, values: Mapping[Labels, float]) -> Metric:
    family = GaugeMetricFamily(gauge.name, gauge.meaning, labels=gauge.labels)
    for labels, value in sorted(values.items()):
        family.add_metric(labels, value)
    return family


def _counted(tallies: Mapping[Series, float]) -> Iterator[Metric]:
    parts: defaultdict[str, defaultdict[tuple[str, ...], dict[str, float]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for series, n in tallies.items():
        parts[series.metric][series.values][series.part] = n
    for metric in COUNTED.values():
        found = parts[metric.name]
        if not metric.labels:
            found[()]  # a counter that has never counted is 0: rates need a beginning
        yield _histogram(metric, found) if metric.buckets else _counter(metric, found)


def _counter(metric: Counted, found: Mapping[tuple[str, ...], Mapping[str, float]]) -> Metric:
    family = CounterMetricFamily(metric.name, metric.meaning, labels=metric.labels)
    for values, parts in sorted(found.items()):
        family.add_metric(values, parts.get("", 0.0))
    return family


def _histogram(metric: Counted, found: Mapping[tuple[str, ...], Mapping[str, float]]) -> Metric:
    family = HistogramMetricFamily(metric.name, metric.meaning, labels=metric.labels)
    for values, parts in sorted(found.items()):
        counts = {**dict.fromkeys(map(bound_text, metric.buckets), 0.0), "+Inf": 0.0, **parts}
        total = counts.pop("sum", 0.0)
        family.add_metric(values, list(_cumulated(counts.items())), total)
    return family


def _cumulated(counts: Iterable[tuple[str, float]]) -> Iterator[tuple[str, float]]:
    """Each bucket with all smaller ones, as Prometheus wants them."""
    below = 0.0
    for bound, n in sorted(counts, key=lambda pair: float(pair[0])):
        below += n
        yield bound, below


def _unless(look: Callable[[], Found], refusal: type[Exception]) -> Found | None:
    try:
        return look()
    except refusal:
        return None
