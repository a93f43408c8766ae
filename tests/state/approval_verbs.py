"""The product's store functions again, on tuples: what owners say about calls that ask."""

from tests.state.call_verbs import is_touched, join
from tests.state.record import Call, CallRef, Done, Rows


def grant_call(rows: Rows, ref: CallRef, parallel: int, *, is_shown: bool = True) -> Done:
    """GRANT; `is_shown`: the hash is that of the call's own bytes."""
    call, run = rows.call(ref), rows.run
    if call is None or not is_shown or not is_decidable(rows, call):
        return Done(rows)
    busy = sum(c.step == run.step and c.state in ("ready", "started") for c in rows.calls)
    state = "ready" if busy < parallel and not is_touched(rows, call) else "planned"
    granted = call._replace(state=state, is_approved=True, is_lapsed=False)
    left = run.open_approvals - 1
    run = run._replace(
        open_approvals=left,
        status=run.status if left else "running",
        reason=run.reason if left else None,
    )
    after = rows.with_call(granted).with_run(run)
    return Done(after, 1, ("approval.granted",), is_done=True)


def deny_call(rows: Rows, ref: CallRef, *, is_shown: bool = True) -> Done:
    """DENY and SETTLE_UNAPPROVED."""
    call = rows.call(ref)
    if call is None or not is_shown or not is_decidable(rows, call):
        return Done(rows)
    return _end(rows, call, "denied", "refused")


def expire_approval(rows: Rows, ref: CallRef) -> Done:
    """EXPIRE and SETTLE_UNAPPROVED."""
    call = rows.call(ref)
    if call is None or not is_over(call):
        return Done(rows)
    return _end(rows, call, "expired", "skipped")


def is_over(call: Call) -> bool:
    """OVER."""
    is_open = call.state in ("awaiting_approval", "planned", "ready")
    return call.needs_approval and call.is_lapsed and is_open


def is_decidable(rows: Rows, call: Call) -> bool:
    """_DECIDABLE, but for the hash."""
    run = rows.run
    is_due = call.state == "awaiting_approval" and not call.is_lapsed
    return is_due and not run.is_stopped and call.steer_rev == run.steer_rev


def _end(rows: Rows, call: Call, word: str, state: str) -> Done:
    done = join(rows, call, state)
    events = (f"approval.{word}", *done.events)
    return done._replace(numbers=done.numbers + 1, events=events)
