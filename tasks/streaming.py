"""One request on its way: sent, streamed, measured, or given up from outside."""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from loop.request import ModelRequest
from loop.transcript import RequestManifest
from models.records import RunSpec
from models.steps import Claim, Exchange
from providers.contract import AbortReason, DeltaKind, StreamControl, StreamHandle
from tasks.runtime import Runtime


class StreamGivenUp(Exception):
    """The stream was ended from outside: the step belongs to another worker or another moment."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request that is about to be sent."""

    request: ModelRequest
    body: bytes
    manifest: RequestManifest
    attempt: int
    """The row that it is accounted in."""
    on_delta: Callable[[DeltaKind, str], None]

    @property
    def sha(self) -> bytes:
        """SHA-256 of the body."""
        return hashlib.sha256(self.body).digest()


def send(
    runtime: Runtime, claim: Claim, spec: RunSpec, handle: StreamHandle, outgoing: Outgoing
) -> Exchange:
    """Send a request and read the whole answer; no transaction, no connection is held."""
    provider = runtime.providers[spec.wire]
    control = StreamControl(
        handle=handle,
        limits=runtime.limits,
        on_delta=outgoing.on_delta,
        watch=_StreamWatch(runtime, claim),
        request_id=f"{claim.run_id}:s{claim.step}:a{outgoing.attempt}",
    )
    asked = replace(claim, attempt=outgoing.attempt)
    with runtime.tracer.model_call(asked, spec, outgoing.request) as span:
        reply = provider.stream(outgoing.request, outgoing.body, control)
        span.replied(reply, handle.reason)
    runtime.meter.model_replied(spec.model, reply)
    if outgoing.manifest.weight is not None:
        runtime.rates.learn(spec.model, outgoing.manifest.weight, reply.usage)
    manifest = outgoing.manifest.model_dump_json()
    return Exchange(reply, provider.endpoint_name, manifest, outgoing.sha)


def why_given_up(exchange: Exchange, handle: StreamHandle) -> AbortReason | None:
    """Why a stream was ended from outside; one whose reply was whole by then is a reply."""
    failure = exchange.reply.failure
    is_aborted = failure is not None and failure.error_class == "aborted"
    return handle.reason if is_aborted else None


class _StreamWatch:
    """Asked every second while the model speaks: may this worker go on?"""

    def __init__(self, runtime: Runtime, claim: Claim) -> None:
        self._runtime = runtime
        self._claim = claim
        self._token = f"{claim.worker} {claim.run_id}"
        self._renewed_at = time.monotonic()

    def __call__(self) -> AbortReason | None:
        runtime, now = self._runtime, time.monotonic()
        if now - self._renewed_at >= runtime.locks.renew_seconds:
            self._renewed_at = now
            runtime.locks.renew(self._claim.run_id, self._token)
        if runtime.is_presence_lost():
            runtime.meter.presence_lost()
            return "lease_lost"
        if runtime.draining.is_set():
            return "drain"
        return runtime.claims.news(self._claim)
