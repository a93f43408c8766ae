"""One step: claim, build the request, ask the model, decide, write it all down in one commit."""

import logging
from dataclasses import dataclass, field, replace
from typing import Final, assert_never

from loop.decide import RunSnapshot, decide
from loop.decision import Answer, Decision, Discard, Dispatch, Pause, Retry
from loop.repetition import steps_to_look_at
from loop.response import Text, response_of
from models.recent_calls import load_cut_texts, load_recent_calls
from models.records import RunSpec
from models.steps import (
    Applied,
    Claim,
    Exchange,
    claim_step,
    commit_answer,
    commit_dispatch,
    commit_pause,
    commit_retry,
    is_step_ready,
)
from tasks.asking import ask_model
from tasks.authority import permission_check, why_denied
from tasks.fitting import NotAsked
from tasks.giving_back import (
    book_reply,
    fail_run,
    hand_back,
    pause_unsent,
    put_off,
    release_own,
)
from tasks.persisting import persist
from tasks.planning import pause_after_mistakes, plan_calls
from tasks.refreshing import refresh
from tasks.runtime import Runtime
from tasks.step_line import line_of
from tasks.streaming import StreamGivenUp
from umbel.contracts import Principal, RunId
from umbel.errors import ContractMismatch, InvariantBroken, Unavailable
from umbel.faults import fault
from umbel.log_context import bind
from umbel.names import STEP, Reason, RunStatus

log: Final = logging.getLogger(__name__)

MAX_CLAIMS: Final = 5
"""Times a step may end in an unexpected error before its run fails."""


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """What a step left to do, and its line for people."""

    summary: str
    applied: Applied = field(default_factory=Applied)


def run_step(runtime: Runtime, run_id: RunId, step: int) -> str:
    """Carry a run through one step, if it is due; a line that says what happened.

    Safe to call any number of times, late, or on several workers at once.
    """
    if runtime.draining.is_set():
        runtime.ringer.ring_step(run_id, step)  # this message was somebody's only one
        return "left to others: this worker is about to end"
    with runtime.carried.enter(run_id) as is_first:
        if not is_first:
            runtime.meter.idle(STEP)
            return "carried by this worker already"
        outcome = _run_alone(runtime, run_id, step)
    # Only now: this very process may hear the bell while it still rings.
    _ring(runtime, run_id, outcome.applied)
    fault("step.rung", run_id=run_id, step=str(step))
    return outcome.summary


def _run_alone(runtime: Runtime, run_id: RunId, step: int) -> StepOutcome:
    """The step, with no other code of this process at the same run."""
    token = f"{runtime.worker} {run_id}"
    if not runtime.locks.acquire(run_id, token) and not is_step_ready(
        runtime.database, run_id, step
    ):
        # A ready run under a lock has lost its holder after the commit: PostgreSQL decides.
        runtime.meter.idle(STEP)
        return StepOutcome("held by another worker")
    try:
        with runtime.claims.expecting(run_id):
            return _claim_and_carry(runtime, run_id, step)
    finally:
        # Before ringing: whoever hears the bell must find the lock free.
        runtime.locks.release(run_id, token)


def _claim_and_carry(runtime: Runtime, run_id: RunId, step: int) -> StepOutcome:
    """The step, unless it has cost a worker and another one like it is at work in this process."""
    may_risk = runtime.risk.acquire(blocking=False)
    try:
        claim = _claim(runtime, run_id, step, may_risk=may_risk)
        if may_risk and (claim is None or claim.losses == 0):
            runtime.risk.release()
            may_risk = False
        if claim is None:
            runtime.meter.idle(STEP)
            return StepOutcome("nothing to do")
        return _carry_claimed(runtime, claim)
    finally:
        if may_risk:
            runtime.risk.release()


def _claim(runtime: Runtime, run_id: RunId, step: int, *, may_risk: bool) -> Claim | None:
    database, worker = runtime.database, runtime.worker
    try:
        fault("step.locked", run_id=run_id, step=str(step))
        claim = claim_step(database, run_id, step, worker, replace(runtime.duty, may_risk=may_risk))
        if claim is not None:
            fault("step.claim_committed", run_id=run_id, step=str(step))
    except BaseException as error:  # an outage, or this greenlet was killed: the process lives on
        # The claim may have been committed and only its answer lost: a run held by a living worker
        # that does not know of it would wait for ever.
        release_own(runtime, run_id, step)
        if isinstance(error, Exception) and not isinstance(error, Unavailable):
            put_off(runtime, run_id, step)
        raise
    return claim


