"""The product's store functions again, on tuples: the steps of a run. test_conformance.py compares.

Written as the SQL is written, down to the way it counts event numbers: a mirror that is cleverer
than the statement would prove something else.
"""

from collections.abc import Sequence

from tests.state.record import (
    Call,
    Claim,
    Done,
    ModelCall,
    Planned,
    Rows,
    Run,
    Worker,
)


def claim_step(rows: Rows, step: int, worker: Worker) -> Done:
    """CLAIM."""
    run = rows.run
    if run.work != "ready" or run.step != step or run.is_stopped or run.must_wait:
        return Done(rows)
    run = run._replace(
        work="held",
        status="running",
        reason=None,
        holder=worker,
        fence=run.fence + 1,
        attempts=run.attempts + 1,
        must_wait=False,
        pause_reason=None,
    )
    stored = max(
        (m for m in rows.models if m.step == step and m.state == "closed" and m.decision is None),
        key=lambda m: m.attempt,
        default=None,
    )
    models = _without_open(rows.models, step)
    steers = rows.steers
    if stored is None:
        attempt = max((m.attempt for m in models if m.step == step), default=0) + 1
        opened = ModelCall(step, attempt, steers=run.steers)
        models = (*models, opened)
        if run.steers:
            steers = tuple(s.ending("applied") for s in steers)
    else:
        opened = stored
    claim = Claim(
        step=step,
        fence=run.fence,
        worker=worker,
        attempt=opened.attempt,
        steer_rev=run.steer_rev,
        steers=opened.steers,
        is_stored=stored is not None,
        failures=run.failures,
        corrections=run.corrections,
        calls_used=run.calls_used,
        claims=run.attempts,
        owner_must_approve=run.owner_must_approve,
        policy_rev=run.policy_rev,
    )
    after = rows._replace(run=run, models=models, steers=steers)
    return Done(after, 1, ("step.claimed",), claim=claim, is_done=True)


def commit_dispatch(rows: Rows, claim: Claim, planned: Sequence[Planned]) -> Done:
    """DECIDE_DISPATCH."""
    run = rows.run
    if not _may_decide(rows, claim):
        return Done(rows)
    total = len(planned)
    opened = sum(call.state not in ("refused", "errored") for call in planned)
    asked = sum(call.state == "awaiting_approval" for call in planned)
    joined = opened == 0
    run = run._replace(
        attempts=0,
        losses=0,
        failures=0,
        open_calls=opened,
        open_approvals=asked,
        status="waiting" if asked else run.status,
        reason="approval_required" if asked else None,
        corrections=0 if opened else run.corrections + bool(planned),
        calls_used=run.calls_used + total,
        holder=None,
        work="ready" if joined else "calls",
        step=run.step + joined,
    )
    calls = tuple(
        Call(
            claim.step,
            at,
            call.effect,
            call.args,
            call.state,
            steer_rev=run.steer_rev,
            needs_approval=call.state == "awaiting_approval",
            key=call.key,
        )
        for at, call in enumerate(planned, start=1)
    )
    after = rows._replace(
        run=run, models=_decided(rows.models, claim, "dispatch"), calls=rows.calls + calls
    )
    loops = ("doom_loop",) * any(call.repeats for call in planned)
    events = ("step.decided", *(f"call.{call.state}" for call in calls), *loops)
    next_step = run.step if run.work == "ready" else None
    return Done(after, len(events), events, is_done=True, next_step=next_step)


def commit_answer(rows: Rows, claim: Claim) -> Done:
    """DECIDE_ANSWER."""
    run = rows.run
    if not _may_decide(rows, claim) or run.steers != claim.steers:
        return Done(rows)
    run = run._replace(
        work="none",
        status="completed",
        holder=None,
        attempts=0,
        losses=0,
        failures=0,
        is_answered=True,
    )
    after = rows._replace(run=run, models=_decided(rows.models, claim, "answer"))
    return Done(after, 3, ("step.decided", "delivery.delivered", "run.completed"), is_done=True)


def commit_retry(rows: Rows, claim: Claim, *, waits: bool) -> Done:
    """DECIDE_RETRY."""
    run = rows.run
    if not _may_decide(rows, claim):
        return Done(rows)
    run = run._replace(
        work="ready",
        status="waiting",
        reason="provider_retry",
        holder=None,
        failures=run.failures + 1,
        attempts=0,
        must_wait=waits,
    )
    after = rows._replace(run=run, models=_decided(rows.models, claim, "retry"))
    return Done(after, 1, ("step.retry",), is_done=True, next_step=None if waits else claim.step)


def commit_pause(rows: Rows, claim: Claim, reason: str, *, keeps_reply: bool) -> Done:
    """DECIDE_PAUSE."""
    run = rows.run
    if not _may_decide(rows, claim):
        return Done(rows)
    run = run._replace(work="none", status="paused", reason=reason, holder=None)
    models = _decided(rows.models, claim, None if keeps_reply else "pause")
    after = rows._replace(run=run, models=models)
    return Done(after, 1, ("run.paused",), is_done=True)


