"""Verbs with something missing: each looks right, and is not."""

from collections.abc import Sequence

from tests.state import approval_verbs, call_verbs, owner_verbs, verbs
from tests.state.record import (
    UNSTARTED,
    CallRef,
    Claim,
    Done,
    Planned,
    Receipt,
    Rows,
    Run,
    Worker,
)


def as_if_held(rows: Rows, claim: Claim) -> Rows:
    """The rows as a statement sees them that asks for neither fence nor holder nor attempt."""
    run = rows.run._replace(work="held", holder=claim.worker, fence=claim.fence)
    return with_open_attempt(rows, claim).with_run(run)


def with_open_attempt(rows: Rows, claim: Claim) -> Rows:
    """The rows as a statement sees them to which every attempt is as good as an open one."""
    models = (
        m._replace(state="open", decision=None)
        if (m.step, m.attempt) == (claim.step, claim.attempt)
        else m
        for m in rows.models
    )
    return rows._replace(models=tuple(models))


def without_fence(rows: Rows, claim: Claim, done: Done) -> Done:
    """What such a statement leaves behind; the fence itself stays."""
    if not done.is_done:
        return Done(rows)
    return done._replace(rows=done.rows.with_run(done.rows.run._replace(fence=rows.run.fence)))


def dispatch_without_fence(rows: Rows, claim: Claim, planned: Sequence[Planned]) -> Done:
    done = verbs.commit_dispatch(as_if_held(rows, claim), claim, planned)
    return without_fence(rows, claim, done)


def answer_without_fence(rows: Rows, claim: Claim) -> Done:
    return without_fence(rows, claim, verbs.commit_answer(as_if_held(rows, claim), claim))


def dispatch_by_fence_alone(rows: Rows, claim: Claim, planned: Sequence[Planned]) -> Done:
    taken = of_any_holder(rows, claim)
    return verbs.commit_dispatch(with_open_attempt(rows, claim), taken, planned)


def answer_by_fence_alone(rows: Rows, claim: Claim) -> Done:
    return verbs.commit_answer(with_open_attempt(rows, claim), of_any_holder(rows, claim))


def of_any_holder(rows: Rows, claim: Claim) -> Claim:
    return claim if rows.run.holder is None else claim._replace(worker=rows.run.holder)


def takeover_without_fence(rows: Rows, dead: frozenset[Worker], max_losses: int) -> Done:
    done = verbs.take_over(rows, dead, max_losses)
    return _with_fence(done, rows.run.fence) if done.is_done else done


def claim_without_fence(rows: Rows, step: int, worker: Worker) -> Done:
    done = verbs.claim_step(rows, step, worker)
    if done.claim is None:
        return done
    claim = done.claim._replace(fence=rows.run.fence)
    return _with_fence(done, rows.run.fence)._replace(claim=claim)


def claim_of_a_held_run(rows: Rows, step: int, worker: Worker) -> Done:
    if rows.run.work != "held":
        return verbs.claim_step(rows, step, worker)
    return verbs.claim_step(rows.with_run(rows.run._replace(work="ready")), step, worker)


def hand_back_by_anybody(rows: Rows, claim: Claim, *, is_failure: bool) -> Done:
    if rows.run.work != "held":
        return Done(rows)
    done = verbs.hand_back(as_if_held(rows, claim), claim, is_failure=is_failure)
    return without_fence(rows, claim, done)


def stored_reply_of_any_revision(rows: Rows, mode: str) -> Done:
    done = owner_verbs.steer_run(rows, mode)
    return done._replace(rows=done.rows._replace(models=rows.models))


def book_for_any_revision(rows: Rows, claim: Claim, *, discard: bool) -> Done:
    return verbs.book_reply(rows, claim._replace(steer_rev=rows.run.steer_rev), discard=discard)


def answer_that_has_not_heard(rows: Rows, claim: Claim) -> Done:
    return verbs.commit_answer(rows, claim._replace(steers=rows.run.steers))


def steer_without_skipping(rows: Rows, mode: str) -> Done:
    if mode == "append":
        return owner_verbs.steer_run(rows, mode)
    unseen = owner_verbs.steer_run(rows._replace(calls=()), mode)
    return unseen._replace(rows=unseen.rows._replace(calls=rows.calls))


def steer_without_revision(rows: Rows, mode: str) -> Done:
    done = owner_verbs.steer_run(rows, mode)
    return done._replace(
        rows=done.rows.with_run(done.rows.run._replace(steer_rev=rows.run.steer_rev))
    )


def stop_without_skipping(rows: Rows) -> Done:
    done = owner_verbs.stop_run(rows._replace(calls=()))
    run = done.rows.run
    if run.open_calls and run.work != "held":
        run = run._replace(status="cancelling", reason=None)
    return done._replace(rows=done.rows._replace(calls=rows.calls, run=run))


