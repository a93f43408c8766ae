"""How spans leave a process: OTLP over HTTP, from a thread of its own, by the variables OTEL_*.

A collector that is away costs spans and nothing else: the queue is bounded and drops, nobody waits
for it, and its complaints are logged once a minute.
"""

import logging
import os
import time
from threading import Thread
from typing import Final
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from models.database import Database
from providers.profiles import DEFAULT_BASE_URL
from tasks.log_setup import secrets_of
from tasks.tracing_content import Content
from tasks.tracing_roots import GivenIds
from tasks.tracing_spans import OtelTracer
from umbel.errors import Misconfigured
from umbel.redaction import Redactor
from umbel.settings import Settings

_FLUSH_SECONDS: Final = 2.0
_QUIET_SECONDS: Final = 60.0
COMPLAINERS: Final = (
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.sdk._shared_internal",
    "tasks.tracing_spans",
)
_PROVIDERS: Final = {
    "api.openai.com": "openai",
    "api.deepseek.com": "deepseek",
    "api.groq.com": "groq",
    "api.mistral.ai": "mistral_ai",
    "api.perplexity.ai": "perplexity",
    "api.x.ai": "x_ai",
}
"""Names that the conventions give; any other endpoint is named by its host."""


def otel_tracer(settings: Settings, database: Database, *, role: str, instance: str) -> OtelTracer:
    """A tracer that sends to the collector of the environment.

    Raises:
        Misconfigured: a variable OTEL_* has a wrong value.
    """
    ids = GivenIds()
    redact = Redactor(secrets_of(settings, os.environ))
    try:
        provider = TracerProvider(
            resource=_resource(role, instance), id_generator=ids, shutdown_on_exit=False
        )
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    except ValueError as error:
        raise Misconfigured(f"A variable OTEL_* has a wrong value: {error}") from error
    limit_complaints()
    return OtelTracer(
        provider,
        ids,
        database,
        provider_name=provider_name(settings.model_base_url or DEFAULT_BASE_URL),
        content=Content(redact, is_on=settings.trace_content),
        finish=lambda: shut_down(provider),
    )


def provider_name(base_url: str) -> str:
    """What `gen_ai.provider.name` says of an endpoint."""
    host = urlsplit(base_url).hostname or ""
    return _PROVIDERS.get(host, host)


def shut_down(provider: TracerProvider) -> None:
    """Send what is left; a collector that does not answer is left behind after two seconds."""
    ending = Thread(target=provider.shutdown, name="umbel-traces-end", daemon=True)
    ending.start()
    ending.join(_FLUSH_SECONDS)


def limit_complaints() -> None:
    """Let what is logged about lost spans through once a minute."""
    for name in COMPLAINERS:
        logger = logging.getLogger(name)
        if not any(isinstance(known, _Rarely) for known in logger.filters):
            logger.addFilter(_Rarely())


class _Rarely(logging.Filter):
    """Passes one record, then none for a minute."""

    def __init__(self) -> None:
        super().__init__()
        self._quiet_until = 0.0

    def filter(self, record: logging.LogRecord) -> bool:  # noqa: ARG002 - whatever it says
        now = time.monotonic()
        if now < self._quiet_until:
            return False
        self._quiet_until = now + _QUIET_SECONDS
        return True


def _resource(role: str, instance: str) -> Resource:
    """Who sends; what the environment says about it wins."""
    ours = {"service.name": "umbel", "service.instance.id": instance, "umbel.role": role}
    return Resource.create({**ours, **OTELResourceDetector().detect().attributes})
