"""The product's store functions again, on tuples: what owners do to a run."""

from tests.state.record import UNSTARTED, Call, CallRef, Done, Rows, Steer


def resume_run(
    rows: Rows, *, limit: int | None = None, is_current: bool = True, key: str | None = None
) -> Done:
    """RESUME; with another limit, made from the policy that the run has or had."""
    run = rows.run
    if key in rows.keys or (limit is not None and not is_current):
        return Done(rows)
    is_settled = run.status in ("paused", "failed", "cancelled")
    if not is_settled or run.unknowns or run.open_calls:
        return Done(rows)
    run = run._replace(
        status="running",
        reason=None,
        work="ready",
        is_stopped=False,
        attempts=0,
        losses=0,
        failures=0,
        corrections=0,
        fence=run.fence + 1,
        must_wait=False,
        policy_rev=run.policy_rev + (limit is not None),
        call_limit=run.call_limit if limit is None else limit,
    )
    after = _under(rows.with_run(run), key)
    return Done(after, 1, ("run.resumed",), is_done=True, next_step=run.step)


def stop_run(rows: Rows, *, key: str | None = None) -> Done:
    """STOP."""
    run = rows.run
    if key in rows.keys:
        return Done(rows)
    if run.is_stopped or run.status not in ("queued", "running", "waiting", "paused"):
        return Done(rows)
    asked = count_asked(rows.calls, run.step)
    calls, skipped = skip_unstarted(rows.calls, run.step)
    ends = run.work != "held" and run.open_calls == skipped
    run = run._replace(
        is_stopped=True,
        open_calls=run.open_calls - skipped,
        open_approvals=run.open_approvals - asked,
        must_wait=False,
        step=run.step + (ends and run.work == "calls"),
        work="none" if ends else run.work,
        status="cancelled" if ends else "cancelling",
        reason="owner_stop" if ends else None,
    )
    steers = tuple(s.ending("returned") for s in rows.steers)
    after = _under(rows._replace(run=run, calls=calls, steers=steers), key)
    events = ("run.stopping", *["call.skipped"] * skipped, *(["run.cancelled"] if ends else []))
    return Done(after, 1 + skipped + ends, events, is_done=True)


def steer_run(rows: Rows, mode: str, *, who: str = "owner", key: str | None = None) -> Done:
    """STEER, in a public thread: by its owner, its collaborator, or a stranger."""
    run = rows.run
    if who == "stranger" or key in rows.keys:
        return Done(rows)
    if run.is_stopped or run.status not in ("queued", "running", "waiting", "paused"):
        return Done(rows)
    redirects = mode == "redirect"
    asked = count_asked(rows.calls, run.step) if redirects else 0
    calls, skipped = skip_unstarted(rows.calls, run.step) if redirects else (rows.calls, 0)
    models = rows.models
    if redirects:
        models = tuple(
            m._replace(decision="discard")
            if m.step == run.step and m.state == "closed" and m.decision is None
            else m
            for m in models
        )
    joins = run.work == "calls" and skipped > 0 and run.open_calls == skipped
    pauses = joins and run.unknowns > 0
    status, reason = ("running", None) if asked else (run.status, run.reason)
    run = run._replace(
        steers=run.steers + 1,
        steer_rev=run.steer_rev + redirects,
        corrections=0,
        open_calls=run.open_calls - skipped,
        open_approvals=run.open_approvals - asked,
        step=run.step + joins,
        work=("none" if pauses else "ready") if joins else run.work,
        status="paused" if pauses else status,
        reason="unknown_outcome" if pauses else reason,
        pause_reason=None if redirects else run.pause_reason,
        owner_must_approve=run.owner_must_approve or who != "owner",
        must_wait=run.must_wait and not redirects,
    )
    steers = (*rows.steers, Steer(mode, is_foreign=who != "owner"))
    after = _under(rows._replace(run=run, models=models, calls=calls, steers=steers), key)
    events = ("run.steered", *["call.skipped"] * skipped, *(["run.paused"] if pauses else []))
    wakes = redirects and rows.run.must_wait
    next_step = run.step if (joins or wakes) and run.work == "ready" else None
    return Done(after, 1 + skipped + pauses, events, is_done=True, next_step=next_step)


def verify_receipt(rows: Rows, ref: CallRef, outcome: str) -> Done:
    """VERIFY."""
    call = rows.call(ref)
    if call is None or call.receipt is None:
        return Done(rows)
    if call.receipt.outcome != "unknown" or call.receipt.verified is not None:
        return Done(rows)
    call = call._replace(
        state="errored" if outcome == "not_happened" else "returned",
        quiet="" if outcome == "happened" else "active",
        receipt=call.receipt._replace(verified=outcome),
    )
    run = rows.run._replace(unknowns=rows.run.unknowns - 1)
    return Done(rows.with_call(call).with_run(run), 1, ("call.verified",), is_done=True)


def _under(rows: Rows, key: str | None) -> Rows:
    """The event of what was done holds the key."""
    return rows if key is None else rows._replace(keys=(*rows.keys, key))


def count_asked(calls: tuple[Call, ...], step: int) -> int:
    """Calls of a step that wait for the owner."""
    return sum(c.step == step and c.state == "awaiting_approval" for c in calls)


def skip_unstarted(calls: tuple[Call, ...], step: int) -> tuple[tuple[Call, ...], int]:
    """Calls of a step with those skipped that have not started, and how many."""
    skipped = sum(c.step == step and c.state in UNSTARTED for c in calls)
    if not skipped:
        return calls, 0
    return tuple(
        c._replace(state="skipped") if c.step == step and c.state in UNSTARTED else c for c in calls
    ), skipped