def stop_that_keeps_corrections(rows: Rows) -> Done:
    done = owner_verbs.stop_run(rows)
    return done._replace(rows=done.rows._replace(steers=rows.steers))


def intent_without_stop(rows: Rows, ref: CallRef, worker: Worker) -> Done:
    return _intent(rows, rows.run._replace(is_stopped=False, status="running"), ref, worker)


def intent_beside_unknown(rows: Rows, ref: CallRef, worker: Worker) -> Done:
    return _intent(rows, rows.run._replace(unknowns=0), ref, worker)


def intent_in_quarantine(rows: Rows, ref: CallRef, worker: Worker) -> Done:
    loud = tuple(c._replace(quiet="over") if c.quiet else c for c in rows.calls)
    return _intent_among(rows, rows._replace(calls=loud), ref, worker)


def intent_after_a_late_done(rows: Rows, ref: CallRef, worker: Worker) -> Done:
    unheard = tuple(
        c._replace(receipt=c.receipt._replace(late_outcome=None)) if c.receipt else c
        for c in rows.calls
    )
    return _intent_among(rows, rows._replace(calls=unheard), ref, worker)


def intent_beside_another_run(rows: Rows, ref: CallRef, worker: Worker) -> Done:
    return _intent_among(rows, rows._replace(is_taken=False), ref, worker)


def read_that_readies_any_call(
    rows: Rows, ref: CallRef, attempt: int, worker: Worker, state: str
) -> Done:
    names = {c.ref: c.key for c in rows.calls}
    unlike = tuple(c._replace(key=str(c.ref)) for c in rows.calls)
    done = call_verbs.settle_read(rows._replace(calls=unlike), ref, attempt, worker, state)
    calls = tuple(c._replace(key=names[c.ref]) for c in done.rows.calls)
    return done._replace(rows=done.rows._replace(calls=calls))


def lost_change_made_ready(rows: Rows, ref: CallRef, attempt: int, dead: frozenset[Worker]) -> Done:
    call = rows.call(ref)
    if call is None or not (call.is_overdue or call.holder in dead):
        return Done(rows)
    again = call._replace(state="ready", attempt=0, holder=None, receipt=None)
    return Done(rows.with_call(again), is_done=True)


def unknown_that_forgets_its_siblings(
    rows: Rows, ref: CallRef, attempt: int, dead: frozenset[Worker]
) -> Done:
    done = call_verbs.settle_lost_change(rows, ref, attempt, dead)
    call = rows.call(ref)
    if not done.is_done or call is None:
        return done
    count = sum(c.state == "skipped" for c in done.rows.calls)
    count -= sum(c.state == "skipped" for c in rows.calls)
    run = done.rows.run
    return done._replace(rows=done.rows.with_run(run._replace(open_calls=run.open_calls + count)))


def unknown_beside_its_siblings(
    rows: Rows, ref: CallRef, attempt: int, dead: frozenset[Worker]
) -> Done:
    siblings = {call.ref: call for call in rows.calls if call.state in UNSTARTED}
    done = call_verbs.settle_lost_change(rows, ref, attempt, dead)
    if not done.is_done or not siblings:
        return done
    run = rows.run._replace(unknowns=rows.run.unknowns + 1, open_calls=rows.run.open_calls - 1)
    calls = tuple(siblings.get(call.ref, call) for call in done.rows.calls)
    after = done.rows._replace(run=run, calls=calls)
    return Done(after, 1, ("call.unknown",), is_done=True)


def unknown_that_does_not_pause(
    rows: Rows, ref: CallRef, attempt: int, dead: frozenset[Worker]
) -> Done:
    done = call_verbs.settle_lost_change(rows, ref, attempt, dead)
    run = done.rows.run
    if run.status != "paused" or rows.run.status == "paused":
        return done
    run = run._replace(status="running", reason=None, work="ready")
    return done._replace(rows=done.rows.with_run(run))


def late_receipt_that_moves_the_run(rows: Rows, ref: CallRef, attempt: int, outcome: str) -> Done:
    done = call_verbs.settle_change(rows, ref, attempt, outcome)
    run = done.rows.run
    if rows.run.unknowns and not run.unknowns and run.reason == "unknown_outcome":
        run = run._replace(status="running", reason=None, work="ready")
    return done._replace(rows=done.rows.with_run(run))


def receipt_of_any_state(rows: Rows, ref: CallRef, attempt: int, outcome: str) -> Done:
    call = rows.call(ref)
    if call is None or call.state not in ("returned", "errored") or call.receipt is None:
        return call_verbs.settle_change(rows, ref, attempt, outcome)
    unsettled = rows.with_call(call._replace(state="started", receipt=Receipt()))
    return call_verbs.settle_change(unsettled, ref, attempt, outcome)


