"""What must hold in every moment, and for every move. The text names what is broken."""

from collections.abc import Iterator

from tests.state.moves import OUTSIDE, RESUMES, Move
from tests.state.record import OPEN_STATES, SETTLED, SHARED, Call
from tests.state.world import Moment


def broken_in(moment: Moment) -> str | None:
    """The first rule that a moment breaks."""
    return next(
        (
            broken
            for rule in (
                _outside,
                _receipts,
                _counters,
                _limits,
                _decisions,
                _unknowns,
                _pauses,
                _resources,
                _approvals,
                _constraints,
            )
            for broken in rule(moment)
        ),
        None,
    )


def broken_by(before: Moment, move: Move) -> str | None:
    """The first rule that a move breaks."""
    if move.after.rows is before.rows:
        return None
    return next(
        (broken for rule in (_holding, _going_on, _started) for broken in rule(before, move)),
        None,
    )


def _holding(before: Moment, move: Move) -> Iterator[str]:
    was, now = before.rows.run, move.after.rows.run
    if move.after.decided != before.decided and was.holder != move.who:
        yield "a worker decides that does not hold the run"
    if was.work == "held" and was.holder != now.holder:
        may_take = was.holder in before.dead if move.who == OUTSIDE else was.holder == move.who
        if not may_take:
            yield "a run is taken from its holder"


def _going_on(before: Moment, move: Move) -> Iterator[str]:
    after = move.after
    was, now = before.rows.run, after.rows.run
    if was.status in SETTLED and now.status not in SETTLED and not move.says.startswith(RESUMES):
        yield "a settled run goes on by itself"
    if was.work == "calls" and now.work == "ready" and now.pause_reason is not None:
        yield "a run goes on that was to pause"
    if after.has_gap:
        yield "event numbers have a gap"
    if now.work == "held" and now.fence != was.fence:
        if was.is_stopped:
            yield "the model is asked after a stop"
        if any(call.state == "unknown" for call in before.rows.calls):
            yield "the model is asked beside an unknown outcome"


def _started(before: Moment, move: Move) -> Iterator[str]:
    """What began with this move must have been allowed before it."""
    for call in move.after.rows.calls:
        old = before.rows.call(call.ref)
        if old is None:
            continue
        if call.receipt is not None and old.receipt is None:
            yield from _intent(before, call)
            yield from _on_whose_word(before, call)
        if call.state != "started" or old.state == "started":
            continue
        if before.rows.run.is_stopped:
            yield "a call starts after a stop"
        if call.needs_approval and (not old.is_approved or old.is_lapsed):
            yield "a call starts that nobody has approved, or not lately"


def _intent(before: Moment, call: Call) -> Iterator[str]:
    rows = before.rows
    if rows.run.is_stopped:
        yield "intent after a stop"
    if any(other.state == "unknown" for other in rows.calls):
        yield "intent beside an unknown outcome"
    for model in rows.models:
        unheard = [steer.mode for steer in rows.steers[model.steers :]]
        if (model.step, model.decision) == (call.step, "dispatch") and "redirect" in unheard:
            yield "intent after a correction that its decision had not heard"
    yield from _repetition(before, call)
    for other in rows.calls:
        is_asked = call.needs_approval or other.needs_approval
        is_earlier = other.step == call.step and other.position < call.position
        if is_earlier and other.key == call.key and other.state in OPEN_STATES and not is_asked:
            yield "a change overtakes an earlier one of its resource"


def _repetition(before: Moment, call: Call) -> Iterator[str]:
    rows = before.rows
    for other in rows.calls:
        if other.ref == call.ref or other.receipt is None:
            continue
        if other.key == call.key and other.quiet == "active":
            yield "intent inside a quarantine"
        if other.args != call.args:
            continue
        if other.receipt.verified != "happened" and other.receipt.late_outcome == "done":
            yield "intent of a change that was reported done meanwhile"


def _on_whose_word(before: Moment, call: Call) -> Iterator[str]:
    """What was decided from a collaborator's words needs the owner."""
    for model in before.rows.models:
        if model.step == call.step and model.decision == "dispatch":
            heard = before.rows.steers[: model.steers]
            if any(steer.is_foreign for steer in heard) and not call.is_approved:
                yield "a change starts on the word of a collaborator"


def _outside(moment: Moment) -> Iterator[str]:
    for sent in moment.sent:
        call = moment.rows.call(sent.call)
        if sent.effects + sent.is_flying > 1:
            yield "a change is sent twice"
        if call is None or call.receipt is None:
            yield "a change is sent without intent"
        elif sent.is_flying and call.receipt.verified is not None:
            for other in moment.rows.calls:
                if other.ref > call.ref and other.args == call.args and other.receipt is not None:
                    yield "a change may still happen beside its repetition"


