"""Whole steps give way to a summary: asked for, booked, and applied if nothing has moved.

The request for it has a row of its own among the step's model calls, opened before it is sent. A
summary that does not come, or is none, costs the words of what is left out and nothing else: the
record keeps all, and the run goes on with a plain cut.
"""

import hashlib
import logging
from dataclasses import dataclass
from typing import Final

from loop.cutting import LeftOut, kept_from, left_out_before
from loop.reducing import Cuts, Scale
from loop.shape import Shape, Sources
from loop.summarising import (
    plain_text,
    sources_before,
    sources_text,
    summary_request,
    unresolved_in,
    what_is_wrong,
)
from loop.transcript import RecordedSummary, RequestManifest, RunRecord
from loop.weight import weigh
from models.records import RunSpec, load_record
from models.steps import Claim, Exchange
from models.summaries import NewSummary, apply_summary, book_summary_call, open_summary_call
from providers.contract import StreamHandle
from tasks.persisting import persist
from tasks.runtime import Runtime
from tasks.streaming import Outgoing, StreamGivenUp, send, why_given_up
from umbel.faults import fault

log: Final = logging.getLogger(__name__)

Asked = tuple[int, Exchange]
"""Attempt and exchange of a request for a summary."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """One step whose request needs a cut."""

    runtime: Runtime
    claim: Claim
    spec: RunSpec
    handle: StreamHandle
    scale: Scale

    def load(self, shape: Shape) -> RunRecord:
        """The record in a shape."""
        claim, database = self.claim, self.runtime.database
        return load_record(database, self.spec, claim.step, claim.steers, shape, claim.source_rev)

    def reach(self, point: str) -> None:
        """A fault point of this run."""
        fault(point, run_id=self.claim.run_id, step=str(self.claim.step))


def compact(compaction: Compaction, cuts: Cuts) -> tuple[RunRecord, Shape]:
    """The record and the shape once everything before the cut is left out.

    Raises:
        StreamGivenUp: the stream was ended from outside, or the run has moved on meanwhile.
    """
    whole = Shape(summary=cuts.shape.summary, first_kept=cuts.shape.first_kept)
    record = compaction.load(whole)
    scale = compaction.scale
    sources = sources_before(record, cuts.first_kept, scale.budget, scale.bytes_per_token)
    asked = None if sources is None else _ask(compaction, record, sources, whole)
    try:
        new = _new_summary(compaction, record, cuts, sources, asked)
        _apply(compaction, new, asked)
    except BaseException:
        if asked is not None:  # paid for, whatever has happened here
            persist(
                lambda: book_summary_call(compaction.runtime.database, compaction.claim, *asked)
            )
        raise
    update = {"summary": new.summary_id, "first_kept": new.first_kept}
    shape = cuts.shape.model_copy(update=update)
    return compaction.load(shape), shape


def _apply(compaction: Compaction, new: NewSummary, asked: Asked | None) -> None:
    """Let the summary stand in the run's requests.

    Raises:
        StreamGivenUp: the run has moved on; what was paid for is booked.
    """
    claim, database = compaction.claim, compaction.runtime.database
    if asked is not None:
        compaction.reach("compact.answered")
    is_applied = persist(lambda: apply_summary(database, claim, new, asked))
    compaction.reach("compact.post_commit")
    if not is_applied:
        raise StreamGivenUp("steer")  # whatever it was: the next claim sees it
    if new.cause is not None:
        log.warning(
            "steps left out without a summary",
            extra={"run_id": claim.run_id, "step_no": claim.step, "cause": new.cause[:200]},
        )


def _ask(compaction: Compaction, record: RunRecord, sources: Sources, shape: Shape) -> Asked:
    """The exchange for a summary, under a row of its own.

    Raises:
        StreamGivenUp: the stream was ended from outside, and is booked; or the claim is over.
    """
    runtime, claim, spec = compaction.runtime, compaction.claim, compaction.spec
    attempt = persist(lambda: open_summary_call(runtime.database, claim))
    if attempt is None:
        raise StreamGivenUp("steer")  # whatever it was: the next claim sees it
    provider = runtime.providers[spec.wire]
    form = provider.form()
    request = summary_request(record, left_out_before(record, sources.before), sources)
    manifest = RequestManifest(
        policy_sha=spec.policy_sha,
        tools_sha=spec.tools_sha,
        through_step=claim.step - 1,
        steers=claim.steers,
        source_rev=claim.source_rev,
        shape=shape,
        weight=weigh(request),
        sources=sources,
        form=form,
    )
    body = provider.render(request, form)
    outgoing = Outgoing(request, body, manifest, attempt, on_delta=lambda _kind, _text: None)
    compaction.reach("compact.in_flight")
    exchange = send(runtime, claim, spec, compaction.handle, outgoing)
    reason = why_given_up(exchange, compaction.handle)
    if reason is not None:
        persist(lambda: book_summary_call(runtime.database, claim, attempt, exchange))
        raise StreamGivenUp(reason)
    return attempt, exchange


def _new_summary(
    compaction: Compaction,
    record: RunRecord,
    cuts: Cuts,
    sources: Sources | None,
    asked: Asked | None,
) -> NewSummary:
    """What is to stand for everything before the cut."""
    sent, scale = compaction.claim.sent, compaction.scale
    left_out = left_out_before(record, cuts.first_kept)
    cause: str | None = "what is left out does not fit into a request"
    if asked is not None:
        cause = what_is_wrong(asked[1].reply, scale.budget, scale.bytes_per_token)
    is_summary = asked is not None and cause is None
    text = asked[1].reply.text.strip() if asked and is_summary else plain_text(left_out)
    unresolved = unresolved_in(left_out)
    kept = kept_from(record, cuts.first_kept, RecordedSummary(text, unresolved))
    return NewSummary(
        summary_id=NewSummary.new_id(),
        number=sent.summaries + 1,
        previous=cuts.shape.summary,
        kind="summary" if is_summary else "trim",
        first_kept=cuts.first_kept,
        steers=kept.summary.steers if kept.summary else 0,
        text=text,
        unresolved=unresolved,
        source_sha=_sha_of(left_out, sources) if sources else None,
        cause=cause,
    )


def _sha_of(left_out: LeftOut, sources: Sources) -> bytes:
    return hashlib.sha256(sources_text(left_out, sources.chars).encode()).digest()
