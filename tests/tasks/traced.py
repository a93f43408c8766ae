"""A worker process whose spans are kept, and short looks at them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Sampler
from opentelemetry.trace import SpanContext

from loop.response import ModelTurn, Usage
from tasks.tracing_content import Content
from tasks.tracing_roots import GivenIds
from tasks.tracing_spans import OtelTracer
from tests.factories import RunWish, a_run, a_tool
from tests.tasks.process import Process, asked
from tools.definition import Tool
from umbel.contracts import RunId
from umbel.redaction import Redactor

CALLER: Final = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
FREELY: Final = {"permission_mode": "full_access"}
SECRET: Final = "sk-planted-0123456789"


class Traced:
    """A process whose spans are kept."""

    def __init__(
        self,
        process: Process,
        *,
        content: bool = False,
        sampler: Sampler | None = None,
        exporter: InMemorySpanExporter | None = None,
    ) -> None:
        self.exporter = exporter or InMemorySpanExporter()
        ids = GivenIds()
        provider = TracerProvider(sampler=sampler, id_generator=ids, shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = OtelTracer(
            provider,
            ids,
            process.runtime.database,
            provider_name="scripted",
            content=Content(Redactor([SECRET]), is_on=content),
            finish=provider.shutdown,
        )
        process.runtime = replace(process.runtime, tracer=self.tracer)
        self.process = process

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def named(self, beginning: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name.startswith(beginning)]

    def one(self, beginning: str) -> ReadableSpan:
        [span] = self.named(beginning)
        return span


def look(function: Callable[..., object] | None = None) -> Tool:
    return a_tool("look", function)


def write() -> Tool:
    return a_tool("write", lambda **_: "planted-result", effect="mutation")


def a_traced_run(traced: Traced, *turns: ModelTurn) -> RunId:
    """A run with both tools, carried to its end by a process whose spans are kept."""
    return carried(traced.process, *turns)


def carried(process: Process, *turns: ModelTurn) -> RunId:
    """A run with all tools of a process, carried to its end."""
    tools = tuple(process.runtime.registry.select(None))
    wish = RunWish(input="planted-request", tools=tools, policy=FREELY)
    run = a_run(process.runtime.database, wish)
    process.model.script.extend(turns)
    process.step(run.run_id)
    process.carry_all()
    return run.run_id


def context_of(span: ReadableSpan) -> SpanContext:
    context: SpanContext | None = span.context
    assert context is not None
    return context


def told(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def parent_id(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent else None


def linked(span: ReadableSpan) -> list[int]:
    return [link.context.span_id for link in span.links]


TURNS: Final = (
    asked(("look", '{"a":"planted-argument"}'), ("write", "{}")),
    ModelTurn(
        text="planted-answer",
        usage=Usage(input_tokens=11, output_tokens=3, total_tokens=14),
        finish="stop",
        model="scripted-2",
    ),
)
