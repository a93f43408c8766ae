"""Which trace a run belongs to, and which span is the root of its spans: by the record alone.

Every process derives the same ids, so that none has to tell another one.
"""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock
from typing import Final

from opentelemetry.context import Context
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import Decision, Sampler
from opentelemetry.trace import SpanContext, TraceFlags

from models.database import Database
from models.records import RunSpec
from models.stretches import Resumes, count_resumes
from tasks.traceparent import (
    SAMPLED,
    TracePlace,
    derived_span_id,
    derived_trace_id,
    parse_traceparent,
)
from umbel.contracts import RunId
from umbel.errors import Unavailable

_KEPT: Final = 512


class GivenIds(IdGenerator):
    """Gives a span the ids that were laid out for it."""

    def __init__(self) -> None:
        self._next: ContextVar[tuple[int, int]] = ContextVar("umbel_span_ids")

    @contextmanager
    def given(self, trace_id: int, span_id: int) -> Iterator[None]:
        """The span that is started in the block has these ids."""
        token = self._next.set((trace_id, span_id))
        try:
            yield
        finally:
            self._next.reset(token)

    def generate_trace_id(self) -> int:
        """For a span without a parent."""
        return self._next.get()[0]

    def generate_span_id(self) -> int:
        """For any span."""
        return self._next.get()[1]


@dataclass(frozen=True, slots=True)
class Root:
    """The span of a run's stretch, which the others of the stretch have as parent."""

    context: SpanContext
    parent: SpanContext | None
    """The caller's span; for a resumed run without a caller its first stretch."""
    previous: SpanContext | None
    """The stretch before this one."""


class Roots:
    """The roots of runs, and those this process was at last."""

    def __init__(self, database: Database, sampler: Sampler) -> None:
        self._database = database
        self._sampler = sampler
        self._known: OrderedDict[str, tuple[Root, Resumes]] = OrderedDict()
        self._lock = Lock()

    def present(self, spec: RunSpec) -> Root:
        """The root of the stretch at hand: the run may have been resumed since the last look."""
        known = self._remembered(spec.run_id)
        seen = known[1] if known else Resumes()
        with suppress(Unavailable):  # then it is most likely the stretch it was
            seen = count_resumes(self._database, spec.run_id, seen)
        root = self.of(spec.run_id, spec.traceparent, seen.number)
        with self._lock:
            self._known[spec.run_id] = (root, seen)
            self._known.move_to_end(spec.run_id)
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return root

    def of(self, run_id: RunId, traceparent: str | None, resumes: int) -> Root:
        """The root of a run's stretch of that number."""
        caller = parse_traceparent(traceparent) if traceparent else None
        trace_id = caller.trace_id if caller else derived_trace_id(run_id)
        flags = caller.flags & SAMPLED if caller else self._flags(trace_id)

        def stretch(number: int) -> SpanContext:
            return remote(trace_id, derived_span_id("run", run_id, number), flags)

        parent = remote(trace_id, caller.span_id, flags) if caller else None
        return Root(
            context=stretch(resumes),
            parent=parent or (stretch(0) if resumes else None),
            previous=stretch(resumes - 1) if resumes else None,
        )

    def traceparent(self, run_id: str) -> str | None:
        """The header that leads to a run this process was at lately."""
        known = self._remembered(run_id)
        if known is None:
            return None
        place = known[0].context
        return str(TracePlace(place.trace_id, place.span_id, int(place.trace_flags)))

    def _remembered(self, run_id: str) -> tuple[Root, Resumes] | None:
        with self._lock:
            return self._known.get(run_id)

    def _flags(self, trace_id: int) -> int:
        """Every process asks its own sampler, which decides by the trace id alone."""
        decision = self._sampler.should_sample(Context(), trace_id, "invoke_agent").decision
        return SAMPLED if decision is Decision.RECORD_AND_SAMPLE else 0


def remote(trace_id: int, span_id: int, flags: int) -> SpanContext:
    """A span that some other process writes."""
    return SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(flags))
