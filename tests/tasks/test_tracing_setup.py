"""Switching traces on and off, and a collector that is not there."""

import logging
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from celery import Celery, signals
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, use_span

from models.database import Database
from tasks import tracing
from tasks.ringing import Ringer
from tasks.traceparent import parse_traceparent
from tasks.tracing import check_tracing, make_tracer
from tasks.tracing_export import COMPLAINERS, limit_complaints, otel_tracer, provider_name
from tests.models.story import query, run_row
from tests.services import Place
from tests.tasks.process import a_process, asked, said
from tests.tasks.traced import CALLER, Traced, carried, context_of, look, write
from umbel.contracts import CallId, RunId
from umbel.errors import Misconfigured
from umbel.log_context import bound
from umbel.service import Service
from umbel.settings import Settings

NOWHERE = "http://127.0.0.1:1"


def traced_settings(**more: Any) -> Settings:
    return Settings(traces=True, **more)


def test_traces_that_are_off_need_nothing_of_opentelemetry() -> None:
    # Blocked, not looked for: where it is installed, redis-py imports a part of it by itself.
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from umbel.settings import Settings\n"
        "from umbel.service import Service\n"
        "import tasks.app, tasks.beat, tasks.traceparent\n"
        "from tasks.tracing import NoTracer, make_tracer\n"
        "s = Settings(database_url='postgresql://h/d', redis_url='redis://h')\n"
        "tasks.app.make_app(s); Service(s).close()\n"
        "assert tasks.traceparent.current_traceparent() is None\n"
        "assert isinstance(make_tracer(s, None, role='step', instance='w'), NoTracer)\n"
        "print([m for m in sys.modules if m.startswith('opentelemetry')])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "['opentelemetry']"


def test_traces_without_the_extra_are_refused_with_the_command_that_helps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tracing, "_NEEDED", ("opentelemetry.not_there.at_all",))
    check_tracing(Settings())
    with pytest.raises(Misconfigured, match=r'pip install "umbel\[otel\]"'):
        check_tracing(traced_settings())


def test_a_protocol_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with pytest.raises(Misconfigured, match="4318"):
        check_tracing(traced_settings())
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf")
    check_tracing(traced_settings())


def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch, database: Database) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "0")
    with pytest.raises(Misconfigured, match="max_queue_size"):
        make_tracer(traced_settings(), database, role="step", instance="wrk_1")


def test_what_the_environment_says_of_the_service_wins(
    monkeypatch: pytest.MonkeyPatch, database: Database
) -> None:
    def service() -> object:
        tracer = otel_tracer(traced_settings(), database, role="step", instance="wrk_1")
        provider = tracer._tracer
        tracer.finish()
        return provider.resource.attributes["service.name"]  # type: ignore[attr-defined]

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", NOWHERE)
    assert service() == "umbel"
    monkeypatch.setenv("OTEL_SERVICE_NAME", "agents")
    assert service() == "agents"


def test_endpoints_have_the_names_of_the_conventions() -> None:
    assert provider_name("https://api.openai.com/v1") == "openai"
    assert provider_name("http://key:secret@models.local:8000/v1") == "models.local"


def test_a_collector_that_is_away_fails_no_work_and_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", NOWHERE)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "4")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2")
    process = a_process(database, look(), write())
    tracer = otel_tracer(traced_settings(), database, role="step", instance="wrk_1")
    process.runtime = replace(process.runtime, tracer=tracer)
    with caplog.at_level(logging.INFO):
        run_id = carried(process, *[asked(("look", "{}"))] * 10, said())
        began = time.monotonic()
        tracer.finish()
    assert time.monotonic() - began < 3
    assert run_row(database, run_id)["status"] == "completed"
    complaints = [r for r in caplog.records if r.name.startswith("opentelemetry")]
    assert len(complaints) <= 2, "one a minute of sender and queue each"


def test_complaints_are_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger(COMPLAINERS[0])
    logger.filters[:] = []
    limit_complaints()
    limit_complaints()
    assert len(logger.filters) == 1
    for _ in range(50):
        logger.error("collector away")
    assert len(caplog.records) == 1
    logger.filters[:] = []


def published(ringing: Callable[[Ringer], object], known: dict[str, str]) -> dict[str, Any]:
    """The headers of the message that is rung."""
    found: list[dict[str, Any]] = []

    def keep(headers: dict[str, Any], **_: object) -> None:
        found.append(headers)

    signals.before_task_publish.connect(keep)
    try:
        ringing(Ringer(Celery("unused", broker="memory://", set_as_current=False), None, known.get))
    finally:
        signals.before_task_publish.disconnect(keep)
    [headers] = found
    return headers


def test_messages_lead_celerys_instrumentations_to_the_run() -> None:
    known = {"run_1": CALLER}
    step = published(lambda ringer: ringer.ring_step(RunId("run_1"), 1), known)
    assert step["traceparent"] == CALLER
    assert "traceparent" not in published(lambda r: r.ring_step(RunId("run_2"), 1), known)
    assert "traceparent" not in published(lambda r: r.ring_call(CallId("call_1"), "look"), known)
    with bound(run_id="run_1"):
        call = published(lambda ringer: ringer.ring_call(CallId("call_1"), "look"), known)
    assert call["traceparent"] == CALLER


def test_a_process_knows_the_header_of_the_runs_it_is_at(database: Database) -> None:
    traced = Traced(a_process(database, look(), write()))
    run_id = carried(traced.process, said())
    root = context_of(traced.one("invoke_agent"))
    assert traced.tracer.traceparent(run_id) == f"00-{root.trace_id:032x}-{root.span_id:016x}-01"
    assert traced.tracer.traceparent("run_other") is None


def test_the_service_keeps_the_given_trace_or_the_one_that_is_open(place: Place) -> None:
    settings = Settings(
        database_url=place.database_url,
        redis_url=place.redis_url,
        redis_prefix=place.redis_prefix,
        model="scripted",
    )
    other = CALLER.replace("0af7", "1af7")
    context = parse_traceparent(other)
    assert context is not None
    span = SpanContext(
        context.trace_id, context.span_id, is_remote=False, trace_flags=TraceFlags(1)
    )
    with Service(settings) as umbel:
        none = umbel.enqueue("Go.")
        given = umbel.enqueue("Go.", traceparent=CALLER)
        with use_span(NonRecordingSpan(span)):
            found = umbel.enqueue("Go.")
            both = umbel.enqueue("Go.", traceparent=CALLER)
        kept = {
            row["run_id"]: row["traceparent"]
            for row in query(umbel._database, "SELECT run_id, traceparent FROM run_specs")
        }
    assert kept == {none: None, given: CALLER, found: other, both: CALLER}
