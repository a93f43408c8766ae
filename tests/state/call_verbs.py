"""The product's store functions again, on tuples: calls, their outcomes and the join."""

from tests.state.owner_verbs import count_asked, skip_unstarted
from tests.state.record import SHARED, Call, CallRef, Done, Receipt, Rows, Run, Worker

MAX_READ_ATTEMPTS = 3
UNPLACED = ("unknown", "awaiting_approval", "planned")
"""A call that ends from here has no place among the parallel ones to give to the next."""


def start_read(rows: Rows, ref: CallRef, worker: Worker) -> Done:
    """START_READ."""
    call, run = rows.call(ref), rows.run
    if call is None or call.is_change or call.state != "ready":
        return Done(rows)
    if call.attempt >= MAX_READ_ATTEMPTS or run.is_stopped or run.steer_rev != call.steer_rev:
        return Done(rows)
    if not call.may_start:
        return Done(rows)
    return _start(rows, call, worker)


def record_intent(rows: Rows, ref: CallRef, worker: Worker) -> Done:
    """INTENT."""
    call, run = rows.call(ref), rows.run
    is_going_on = run.status == "running" or run.reason == "approval_required"
    if not is_going_on or run.work != "calls" or run.is_stopped or run.unknowns:
        return Done(rows)
    if call is None or not call.is_change or call.state != "ready" or call.attempt:
        return Done(rows)
    if call.steer_rev != run.steer_rev or not call.may_start:
        return Done(rows)
    if is_closed(rows, call.key) or was_done(rows, call):
        return Done(rows)
    done = _start(rows, call._replace(receipt=Receipt()), worker)
    return done._replace(numbers=1, events=("call.intent",))


def is_closed(rows: Rows, key: str) -> bool:
    """ON_ITS_WAY."""
    return (rows.is_taken and key == SHARED) or any(
        c.key == key and c.is_on_its_way for c in rows.calls
    )


def was_done(rows: Rows, call: Call) -> bool:
    """DONE_AFTER_ALL."""
    told = (c.receipt for c in rows.calls if c.args == call.args and c.receipt is not None)
    return any(r.late_outcome == "done" and r.verified != "happened" for r in told)


def free_own_read(rows: Rows, ref: CallRef, attempt: int, worker: Worker) -> Done:
    """FREE_OWN_READ."""
    call = rows.call(ref)
    if call is None or call.is_change or not _is_at(call, attempt, worker):
        return Done(rows)
    return Done(rows.with_call(call._replace(state="ready", holder=None)), is_done=True)


def hand_back_read(rows: Rows, ref: CallRef, attempt: int, worker: Worker) -> Done:
    """_HAND_BACK_READ."""
    call, run = rows.call(ref), rows.run
    if call is None or call.is_change or not _is_at(call, attempt, worker):
        return Done(rows)
    if run.is_stopped or run.steer_rev != call.steer_rev:
        return Done(rows)
    back = call._replace(state="ready", holder=None, attempt=attempt - 1)
    return Done(rows.with_call(back), is_done=True)


def find_own_start(rows: Rows, ref: CallRef, worker: Worker) -> Done:
    """OWN_START."""
    call = rows.call(ref)
    if call is None or call.state != "started" or call.holder != worker:
        return Done(rows)
    return Done(rows, is_done=True, attempt=call.attempt)


def settle_read(rows: Rows, ref: CallRef, attempt: int, worker: Worker, state: str) -> Done:
    """SETTLE_READ."""
    call = rows.call(ref)
    if call is None or call.is_change or not _is_at(call, attempt, worker):
        return Done(rows)
    return join(rows, call, state)


def settle_stalled_read(rows: Rows, ref: CallRef, attempt: int) -> Done:
    """SETTLE_STALLED_READ."""
    call = rows.call(ref)
    if call is None or call.is_change or call.state != "started":
        return Done(rows)
    if call.attempt != attempt or not call.is_overdue:
        return Done(rows)
    return join(rows, call, "errored")


def leave_call(rows: Rows, ref: CallRef, at_once: int, *, is_known: bool) -> Done:
    """LEAVE_CALL, once its time has come."""
    call = rows.call(ref)
    if call is None or call.state != "ready":
        return Done(rows)
    misses = min(call.misses + 1, at_once) if is_known else call.misses + 1
    return Done(rows.with_call(call._replace(misses=misses)), is_done=True)


def give_up_call(rows: Rows, ref: CallRef, state: str, pause: str | None = None) -> Done:
    """GIVE_UP_CALL."""
    call = rows.call(ref)
    if call is None or call.state != "ready" or (call.is_change and call.attempt):
        return Done(rows)
    return join(rows, call, state, pause)


def settle_change(rows: Rows, ref: CallRef, attempt: int, outcome: str) -> Done:
    """SETTLE_CHANGE, as the worker says it."""
    call = rows.call(ref)
    if call is None or not call.is_change or call.attempt != attempt:
        return Done(rows)
    if call.state != "started" and (call.state != "unknown" or outcome == "unknown"):
        return Done(rows)
    assert call.receipt is not None
    receipt = call.receipt._replace(outcome=outcome, is_late=call.receipt.outcome is not None)
    state = {"done": "returned", "not_done": "errored"}.get(outcome, "unknown")
    return join(rows, call._replace(receipt=receipt), state)


