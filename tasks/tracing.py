"""Traces, seen from where work is done: a protocol that costs nothing when it is off.

Spans are made at three places: the model call, the tool call, and where a run settles.
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager as Block
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final, Protocol

from loop.outcome import ToolOutcome
from loop.request import ModelRequest
from loop.response import ModelTurn
from models.calls import Started
from models.database import Database
from models.records import RunSpec
from models.steps import Claim
from providers.contract import AbortReason
from umbel.contracts import RunId
from umbel.errors import Misconfigured
from umbel.settings import Settings

_NEEDED: Final = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


class ModelSpan(Protocol):
    """A model call that is under way."""

    def replied(self, reply: ModelTurn, given_up: AbortReason | None) -> None:
        """What came of it; `given_up`: why this worker ended the stream."""
        ...


class CallSpan(Protocol):
    """A tool call that is under way."""

    def ended(self, outcome: ToolOutcome) -> None:
        """What came of it."""
        ...


class Tracer(Protocol):
    """Tells what a process does. Never fails and never waits for whoever is told."""

    def model_call(self, claim: Claim, spec: RunSpec, request: ModelRequest) -> Block[ModelSpan]:
        """Around an attempt to get a reply."""
        ...

    def reply_applied(self, claim: Claim, spec: RunSpec) -> None:
        """A reply that an earlier claim paid for is applied now."""
        ...

    def tool_call(self, started: Started, spec: RunSpec) -> Block[CallSpan]:
        """Around the code of a tool."""
        ...

    def run_settled(self, run_id: RunId) -> None:
        """This process has settled the run, in a transaction that is committed."""
        ...

    def traceparent(self, run_id: str) -> str | None:
        """The header that leads to a run this process is at; None: it knows of none."""
        ...

    def finish(self) -> None:
        """Send what is left, for two seconds at most."""
        ...


class NoTracer:
    """Tells nobody; also its own spans."""

    @contextmanager
    def model_call(
        self, _claim: Claim, _spec: RunSpec, _request: ModelRequest
    ) -> Iterator[ModelSpan]:
        """Nothing around it."""
        yield self

    def reply_applied(self, _claim: Claim, _spec: RunSpec) -> None:
        """Nothing."""

    @contextmanager
    def tool_call(self, _started: Started, _spec: RunSpec) -> Iterator[CallSpan]:
        """Nothing around it."""
        yield self

    def run_settled(self, _run_id: RunId) -> None:
        """Nothing."""

    def traceparent(self, _run_id: str) -> str | None:
        """No header."""
        return None

    def finish(self) -> None:
        """Nothing is left."""

    def replied(self, _reply: ModelTurn, _given_up: AbortReason | None) -> None:
        """Nothing."""

    def ended(self, _outcome: ToolOutcome) -> None:
        """Nothing."""


def check_tracing(settings: Settings) -> None:
    """Refuse settings that no process could trace with; does nothing while traces are off.

    Raises:
        Misconfigured: traces are on, and the extra is missing or the protocol is another one.
    """
    if not settings.traces:
        return
    if not all(map(_is_installed, _NEEDED)):
        raise Misconfigured(
            'UMBEL_TRACES is on and OpenTelemetry is not installed: pip install "umbel[otel]", '
            "or unset UMBEL_TRACES."
        )
    protocol = next((os.environ[name] for name in _PROTOCOLS if os.environ.get(name)), "")
    if protocol not in ("", "http/protobuf"):
        raise Misconfigured(
            f"The OTLP protocol {protocol!r} is not supported: unset "
            f"{' and '.join(_PROTOCOLS)}, and let OTEL_EXPORTER_OTLP_ENDPOINT name the "
            "collector's HTTP port, such as http://127.0.0.1:4318."
        )


def make_tracer(settings: Settings, database: Database, *, role: str, instance: str) -> Tracer:
    """The tracer of this process; made after fork, because its sender is a thread.

    Raises:
        Misconfigured: as `check_tracing`, or a variable OTEL_* has a wrong value.
    """
    if not settings.traces:
        return NoTracer()
    check_tracing(settings)
    from tasks.tracing_export import otel_tracer

    return otel_tracer(settings, database, role=role, instance=instance)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a package above it
        return False
