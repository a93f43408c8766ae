"""Runs as OpenTelemetry traces: one per run, whichever processes carry it.

The ids of trace and spans follow from ids in the record: processes agree on them without talking,
and a span may name as its parent one that only a later process will write.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import (
    INVALID_SPAN,
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    StatusCode,
    set_span_in_context,
)

from loop.outcome import Errored, Refused, ToolOutcome, Unknown
from loop.request import ModelRequest
from loop.response import ModelTurn
from models.calls import Started
from models.database import Database
from models.records import RunSpec
from models.steps import Claim
from models.stretches import Stretch, load_stretch
from providers.contract import AbortReason
from tasks.traceparent import SAMPLED, derived_span_id
from tasks.tracing import CallSpan, ModelSpan
from tasks.tracing_content import Content
from tasks.tracing_roots import GivenIds, Roots, remote
from umbel.contracts import RunId

log: Final = logging.getLogger(__name__)

Value = str | int | Sequence[str]


@dataclass(frozen=True, slots=True)
class Told:
    """What a span is to tell from its start on."""

    name: str
    span_id: int
    attributes: Mapping[str, Value]
    kind: SpanKind = SpanKind.INTERNAL
    earlier: int | None = None
    """The span id of the attempt before this one."""


class OtelTracer:
    """Implements `tasks.tracing.Tracer`."""

    def __init__(
        self,
        provider: TracerProvider,
        ids: GivenIds,
        database: Database,
        *,
        provider_name: str,
        content: Content,
        finish: Callable[[], None],
    ) -> None:
        self._tracer = provider.get_tracer("umbel")
        self._ids = ids
        self._roots = Roots(database, provider.sampler)
        self._database = database
        self._provider_name = provider_name
        self._content = content
        self.finish = finish

    @contextmanager
    def model_call(self, claim: Claim, spec: RunSpec, request: ModelRequest) -> Iterator[ModelSpan]:
        """A span `chat`."""
        told = Told(
            f"chat {spec.model}",
            _chat_id(claim, claim.attempt),
            self._of_step(claim, spec, "chat") | dict(self._content.of_request(request)),
            SpanKind.CLIENT,
            _chat_id(claim, claim.attempt - 1) if claim.attempt > 1 else None,
        )
        with self._open(spec, told) as span:
            yield _ModelSpan(span, self._content)

    def reply_applied(self, claim: Claim, spec: RunSpec) -> None:
        """A span `apply_reply` that leads to the `chat` that was paid for."""
        told = Told(
            f"apply_reply {spec.model}",
            derived_span_id("apply", claim.run_id, claim.step, claim.attempt, claim.fence),
            self._of_step(claim, spec, None),
            earlier=_chat_id(claim, claim.attempt),
        )
        with self._open(spec, told):
            return

    @contextmanager
    def tool_call(self, started: Started, spec: RunSpec) -> Iterator[CallSpan]:
        """A span `execute_tool`."""
        call, attempt = started.call, started.attempt
        attributes = self._about(call.run_id, call.thread_id, spec.agent) | {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.tool,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": call.call_id,
            "umbel.step": call.step,
            "umbel.attempt": attempt,
            "umbel.fence": call.fence,
            **self._content.of_arguments(started.args_text),
        }
        told = Told(
            f"execute_tool {call.tool}",
            derived_span_id("call", call.call_id, attempt),
            attributes,
            earlier=derived_span_id("call", call.call_id, attempt - 1) if attempt > 1 else None,
        )
        with self._open(spec, told) as span:
            yield _CallSpan(span, self._content)

    def run_settled(self, run_id: RunId) -> None:
        """The span `invoke_agent`, from acceptance or resume to the end."""
        try:
            stretch = load_stretch(self._database, run_id)
            if stretch is not None and stretch.settled_at is not None:
                self._tell_stretch(run_id, stretch, stretch.settled_at)
        except Exception as error:  # noqa: BLE001 - whoever settles runs must not fail by telling
            _note_loss(error)

    def traceparent(self, run_id: str) -> str | None:
        """The header that leads to the run's span."""
        return self._roots.traceparent(run_id)

    def _tell_stretch(self, run_id: RunId, stretch: Stretch, settled_at: datetime) -> None:
        root = self._roots.of(run_id, stretch.traceparent, stretch.resumes)
        attributes = self._about(run_id, stretch.thread_id, stretch.agent) | {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": self._provider_name,
            "gen_ai.request.model": stretch.model,
            "umbel.step": stretch.step,
            "umbel.status": stretch.status,
        }
        if stretch.reason is not None:
            attributes["umbel.reason"] = stretch.reason
        with self._ids.given(root.context.trace_id, root.context.span_id):
            span = self._tracer.start_span(
                f"invoke_agent {stretch.agent}",
                context=_inside(root.parent),
                attributes=attributes,
                links=[Link(root.previous)] if root.previous else (),
                start_time=_nanoseconds(stretch.began_at),
            )
        if stretch.status == "failed":
            _fail(span, stretch.reason or "failed")
        span.end(_nanoseconds(settled_at))

    @contextmanager
    def _open(self, spec: RunSpec, told: Told) -> Iterator[Span]:
        """The span around a block; whatever ends the block ends it."""
        span = self._start(spec, told)
        try:
            yield span
        except BaseException as error:  # also a killed greenlet, or a read that is cut short
            _fail(span, type(error).__name__)
            raise
        finally:
            span.end()

    def _start(self, spec: RunSpec, told: Told) -> Span:
        try:
            root = self._roots.present(spec).context
            links = [Link(remote(root.trace_id, told.earlier, SAMPLED))] if told.earlier else ()
            with self._ids.given(root.trace_id, told.span_id):
                return self._tracer.start_span(
                    told.name,
                    context=_inside(root),
                    kind=told.kind,
                    attributes=told.attributes,
                    links=links,
                )
        except Exception as error:  # noqa: BLE001 - work must not fail because it is told of
            _note_loss(error)
            return INVALID_SPAN

    def _of_step(self, claim: Claim, spec: RunSpec, operation: str | None) -> dict[str, Value]:
        attributes = self._about(claim.run_id, claim.thread_id, spec.agent) | {
            "gen_ai.provider.name": self._provider_name,
            "gen_ai.request.model": spec.model,
            "umbel.step": claim.step,
            "umbel.attempt": claim.attempt,
            "umbel.fence": claim.fence,
        }
        return attributes | ({"gen_ai.operation.name": operation} if operation else {})

    @staticmethod
    def _about(run_id: str, thread_id: str, agent: str) -> dict[str, Value]:
        return {
            "gen_ai.conversation.id": thread_id,
            "gen_ai.agent.name": agent,
            "umbel.run_id": run_id,
        }