def _carry_claimed(runtime: Runtime, claim: Claim) -> StepOutcome:
    run_id, step = claim.run_id, claim.step
    bind(run_id=run_id, step_no=step, fence=claim.fence)
    try:
        fault("step.claimed", run_id=run_id, step=str(step))
        with runtime.meter.step(claim.waited_seconds):
            return _carry(runtime, claim)
    except StreamGivenUp as given_up:
        detail = str(given_up)
        # At a drain hundreds end at once: the sweeper's next tick rings for them all.
        back = hand_back(runtime, claim, wait_seconds=0, detail=detail, is_failure=False)
        # Its author waits for the next request, or it has just lost its ground.
        is_due = back is not None and back.ended is None and detail in ("steer", "source")
        return StepOutcome(f"handed back: {detail}", Applied(next_step=step if is_due else None))
    except ContractMismatch as mismatch:
        return _paused_unsent(runtime, claim, Pause("contract_mismatch", str(mismatch)))
    except NotAsked as unsent:
        return _paused_unsent(runtime, claim, unsent.pause)
    except BaseException as error:  # whatever it was must leave the run with somebody
        _give_back_after(runtime, claim, error)
        raise


def _paused_unsent(runtime: Runtime, claim: Claim, pause: Pause) -> StepOutcome:
    return StepOutcome(f"pause {pause.reason}, 0 tok", pause_unsent(runtime, claim, pause))


def _carry(runtime: Runtime, claim: Claim) -> StepOutcome:
    """From the claim to the committed decision."""
    spec = runtime.specs.get(claim.run_id, claim.policy_rev)
    if claim.is_stale:
        return StepOutcome(*refresh(runtime, claim, spec))
    if claim.stored_reply is not None:
        exchange = Exchange(claim.stored_reply, None, None, None)
        runtime.tracer.reply_applied(claim, spec)
    else:
        exchange = ask_model(runtime, claim, spec)
    try:
        return _decide_and_commit(runtime, claim, spec, exchange)
    except BaseException:
        # The reply is paid for: book it alone, and the next claim applies it without asking again.
        book_reply(runtime, claim, exchange, discard=False)
        raise


def _decide_and_commit(
    runtime: Runtime, claim: Claim, spec: RunSpec, exchange: Exchange
) -> StepOutcome:
    """Decide from a reply and write the decision down, or find that the run has moved on."""
    fault("model.answered", run_id=claim.run_id, step=str(claim.step))
    reply = response_of(exchange.reply)
    snapshot = RunSnapshot(
        step=claim.step,
        policy=spec.policy,
        failures=claim.failures,
        size_refusals=min(claim.sent.size_refusals, claim.failures),
        calls_used=claim.calls_used,
        is_stale=False,
        jitter=runtime.jitter(),
        cut_texts=load_cut_texts(runtime.database, claim, spec.policy.continuations)
        if isinstance(reply, Text)
        else (),
    )
    decision = decide(snapshot, reply)
    fault("decide.pre_commit", run_id=claim.run_id, step=str(claim.step))
    applied = _commit(runtime, claim, spec, exchange, decision)
    if applied is None:
        return _book_stale(runtime, claim, exchange)
    fault("decide.post_commit", run_id=claim.run_id, step=str(claim.step))
    return StepOutcome(line_of(decision, exchange.reply), applied)


def _commit(
    runtime: Runtime, claim: Claim, spec: RunSpec, exchange: Exchange, decision: Decision
) -> Applied | None:
    """Write usage, reply and decision as one; None when the claim no longer holds."""
    database = runtime.database
    fault("decide.applying", run_id=claim.run_id, step=str(claim.step))
    match decision:
        case Answer():
            return _answer(runtime, claim, exchange, decision)
        case Dispatch():
            return _dispatch(runtime, claim, spec, exchange, decision)
        case Retry():
            return persist(lambda: commit_retry(database, claim, exchange, decision))
        case Pause():
            return _pause(runtime, claim, exchange, decision)
        case Discard():
            return None
        case _:
            assert_never(decision)