def join_by_a_stale_count(
    rows: Rows, ref: CallRef, attempt: int, worker: Worker, state: str
) -> Done:
    """What two settling transactions get that counted before either had committed."""
    done = call_verbs.settle_read(rows, ref, attempt, worker, state)
    others = [c for c in rows.calls if c.state == "started" and c.ref != ref]
    if done.is_done and not others:
        run = rows.run._replace(open_calls=done.rows.run.open_calls)
        return done._replace(rows=done.rows.with_run(run), next_step=None)
    return done


def read_of_a_stopped_run(rows: Rows, ref: CallRef, worker: Worker) -> Done:
    free = rows.with_run(rows.run._replace(is_stopped=False))
    done = call_verbs.start_read(free, ref, worker)
    return done._replace(rows=done.rows.with_run(rows.run))


def verification_without_quarantine(rows: Rows, ref: CallRef, outcome: str) -> Done:
    done = owner_verbs.verify_receipt(rows, ref, outcome)
    calls = tuple(c._replace(quiet="over") if c.quiet else c for c in done.rows.calls)
    return done._replace(rows=done.rows._replace(calls=calls))


def resume_beside_unknown(rows: Rows) -> Done:
    done = owner_verbs.resume_run(rows.with_run(rows.run._replace(unknowns=0)))
    run = done.rows.run._replace(unknowns=rows.run.unknowns)
    return done._replace(rows=done.rows.with_run(run))


def skipped_event_forgotten(rows: Rows) -> Done:
    done = owner_verbs.stop_run(rows)
    return done._replace(events=tuple(kind for kind in done.events if kind != "call.skipped"))


def no_void_calls(_: Rows) -> tuple[CallRef, ...]:
    return ()


def _intent(rows: Rows, run: Run, ref: CallRef, worker: Worker) -> Done:
    done = call_verbs.record_intent(rows._replace(run=run), ref, worker)
    return done._replace(rows=done.rows.with_run(rows.run))


def _intent_among(rows: Rows, seen: Rows, ref: CallRef, worker: Worker) -> Done:
    """The intent as one writes it who sees other rows than there are."""
    done = call_verbs.record_intent(seen, ref, worker)
    call = done.rows.call(ref)
    if not done.is_done or call is None:
        return Done(rows)
    return done._replace(rows=rows.with_call(call))


def _with_fence(done: Done, fence: int) -> Done:
    return done._replace(rows=done.rows.with_run(done.rows.run._replace(fence=fence)))


def intent_by_a_lapsed_approval(rows: Rows, ref: CallRef, worker: Worker) -> Done:
    call = rows.call(ref)
    if call is None or not call.is_lapsed:
        return call_verbs.record_intent(rows, ref, worker)
    done = call_verbs.record_intent(rows.with_call(call._replace(is_lapsed=False)), ref, worker)
    changed = done.rows.call(ref)
    assert changed is not None
    return done._replace(rows=done.rows.with_call(changed._replace(is_lapsed=True)))


def grant_that_forgets_the_counter(rows: Rows, ref: CallRef, parallel: int) -> Done:
    done = approval_verbs.grant_call(rows, ref, parallel)
    run = done.rows.run._replace(open_approvals=rows.run.open_approvals)
    return done._replace(rows=done.rows.with_run(run))


def no_expiry(rows: Rows, ref: CallRef) -> Done:
    return Done(rows)


def correction_that_leaves_questions(rows: Rows, mode: str) -> Done:
    hidden = tuple(c for c in rows.calls if c.state != "awaiting_approval")
    done = owner_verbs.steer_run(rows._replace(calls=hidden), mode)
    after = {call.ref: call for call in done.rows.calls}
    calls = tuple(after.get(call.ref, call) for call in rows.calls)
    return done._replace(rows=done.rows._replace(calls=calls))


def receipt_that_forgets_the_pause(rows: Rows, ref: CallRef, attempt: int, outcome: str) -> Done:
    wanted = rows.run.pause_reason
    forgotten = rows.with_run(rows.run._replace(pause_reason=None))
    done = call_verbs.settle_change(forgotten, ref, attempt, outcome)
    return done._replace(rows=done.rows.with_run(done.rows.run._replace(pause_reason=wanted)))


def claim_that_keeps_the_pause(rows: Rows, step: int, worker: Worker) -> Done:
    done = verbs.claim_step(rows, step, worker)
    run = done.rows.run._replace(pause_reason=rows.run.pause_reason)
    return done._replace(rows=done.rows.with_run(run))