@dataclass(frozen=True, slots=True)
class _ModelSpan:
    span: Span
    content: Content

    def replied(self, reply: ModelTurn, given_up: AbortReason | None) -> None:
        """Usage, and how it ended."""
        usage = reply.usage
        found = {
            "gen_ai.response.model": reply.model,
            "gen_ai.response.id": reply.response_id,
            "gen_ai.response.finish_reasons": (reply.finish,) if reply.finish else None,
            "gen_ai.usage.input_tokens": usage.input_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
            "umbel.status": "failed" if reply.failure else "replied",
            **self.content.of_reply(reply),
        }
        self.span.set_attributes(
            {name: value for name, value in found.items() if value is not None}
        )
        if reply.failure is not None:
            is_ours = reply.failure.error_class == "aborted" and given_up is not None
            _fail(self.span, given_up if is_ours and given_up else reply.failure.error_class)


@dataclass(frozen=True, slots=True)
class _CallSpan:
    span: Span
    content: Content

    def ended(self, outcome: ToolOutcome) -> None:
        """What came of the call."""
        status = type(outcome).__name__.lower()
        self.span.set_attributes({"umbel.status": status, **self.content.of_outcome(outcome)})
        if isinstance(outcome, Errored | Refused | Unknown):
            _fail(self.span, status)


def _chat_id(claim: Claim, attempt: int) -> int:
    return derived_span_id("chat", claim.run_id, claim.step, attempt)


def _inside(parent: SpanContext | None) -> Context:
    """A context of ours alone: what else this thread has open is none of the run's business."""
    return Context() if parent is None else set_span_in_context(NonRecordingSpan(parent), Context())


def _fail(span: Span, error_type: str) -> None:
    """No description: an error's text may quote what people wrote."""
    span.set_attribute("error.type", error_type)
    span.set_status(StatusCode.ERROR)


def _note_loss(error: Exception) -> None:
    log.warning("span lost", extra={"cause": type(error).__name__})


def _nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000) * 1_000
