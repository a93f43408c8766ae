"""A call, point by point: tasks/tool_call.py."""

from collections.abc import Iterator

from tests.state.moves import Move, through
from tests.state.record import CallRef, Done, Worker
from tests.state.system import System
from tests.state.world import IDLE, Message, Mind, Moment, Sent

MOST_LOOKS = 2
"""Of workers without the tool, after which a call is refused."""


def hear_call(heard: Moment, slot: Worker, ref: CallRef, system: System) -> Iterator[Move]:
    call = heard.rows.call(ref)
    if call is None or call.state != "ready":
        yield Move(f"hears of call {ref} and finds nothing to do", slot, heard)
        return
    if not system.intends_first and call.is_change:
        yield Move(f"sends {ref} before its intent", slot, _sending(heard, slot, ref, 1))
        return
    if not system.checks_with_the_intent and call.is_change:
        if not heard.rows.run.is_stopped and call.steer_rev == heard.rows.run.steer_rev:
            yield Move(
                f"finds that {ref} may start", slot, heard.thinking(slot, Mind("checked", call=ref))
            )
        return
    yield from _start(heard, slot, ref, system)
    done = system.leave_call(heard.rows, ref, MOST_LOOKS, is_known=False)
    left = heard.after(done)
    looked = done.rows.call(ref)
    if looked is not None and looked.misses < MOST_LOOKS:
        yield Move(f"leaves {ref} to others", slot, through(left, slot, (ref,)), "missing")
    else:
        after = left.thinking(slot, Mind("missing", call=ref))
        yield Move(f"finds that nobody has the tool of {ref}", slot, after, "missing")


def _start(heard: Moment, slot: Worker, ref: CallRef, system: System) -> Iterator[Move]:
    call = heard.rows.call(ref)
    assert call is not None
    verb = system.record_intent if call.is_change else system.start_read
    done = verb(heard.rows, ref, slot)
    if not done.is_done:
        yield Move(f"may not start {ref}", slot, heard.thinking(slot, IDLE))
        return
    mind = Mind("started", call=ref, attempt=done.attempt)
    after = heard.after(done)
    yield Move(f"starts {ref}", slot, after.thinking(slot, mind))
    yield Move(
        f"starts {ref} and gets no answer",
        slot,
        after.thinking(slot, Mind("unsure", call=ref)),
        "unanswered",
    )


def carry_call(moment: Moment, slot: Worker, system: System) -> Iterator[Move]:
    """Whatever a process with a call does next."""
    mind = moment.minds[slot]
    ref = mind.call
    assert ref is not None
    if mind.at == "unsure":
        done = system.find_own_start(moment.rows, ref, slot)
        found = Mind("started", call=ref, attempt=done.attempt) if done.is_done else IDLE
        yield Move(f"looks whether it started {ref}", slot, moment.thinking(slot, found))
    elif mind.at == "checked":
        done = system.record_intent(moment.rows, ref, slot)
        after = Mind("started", call=ref, attempt=1) if done.is_done else IDLE
        yield Move(f"starts {ref}", slot, moment.after(done).thinking(slot, after))
    elif mind.at == "missing":
        done = system.give_up_call(moment.rows, ref, "refused", "contract_mismatch")
        yield Move(f"refuses {ref}", slot, _rings(moment, slot, done))
    elif mind.at == "noting":
        done = system.note_late(moment.rows, ref, mind.attempt, mind.outcome)
        yield Move(f"notes {mind.outcome} of {ref}", slot, moment.after(done).thinking(slot, IDLE))
    elif mind.at == "sent":
        yield from _hear_outside(moment, slot, ref, system)
    elif _is_change(moment, ref):
        call = moment.rows.call(ref)
        if system.looks_at_the_clock and call is not None and call.is_overdue:
            says = f"does not send {ref}: it is too late"
            yield Move(says, slot, _settled(moment, slot, ref, "not_done", system))
        else:
            yield Move(f"sends {ref}", slot, _sending(moment, slot, ref, mind.attempt))
    else:
        yield from _end_read(moment, slot, ref, system)


def _end_read(moment: Moment, slot: Worker, ref: CallRef, system: System) -> Iterator[Move]:
    attempt = moment.minds[slot].attempt
    done = system.settle_read(moment.rows, ref, attempt, slot, "returned")
    yield Move(f"settles {ref}", slot, _rings(moment, slot, done))
    back = system.hand_back_read(moment.rows, ref, attempt, slot)
    if back.is_done:
        after = through(moment.after(back), slot, (ref,))
        yield Move(f"ends: hands {ref} back", slot, after, "drains")
    else:
        cut = system.settle_read(moment.rows, ref, attempt, slot, "errored")
        yield Move(f"ends: cuts {ref} short", slot, _rings(moment, slot, cut), "drains")


def _hear_outside(moment: Moment, slot: Worker, ref: CallRef, system: System) -> Iterator[Move]:
    sent = moment.ledger(ref)
    assert sent is not None
    if not sent.is_flying:
        yield Move(f"hears that {ref} is done", slot, _settled(moment, slot, ref, "done", system))
        return
    after = _settled(moment, slot, ref, "unknown", system)
    yield Move(f"hears nothing of {ref}", slot, after, "resets")
    refused = moment.with_sent(sent._replace(is_flying=False))
    after = _settled(refused, slot, ref, "not_done", system)
    yield Move(f"hears that {ref} is refused", slot, after, "refusals")


def _settled(moment: Moment, slot: Worker, ref: CallRef, outcome: str, system: System) -> Moment:
    attempt = moment.minds[slot].attempt
    if not system.intends_first and moment.rows.call(ref):
        moment = moment.after(system.record_intent(moment.rows, ref, slot))
    done = system.settle_change(moment.rows, ref, attempt, outcome)
    if not done.is_done and outcome != "unknown":
        return moment.thinking(slot, Mind("noting", call=ref, attempt=attempt, outcome=outcome))
    return _rings(moment, slot, done)


def _sending(moment: Moment, slot: Worker, ref: CallRef, attempt: int) -> Moment:
    entry = moment.ledger(ref) or Sent(ref, is_flying=False)
    moment = moment.with_sent(entry._replace(is_flying=True))
    return moment.thinking(slot, Mind("sent", call=ref, attempt=attempt))


def _rings(moment: Moment, slot: Worker, done: Done) -> Moment:
    bells: tuple[Message, ...] = () if done.next_call is None else (done.next_call,)
    if done.next_step is not None:
        bells = (*bells, (done.next_step, 0))
    return through(moment.after(done), slot, bells)


def _is_change(moment: Moment, ref: CallRef) -> bool:
    call = moment.rows.call(ref)
    return call is not None and call.is_change
