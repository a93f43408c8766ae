"""The request of a step, made to fit its model's window: nothing too large is ever sent."""

from dataclasses import dataclass, replace
from typing import assert_never

from loop.budget import after_refusal, budget_of
from loop.decision import Pause
from loop.reducing import Cuts, Fits, Reducing, Scale, TooLarge, plan_request, refused_weight
from loop.request import ModelRequest
from loop.shape import Shape
from loop.transcript import RequestManifest, RunRecord, build_request
from loop.weight import Weight, weigh
from models.records import RunSpec, load_record
from models.sent import load_shape_before
from models.steps import Claim
from providers.contract import RequestForm, StreamHandle
from tasks.compacting import Compaction, compact
from tasks.runtime import Runtime
from umbel.errors import InvariantBroken


class NotAsked(Exception):
    """Nothing was sent: the run must pause before its model is asked."""

    def __init__(self, pause: Pause) -> None:
        super().__init__(pause.detail)
        self.pause = pause


@dataclass(frozen=True, slots=True)
class FittedRequest:
    """A request that its model can take."""

    request: ModelRequest
    shape: Shape
    weight: Weight
    refused: Weight | None
    """The lightest request of the run that its endpoint refused for its size."""

    def manifest(self, claim: Claim, spec: RunSpec, form: RequestForm) -> RequestManifest:
        """Everything it was built from."""
        return RequestManifest(
            policy_sha=spec.policy_sha,
            tools_sha=spec.tools_sha,
            through_step=claim.step - 1,
            steers=claim.steers,
            mistake=claim.sent.mistake_at(claim.step),
            source_rev=claim.source_rev,
            shape=self.shape,
            weight=self.weight,
            refused=self.refused,
            form=form,
        )


def fit_request(
    runtime: Runtime, claim: Claim, spec: RunSpec, handle: StreamHandle
) -> FittedRequest:
    """This step's request, reduced if need be; a summary that it needs is asked for.

    Raises:
        NotAsked: it does not fit whatever is left out.
        StreamGivenUp: the stream of a summary was ended from outside, or the run has moved on.
    """
    refused = _refused(claim)
    scale = _scale(runtime, spec, refused)
    shape = _shape_before(runtime, claim, spec)
    mistake = claim.sent.mistake_at(claim.step)
    record = load_record(runtime.database, spec, claim.step, claim.steers, shape, claim.source_rev)
    record = replace(record, mistake=mistake)
    reducers = spec.policy.reducers
    plan = plan_request(_reducing(record, scale, spec), shape, reducers)
    if isinstance(plan, Cuts):
        compaction = Compaction(runtime, claim, spec, handle, scale)
        record, shape = compact(compaction, plan)
        record = replace(record, mistake=mistake)
        rest = tuple(name for name in reducers if name != "cut")
        plan = plan_request(_reducing(record, scale, spec), shape, rest)
    match plan:
        case Fits(shape=shape):
            request = build_request(record, shape)
            return FittedRequest(request, shape, weigh(request), refused)
        case TooLarge(detail=detail):
            raise NotAsked(Pause("context_capacity", detail))
        case Cuts():
            raise InvariantBroken("A request was cut, and was to be cut again.")
        case _:
            assert_never(plan)


def _refused(claim: Claim) -> Weight | None:
    """What the endpoint has refused so far, with the request right before this one."""
    manifest = claim.sent.manifest
    if manifest is None:
        return None
    if claim.sent.is_refusal_at(claim.step) and manifest.weight is not None:
        return refused_weight(manifest.refused, manifest.weight)
    return manifest.refused


def _shape_before(runtime: Runtime, claim: Claim, spec: RunSpec) -> Shape:
    """What the request before this one left out; a thread's next run goes on from there."""
    sent = claim.sent
    if spec.has_company and sent.manifest_text is None and sent.summary is None:
        return load_shape_before(runtime.database, claim.run_id, claim.thread_id)
    return sent.shape()


def _scale(runtime: Runtime, spec: RunSpec, refused: Weight | None) -> Scale:
    rate = runtime.rates.of(runtime.database, spec.model)
    budget = budget_of(spec.policy, spec.window_tokens, spec.reserve_tokens)
    if refused is not None:
        budget = after_refusal(budget, spec.policy, refused, rate)
    return Scale(budget, rate)


def _reducing(record: RunRecord, scale: Scale, spec: RunSpec) -> Reducing:
    return Reducing(record, scale, spec.policy.protected_steps)
