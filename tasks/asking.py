"""Asking the model: from the record to a whole reply, or to a stream that was given up."""

from loop.decision import Pause
from models.records import RunSpec
from models.steps import Claim, Exchange
from providers.contract import StreamHandle
from tasks.fitting import NotAsked, fit_request
from tasks.giving_back import book_reply
from tasks.runtime import Runtime
from tasks.streaming import Outgoing, StreamGivenUp, send, why_given_up
from umbel.faults import fault

_REFUSED_DETAIL = (
    "The endpoint refused this very request for its size, and nothing more can be left out of it. "
    "It is not sent again. Start a new run with a shorter request, or with a model of a larger "
    "window."
)


def ask_model(runtime: Runtime, claim: Claim, spec: RunSpec) -> Exchange:
    """Send this step's request and read the whole answer; no transaction, no connection is held.

    Raises:
        StreamGivenUp: what was read is booked; the caller hands the step back.
        NotAsked: the request cannot be made to fit; nothing was sent.
    """
    handle = StreamHandle()
    with runtime.claims.watching(claim, handle):  # from here on: a wake-up may come any moment
        return _ask(runtime, claim, spec, handle)


def _ask(runtime: Runtime, claim: Claim, spec: RunSpec, handle: StreamHandle) -> Exchange:
    fitted = fit_request(runtime, claim, spec, handle)
    provider = runtime.providers[spec.wire]
    form = provider.form()
    live = runtime.live(claim.run_id, claim.step, claim.attempt)
    outgoing = Outgoing(
        request=fitted.request,
        body=provider.render(fitted.request, form),
        manifest=fitted.manifest(claim, spec, form),
        attempt=claim.attempt,
        on_delta=live.add,
    )
    if claim.sent.is_refusal_at(claim.step) and outgoing.sha == claim.sent.request_sha:
        raise NotAsked(Pause("context_capacity", _REFUSED_DETAIL))
    fault("model.in_flight", run_id=claim.run_id, step=str(claim.step))
    exchange = send(runtime, claim, spec, handle, outgoing)
    live.flush()
    reason = why_given_up(exchange, handle)
    if reason is not None:
        book_reply(runtime, claim, exchange, discard=True)
        raise StreamGivenUp(reason)
    return exchange
