"""How a step leaves a run undecided: a reply booked alone, a run freed, back, paused, or failed.

Each write is a compare-and-set that is tried until PostgreSQL answers, between two named points.
"""

from loop.decision import Pause
from models import steps
from models.claiming import put_off_step
from models.steps import Applied, Claim, Exchange, GivenBack
from tasks.persisting import persist
from tasks.runtime import Runtime
from umbel.contracts import RunId
from umbel.faults import fault
from umbel.names import Reason


def book_reply(runtime: Runtime, claim: Claim, exchange: Exchange, *, discard: bool) -> bool:
    """Book usage and reply without a decision; False when the row has one."""
    facts = {"run_id": claim.run_id, "step": str(claim.step)}
    fault("reply.book_pre", **facts)
    booked = persist(lambda: steps.book_reply(runtime.database, claim, exchange, discard=discard))
    fault("reply.book_post", **facts)
    return booked


def hand_back(
    runtime: Runtime, claim: Claim, *, wait_seconds: float, detail: str, is_failure: bool
) -> GivenBack | None:
    """Give the run back undecided; None when it is not this claim's any more."""
    facts = {"run_id": claim.run_id, "step": str(claim.step)}
    fault("step.hand_back_pre", **facts)
    given_back = persist(
        lambda: steps.hand_back(
            runtime.database,
            claim,
            wait_seconds=wait_seconds,
            detail=detail,
            is_failure=is_failure,
        )
    )
    fault("step.hand_back_post", **facts)
    if given_back is not None:
        runtime.note_end(claim.run_id, given_back.ended)
    return given_back


def pause_unsent(runtime: Runtime, claim: Claim, pause: Pause) -> Applied:
    """Pause a run before anybody is asked; one that has moved on meanwhile is given back."""
    facts = {"run_id": claim.run_id, "step": str(claim.step)}
    fault("step.pause_pre", **facts)
    applied = persist(lambda: steps.pause_unsent(runtime.database, claim, pause))
    fault("step.pause_post", **facts)
    if applied is not None:
        runtime.note_end(claim.run_id, ("paused", pause.reason))
        return applied
    detail = "The run has moved on."
    back = hand_back(runtime, claim, wait_seconds=0, detail=detail, is_failure=False)
    is_due = back is not None and back.ended is None
    return Applied(next_step=claim.step if is_due else None)


def release_own(runtime: Runtime, run_id: RunId, step: int) -> None:
    """Free a run whose claim may have been committed without an answer."""
    fault("step.release_pre", run_id=run_id, step=str(step))
    freed = persist(lambda: steps.release_own(runtime.database, run_id, step, runtime.worker))
    fault("step.release_post", run_id=run_id, step=str(step))
    if freed is not None:
        runtime.note_end(run_id, freed.ended)


def put_off(runtime: Runtime, run_id: RunId, step: int) -> None:
    """Let a step that raised before its claim wait, so that it does not come back at once."""
    wait = runtime.ring_after_seconds
    persist(lambda: put_off_step(runtime.database, run_id, step, ring_after_seconds=wait))


def fail_run(runtime: Runtime, claim: Claim, *, reason: Reason, detail: str) -> bool:
    """End the run, as failed unless it was stopped; False when it is not this claim's any more."""
    facts = {"run_id": claim.run_id, "step": str(claim.step)}
    fault("step.fail_pre", **facts)
    ended = persist(lambda: steps.fail_run(runtime.database, claim, reason=reason, detail=detail))
    fault("step.fail_post", **facts)
    runtime.note_end(claim.run_id, ended)
    return ended is not None