def pause_unsent(rows: Rows, claim: Claim, reason: str) -> Done:
    """PAUSE_UNSENT."""
    run = rows.run
    if not _still_held(run, claim):
        return Done(rows)
    run = run._replace(work="none", status="paused", reason=reason, holder=None)
    after = rows._replace(run=run, models=_without_open(rows.models, run.step))
    return Done(after, 1, ("run.paused",), is_done=True)


def book_reply(rows: Rows, claim: Claim, *, discard: bool) -> Done:
    """BOOK_REPLY."""
    for model in rows.models:
        if (model.step, model.attempt, model.decision) == (claim.step, claim.attempt, None):
            stale = rows.run.steer_rev != claim.steer_rev
            decision = "discard" if discard or stale else None
            booked = model._replace(state="closed", has_usage=True, decision=decision)
            after = rows._replace(models=tuple(booked if m is model else m for m in rows.models))
            if decision is None:
                return Done(after, is_done=True)
            kind = "discarded" if rows.run.fence == claim.fence else "fenced_out"
            return Done(after, 1, (f"step.{kind}",), is_done=True)
    return Done(rows)


def hand_back(rows: Rows, claim: Claim, *, is_failure: bool) -> Done:
    """HAND_BACK; a failure waits before it is tried again."""
    run = rows.run
    if run.fence != claim.fence or run.holder != claim.worker or run.work != "held":
        return Done(rows)
    run = _let_go(run)._replace(attempts=run.attempts - (not is_failure), must_wait=is_failure)
    after = rows._replace(run=run, models=_without_open(rows.models, run.step))
    events = ("step.handed_back", *_cancelled(run))
    return Done(after, 1 + run.is_stopped, events, is_done=True)


def release_own(rows: Rows, step: int, worker: Worker) -> Done:
    """RELEASE_OWN."""
    run = rows.run
    if run.step != step or run.holder != worker or run.work != "held":
        return Done(rows)
    run = _let_go(run)._replace(attempts=run.attempts - 1, fence=run.fence + 1)
    after = rows._replace(run=run, models=_without_open(rows.models, run.step))
    return Done(after, int(run.is_stopped), _cancelled(run), is_done=True)


def put_off_step(rows: Rows, step: int) -> Done:
    """PUT_OFF."""
    run = rows.run
    if run.step != step or run.work != "ready":
        return Done(rows)
    return Done(rows.with_run(run._replace(must_wait=True)), is_done=True)


def fail_run(rows: Rows, claim: Claim) -> Done:
    """FAIL_RUN."""
    run = rows.run
    if run.fence != claim.fence or run.holder != claim.worker or run.work != "held":
        return Done(rows)
    status, reason = ("failed", "corrupt_record")
    if run.is_stopped:
        status, reason = ("cancelled", "owner_stop")
    run = run._replace(work="none", status=status, reason=reason, holder=None)
    after = rows._replace(run=run, models=_without_open(rows.models, run.step))
    return Done(after, 1, (f"run.{status}",), is_done=True)


def take_over(rows: Rows, dead: frozenset[Worker], max_losses: int) -> Done:
    """TAKE_OVER."""
    run = rows.run
    if run.work != "held" or run.holder not in dead:
        return Done(rows)
    ends = run.is_stopped
    gives_up = not ends and run.losses + 1 >= max_losses
    status, reason = "running", None
    if ends:
        status, reason = "cancelled", "owner_stop"
    elif gives_up:
        status, reason = "paused", "lost_worker"
    run = run._replace(
        fence=run.fence + 1,
        losses=run.losses + 1,
        holder=None,
        work="none" if ends or gives_up else "ready",
        status=status,
        reason=reason,
    )
    after = rows._replace(run=run, models=_without_open(rows.models, run.step))
    ending = (f"run.{status}",) if ends or gives_up else ()
    return Done(after, 1 + (gives_up or ends), ("run.taken_over", *ending), is_done=True)


def _may_decide(rows: Rows, claim: Claim) -> bool:
    """Still held, and the attempt undecided: else the product refuses with InvariantBroken."""
    return _still_held(rows.run, claim) and any(
        (m.step, m.attempt, m.decision) == (claim.step, claim.attempt, None)
        and m.state in ("open", "closed")
        for m in rows.models
    )


def _still_held(run: Run, claim: Claim) -> bool:
    return (
        run.fence == claim.fence
        and run.holder == claim.worker
        and run.work == "held"
        and run.step == claim.step
        and run.steer_rev == claim.steer_rev
        and not run.is_stopped
    )


def _decided(
    models: tuple[ModelCall, ...], claim: Claim, decision: str | None
) -> tuple[ModelCall, ...]:
    return tuple(
        m._replace(state="closed", decision=decision, has_usage=True)
        if m.step == claim.step and m.attempt == claim.attempt
        else m
        for m in models
    )


def _without_open(models: tuple[ModelCall, ...], step: int) -> tuple[ModelCall, ...]:
    return tuple(
        m._replace(state="lost") if m.step == step and m.state == "open" else m for m in models
    )


def _let_go(run: Run) -> Run:
    if run.is_stopped:
        return run._replace(holder=None, work="none", status="cancelled", reason="owner_stop")
    return run._replace(holder=None, work="ready", status="running", reason=None)


def _cancelled(run: Run) -> tuple[str, ...]:
    return ("run.cancelled",) if run.is_stopped else ()