def _receipts(moment: Moment) -> Iterator[str]:
    for call in moment.rows.calls:
        if call.receipt is None:
            continue
        sent = moment.ledger(call.ref)
        happened, may_happen = (sent.effects > 0, sent.is_flying) if sent else (False, False)
        for word in (call.receipt.outcome, call.receipt.late_outcome):
            if word == "done" and not happened:
                yield "a receipt says done, and nothing happened"
            if word == "not_done" and (happened or may_happen):
                yield "a receipt says not done, and it happens"
        if call.state == "unknown" and call.receipt.outcome != "unknown":
            yield "an unknown call has another receipt"
        if call.state in ("skipped", "refused", *OPEN_STATES[:3]):
            yield "a call that was sent looks as if it was not"


def _counters(moment: Moment) -> Iterator[str]:
    run, calls = moment.rows.run, moment.rows.calls
    if run.open_calls != sum(call.state in OPEN_STATES for call in calls):
        yield "open calls are miscounted"
    if run.unknowns != sum(call.state == "unknown" for call in calls):
        yield "unknown outcomes are miscounted"
    if any(call.step < run.step and call.state in OPEN_STATES for call in calls):
        yield "the run went on before every call had ended"
    if run.steers != len(moment.rows.steers):
        yield "corrections are miscounted"
    is_over = run.status in ("completed", "cancelled")
    if is_over and any(steer.state == "accepted" for steer in moment.rows.steers):
        yield "a correction is lost"


def _limits(moment: Moment) -> Iterator[str]:
    run, keys = moment.rows.run, moment.rows.keys
    if len(set(keys)) != len(keys):
        yield "an action counts twice"
    if run.calls_used != moment.proposed:
        yield "calls are miscounted"
    if run.call_limit and moment.proposed > run.call_limit:
        yield "more calls than the limit allows"


def _decisions(moment: Moment) -> Iterator[str]:
    run = moment.rows.run
    if len(set(moment.decided)) != len(moment.decided):
        yield "a step has two decisions"
    if set(range(1, run.step)) - set(moment.decided):
        yield "a step went by without a decision"
    for model in moment.rows.models:
        if model.decision is not None and not model.has_usage:
            yield "a decision is used before its usage is booked"
        if model.state == "open" and (run.work != "held" or model.step != run.step):
            yield "an attempt is open that nobody makes"
    if moment.answers != (run.status == "completed"):
        yield "a run has no answer, or several"


def _unknowns(moment: Moment) -> Iterator[str]:
    run = moment.rows.run
    if not any(call.state == "unknown" for call in moment.rows.calls):
        return
    if run.work in ("ready", "held"):
        yield "a run goes on beside an unknown outcome"
    if run.work == "none" and run.status not in ("paused", "cancelled", "failed"):
        yield "an unknown outcome does not pause its run"


def _pauses(moment: Moment) -> Iterator[str]:
    run = moment.rows.run
    if run.work == "held" and run.pause_reason is not None:
        yield "a step begins with the pause of the one before"


def _resources(moment: Moment) -> Iterator[str]:
    rows = moment.rows
    keys = [c.key for c in rows.calls if c.is_change and c.state in ("started", "unknown")]
    keys += [SHARED] if rows.is_taken else []
    if len(set(keys)) != len(keys):
        yield "two changes of one resource are on their way"


def _approvals(moment: Moment) -> Iterator[str]:
    run, calls = moment.rows.run, moment.rows.calls
    if run.open_approvals != sum(call.state == "awaiting_approval" for call in calls):
        yield "open approvals are miscounted"
    if (run.open_approvals > 0) != (run.reason == "approval_required"):
        yield "a run waits for its owner without a question, or the reverse"
    if any(c.needs_approval and not c.is_approved and c.attempt for c in calls):
        yield "a call was started that nobody has approved"


def _constraints(moment: Moment) -> Iterator[str]:
    """The CHECK constraints of the table."""
    run = moment.rows.run
    if (run.work == "held") != (run.holder is not None):
        yield "a holder without a held run, or the reverse"
    if run.work != "none" and run.status not in ("running", "waiting", "cancelling"):
        yield "work in a run that is not active"
    if run.work == "calls" and not run.open_calls:
        yield "a run waits for calls that are not there"
    if min(run.open_calls, run.unknowns) < 0:
        yield "a counter below zero"
    if (run.reason is None) != (run.status in ("queued", "running", "cancelling", "completed")):
        yield "a status without its reason, or the reverse"
    if run.status == "completed" and (run.open_calls or run.unknowns or not run.is_answered):
        yield "a run is completed with open ends"
