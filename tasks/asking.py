"""Asking the model: from the record to a whole reply, or to a stream that was given up."""

import hashlib
import time

from loop.transcript import RequestManifest, build_request
from models.records import RunSpec, load_record
from models.steps import Claim, Exchange
from providers.contract import AbortReason, StreamControl, StreamHandle
from tasks.giving_back import book_reply
from tasks.runtime import Runtime
from umbel.faults import fault


class StreamGivenUp(Exception):
    """The stream was ended from outside: the step belongs to another worker or another moment."""


def ask_model(runtime: Runtime, claim: Claim, spec: RunSpec) -> Exchange:
    """Send this step's request and read the whole answer; no transaction, no connection is held.

    Raises:
        StreamGivenUp: what was read is booked; the caller hands the step back.
    """
    handle = StreamHandle()
    with runtime.claims.watching(claim, handle):  # from here on: a wake-up may come any moment
        return _ask(runtime, claim, spec, handle)


def _ask(runtime: Runtime, claim: Claim, spec: RunSpec, handle: StreamHandle) -> Exchange:
    request = build_request(load_record(runtime.database, spec, claim.step, claim.steers))
    provider = runtime.providers[spec.wire]
    form = provider.form()
    body = provider.render(request, form)
    manifest = RequestManifest(
        policy_sha=spec.policy_sha,
        tools_sha=spec.tools_sha,
        through_step=claim.step - 1,
        steers=claim.steers,
        form=form,
    )
    live = runtime.live(claim.run_id, claim.step, claim.attempt)
    control = StreamControl(
        handle=handle,
        limits=runtime.limits,
        on_delta=live.add,
        watch=_StreamWatch(runtime, claim),
        request_id=f"{claim.run_id}:s{claim.step}:a{claim.attempt}",
    )
    fault("model.in_flight", run_id=claim.run_id, step=str(claim.step))
    with runtime.tracer.model_call(claim, spec, request) as span:
        reply = provider.stream(request, body, control)
        span.replied(reply, handle.reason)
    live.flush()
    runtime.meter.model_replied(spec.model, reply)
    exchange = Exchange(
        reply,
        provider.endpoint_name,
        manifest.model_dump_json(),
        hashlib.sha256(body).digest(),
    )
    # A reply that was whole before the end of its stream came through is a reply.
    is_aborted = reply.failure is not None and reply.failure.error_class == "aborted"
    if is_aborted and handle.reason is not None:
        book_reply(runtime, claim, exchange, discard=True)
        raise StreamGivenUp(handle.reason)
    return exchange


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