def settle_lost_change(rows: Rows, ref: CallRef, attempt: int, dead: frozenset[Worker]) -> Done:
    """SETTLE_CHANGE, as the sweeper says it."""
    call = rows.call(ref)
    if call is None or not (call.is_overdue or call.holder in dead):
        return Done(rows)
    return settle_change(rows, ref, attempt, "unknown")


def note_late(rows: Rows, ref: CallRef, attempt: int, outcome: str) -> Done:
    """NOTE_LATE."""
    call = rows.call(ref)
    if call is None or call.receipt is None or call.attempt != attempt:
        return Done(rows)
    if call.receipt.verified is None or call.receipt.late_outcome is not None:
        return Done(rows)
    word = "happened" if outcome == "done" else "not_happened"
    kind = "confirmed" if call.receipt.verified == word else "conflict"
    noted = rows.with_call(call._replace(receipt=call.receipt._replace(late_outcome=outcome)))
    return Done(noted, 1, (f"call.{kind}",), is_done=True)


def free_reads(rows: Rows, dead: frozenset[Worker]) -> Done:
    """READS_BACK."""
    calls = tuple(
        c._replace(state="ready", holder=None)
        if c.state == "started" and not c.is_change and c.holder in dead
        else c
        for c in rows.calls
    )
    return Done(rows._replace(calls=calls), is_done=calls != rows.calls)


def void_calls(rows: Rows) -> tuple[CallRef, ...]:
    """VOID_CALLS: what the sweeper settles because nothing will start it."""
    return tuple(c.ref for c in rows.calls if c.state == "ready" and _is_void(rows, c))


def join(rows: Rows, settled: Call, state: str, pause: str | None = None) -> Done:
    """_JOIN: `settled` with its state before, and what it becomes."""
    was = settled.state if settled.state in UNPLACED else "started"
    call = settled._replace(state=state, holder=None)
    after = rows.with_call(call)
    closes, turns_unknown = was != "unknown", was == "started" and state == "unknown"
    skipped, asked, next_call = 0, int(was == "awaiting_approval"), None
    if turns_unknown:
        asked = count_asked(after.calls, call.step)
        calls, skipped = skip_unstarted(after.calls, call.step)
        after = after._replace(calls=calls)
    elif was == "started":
        planned = [
            c
            for c in rows.calls
            if c.step == call.step and c.state == "planned" and not is_touched(after, c)
        ]
        if planned:
            first = min(planned, key=lambda c: c.position)
            after, next_call = after.with_call(first._replace(state="ready")), first.ref
    run = rows.run
    closed = closes + skipped
    unknowns = run.unknowns + turns_unknown - (was == "unknown" and state != "unknown")
    joins = run.work == "calls" and closed > 0 and run.open_calls == closed
    pause = run.pause_reason or pause
    stronger = "unknown_outcome" if unknowns > 0 else pause
    status, reason = _standing(run, stronger, joins=joins, asked=asked)
    is_over = joins and status in ("paused", "cancelled")
    run = run._replace(
        open_calls=run.open_calls - closed,
        open_approvals=run.open_approvals - asked,
        unknowns=unknowns,
        step=run.step + joins,
        work=("none" if is_over else "ready") if joins else run.work,
        status=status,
        reason=reason,
        pause_reason=pause,
    )
    ending = (f"run.{status}",) if is_over else ()
    return Done(
        after.with_run(run),
        1 + skipped + is_over,
        (f"call.{state}", *["call.skipped"] * skipped, *ending),
        is_done=True,
        next_step=run.step if run.work == "ready" else None,
        next_call=next_call,
    )


def _standing(run: Run, pause: str | None, *, joins: bool, asked: int) -> tuple[str, str | None]:
    """Status and reason after a call of the run has ended."""
    if joins and run.is_stopped:
        return "cancelled", "owner_stop"
    if joins and pause is not None:
        return "paused", pause
    if asked and run.open_approvals == asked:
        return "running", None
    return run.status, run.reason


def is_touched(rows: Rows, call: Call) -> bool:
    """Another change of its step is to go before it."""
    return call.is_change and any(
        c.step == call.step and c.key == call.key and c.state in ("ready", "started")
        for c in rows.calls
    )


def _is_void(rows: Rows, call: Call) -> bool:
    if call.is_change:
        return was_done(rows, call)
    is_old = rows.run.is_stopped or rows.run.steer_rev != call.steer_rev
    return call.attempt > 0 and is_old


def _start(rows: Rows, call: Call, worker: Worker) -> Done:
    started = call._replace(
        state="started",
        attempt=call.attempt + 1,
        holder=worker,
        is_overdue=False,
        misses=call.misses if call.is_change else 0,
    )
    return Done(rows.with_call(started), is_done=True, attempt=started.attempt)


def _is_at(call: Call, attempt: int, worker: Worker) -> bool:
    return call.state == "started" and call.attempt == attempt and call.holder == worker