def _dispatch(
    runtime: Runtime, claim: Claim, spec: RunSpec, exchange: Exchange, dispatch: Dispatch
) -> Applied | None:
    """Judge the calls and write them down, or leave the run to a person."""
    database = runtime.database
    permission = permission_check(database, claim, spec)
    if isinstance(permission, str):
        return _pause(runtime, claim, exchange, _withdrawn(permission))
    history = load_recent_calls(database, claim, steps_to_look_at(spec.policy))
    calls = plan_calls(dispatch.calls, spec, (permission, *runtime.hooks), history)
    pause = pause_after_mistakes(calls, claim.corrections, spec.policy)
    if pause is not None:
        return _pause(runtime, claim, exchange, pause)
    limit = spec.policy.approval_seconds
    return persist(lambda: commit_dispatch(database, claim, exchange, calls, limit))


def _withdrawn(why: str) -> Pause:
    """The owner may no longer be served; the reply is decided anew if that changes."""
    return Pause("access_withdrawn", f"{why} The reply is kept.", keeps_reply=True)


def _pause(runtime: Runtime, claim: Claim, exchange: Exchange, pause: Pause) -> Applied | None:
    applied = persist(lambda: commit_pause(runtime.database, claim, exchange, pause))
    return _noted(runtime, claim, applied, "paused", pause.reason)


def _noted(
    runtime: Runtime,
    claim: Claim,
    applied: Applied | None,
    status: RunStatus,
    reason: Reason | None = None,
) -> Applied | None:
    """The same; tells of the run that was settled by it."""
    if applied is not None:
        runtime.note_end(claim.run_id, (status, reason))
    return applied


def _answer(runtime: Runtime, claim: Claim, exchange: Exchange, answer: Answer) -> Applied | None:
    """Complete the run; a correction that the answer has not heard makes it one more step.

    Whoever may no longer be served is told nothing.
    """
    owner = Principal(tenant=claim.tenant, user=claim.owner)
    why = persist(lambda: why_denied(runtime.database, owner))
    if why is not None:
        return _pause(runtime, claim, exchange, _withdrawn(why))
    applied = persist(lambda: commit_answer(runtime.database, claim, exchange, answer))
    if applied is None:
        return persist(lambda: commit_dispatch(runtime.database, claim, exchange, ()))
    return _noted(runtime, claim, applied, "completed")


def _book_stale(runtime: Runtime, claim: Claim, exchange: Exchange) -> StepOutcome:
    """The run has moved on: keep the reply and its usage, and leave the run alone.

    A second look tells a moved run from a commit whose answer was lost.
    """
    booked = book_reply(runtime, claim, exchange, discard=True)
    detail = "The reply was stale."
    back = hand_back(runtime, claim, wait_seconds=0, detail=detail, is_failure=False)
    if not booked and back is None:
        return StepOutcome("already recorded")
    runtime.meter.fenced_out()
    log.info("reply discarded", extra={"run_id": claim.run_id, "step_no": claim.step})
    is_due = back is not None and back.ended is None
    applied = Applied(next_step=claim.step) if is_due else Applied()
    return StepOutcome("fenced out, usage booked", applied)


def _give_back_after(runtime: Runtime, claim: Claim, error: BaseException) -> None:
    """Leave the run claimable, or failed: never held by a worker that does nothing for it.

    An outage costs time and never the run.
    """
    is_failure = not isinstance(error, Unavailable)
    detail = f"{type(error).__name__} in step {claim.step}; see the worker log."
    log.error(
        "step failed",
        exc_info=error,
        extra={"run_id": claim.run_id, "step_no": claim.step, "fence": claim.fence},
    )
    if isinstance(error, InvariantBroken) or (is_failure and claim.claims >= MAX_CLAIMS):
        fail_run(runtime, claim, reason="corrupt_record", detail=detail)
        return
    wait = float(claim.claims)
    hand_back(runtime, claim, wait_seconds=wait, detail=detail, is_failure=is_failure)


def _ring(runtime: Runtime, run_id: RunId, applied: Applied) -> None:
    for call in applied.ready_calls:
        runtime.ringer.ring_call(call.call_id, call.tool)
    if applied.next_step is not None:
        runtime.ringer.ring_step(run_id, applied.next_step)
    for promoted, step in applied.promoted:
        runtime.ringer.ring_step(promoted, step)
