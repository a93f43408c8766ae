"""What everybody else does: the sweeper, the owner, time, and whoever hurts the system."""

from collections.abc import Iterator

from tests.state.approval_moves import answers, expiries, lapses
from tests.state.call_verbs import MAX_READ_ATTEMPTS, is_closed
from tests.state.moves import OUTSIDE, RESUMES, Move
from tests.state.record import GONE, SHARED, Call, CallRef
from tests.state.system import Scenario, System
from tests.state.world import IDLE, Message, Moment, renamed

HIGHER_LIMIT = 9
"""Calls that a run may ask for after a resume that says so."""


def sweeper_moves(moment: Moment, scenario: Scenario, system: System) -> Iterator[Move]:
    """What scheduler/sweeper.py would find to do."""
    if not system.sweeps:
        return
    rows, dead = moment.rows, moment.dead
    done = system.take_over(rows, dead, scenario.policy.max_losses)
    if done.is_done:
        lock = None if moment.lock == rows.run.holder else moment.lock
        yield Move("sweeper takes over", OUTSIDE, moment.after(done)._replace(lock=lock))
    done = system.free_reads(rows, dead)
    if done.is_done:
        yield Move("sweeper frees reads", OUTSIDE, moment.after(done))
    for call in rows.calls:
        if call.state == "started":
            yield from _settle_started(moment, call, system)
    for ref in system.void_calls(rows):
        yield _swept(moment, ref, "skipped", system)
    yield from expiries(moment, system)
    yield from _announce(moment, system)


def _settle_started(moment: Moment, call: Call, system: System) -> Iterator[Move]:
    if call.is_change:
        done = system.settle_lost_change(moment.rows, call.ref, call.attempt, moment.dead)
    else:
        done = system.settle_stalled_read(moment.rows, call.ref, call.attempt)
    if done.is_done:
        state = "unknown" if call.is_change else "an error"
        yield Move(f"sweeper makes {call.ref} {state}", OUTSIDE, moment.after(done))


def _announce(moment: Moment, system: System) -> Iterator[Move]:
    run = moment.rows.run
    if run.work == "ready" and not run.must_wait:
        yield from _bell(moment, (run.step, 0))
    for call in moment.rows.calls:
        if call.state != "ready":
            continue
        if not call.is_change and call.attempt >= MAX_READ_ATTEMPTS:
            yield _swept(moment, call.ref, "errored", system)
        else:
            yield from _bell(moment, call.ref)


def _bell(moment: Moment, message: Message) -> Iterator[Move]:
    if message not in moment.mail:
        yield Move(f"sweeper rings for {message}", OUTSIDE, moment.with_mail(message))


def _swept(moment: Moment, ref: CallRef, state: str, system: System) -> Move:
    done = system.give_up_call(moment.rows, ref, state)
    return Move(f"sweeper ends {ref} as {state}", OUTSIDE, moment.after(done))


def time_moves(moment: Moment) -> Iterator[Move]:
    """What comes by itself."""
    rows, run = moment.rows, moment.rows.run
    if run.must_wait:
        after = moment._replace(rows=rows.with_run(run._replace(must_wait=False)))
        yield Move("the wait is over", OUTSIDE, after)
    if moment.lock == GONE:
        yield Move("the lock of the dead expires", OUTSIDE, moment._replace(lock=None))
    for slot in (0, 1):
        if moment.silent[slot]:
            silent = (False, moment.silent[1]) if slot == 0 else (moment.silent[0], False)
            yield Move("is heard of again", slot, moment._replace(silent=silent))
    for sent in moment.sent:
        if sent.is_flying:
            landed = sent._replace(is_flying=False, effects=sent.effects + 1)
            yield Move(f"{sent.call} happens outside", OUTSIDE, moment.with_sent(landed))
    yield from _quarantine_moves(moment)
    yield from _other_run(moment)


def _quarantine_moves(moment: Moment) -> Iterator[Move]:
    """A quarantine outlasts every request that was sent before the deadline: that is assumed."""
    for call in moment.rows.calls:
        sent = moment.ledger(call.ref)
        if call.quiet == "active" and not (sent is not None and sent.is_flying):
            rows = moment.rows.with_call(call._replace(quiet="over", is_overdue=True))
            yield Move("the quarantine is over", OUTSIDE, moment._replace(rows=rows))


def _other_run(moment: Moment) -> Iterator[Move]:
    """What a change of another run does that touches the same thing."""
    rows = moment.rows
    if rows.is_taken:
        after = moment._replace(rows=rows._replace(is_taken=False))
        yield Move("the other run's change ends", OUTSIDE, after)
    elif moment.budget.others and not is_closed(rows, SHARED):
        after = moment._replace(rows=rows._replace(is_taken=True))
        yield Move("a change of another run starts", OUTSIDE, after, "others")


def owner_moves(moment: Moment, scenario: Scenario, system: System) -> Iterator[Move]:
    """What the owner may say now; each takes from its budget."""
    rows, left = moment.rows, moment.budget
    if left.redirects and (done := system.steer_run(rows, "redirect")).is_done:
        yield Move("owner steers (redirect)", OUTSIDE, moment.after(done), "redirects")
    if left.appends and (done := system.steer_run(rows, "append")).is_done:
        yield Move("owner steers (append)", OUTSIDE, moment.after(done), "appends")
    if left.stops and (done := system.stop_run(rows)).is_done:
        yield Move("owner stops", OUTSIDE, moment.after(done), "stops")
    if left.resumes and (done := system.resume_run(rows)).is_done:
        yield Move(RESUMES, OUTSIDE, moment.after(done), "resumes")
    yield from _further_moves(moment, system)
    yield from answers(moment, scenario, system)
    for call in rows.calls if left.verifications else ():
        if call.state != "unknown":
            continue
        sent = moment.ledger(call.ref)
        word = "happened" if sent is not None and sent.effects else "not_happened"
        done = system.verify_receipt(rows, call.ref, word)
        if done.is_done:
            says = f"owner finds that {call.ref} has {word}"
            yield Move(says, OUTSIDE, moment.after(done), "verifications")


def _further_moves(moment: Moment, system: System) -> Iterator[Move]:
    """Of collaborators, under keys, and with other limits."""
    rows, left = moment.rows, moment.budget
    for mode in ("redirect", "append") if left.guests else ():
        if (done := system.steer_run(rows, mode, who="guest")).is_done:
            yield Move(f"collaborator steers ({mode})", OUTSIDE, moment.after(done), "guests")
    if left.keyed and (done := system.steer_run(rows, "append", key="k")).is_done:
        yield Move("owner steers under a key", OUTSIDE, moment.after(done), "keyed")
    if left.raises and (done := system.resume_run(rows, limit=HIGHER_LIMIT)).is_done:
        yield Move(f"{RESUMES} with a higher limit", OUTSIDE, moment.after(done), "raises")


def fault_moves(moment: Moment) -> Iterator[Move]:
    """What hurts; each takes from its budget."""
    left = moment.budget
    for slot in (0, 1):
        if moment.minds[slot].at == "idle":
            continue
        if left.kills:
            dead = renamed(moment, slot, GONE).thinking(slot, IDLE)
            yield Move("is killed", slot, dead, "kills")
        if left.silences and not moment.silent[slot]:
            silent = (True, moment.silent[1]) if slot == 0 else (moment.silent[0], True)
            yield Move("is not heard of", slot, moment._replace(silent=silent), "silences")
    yield from _redis_moves(moment)
    if left.deadlines:
        yield from _deadline_moves(moment)
    yield from lapses(moment)


def _deadline_moves(moment: Moment) -> Iterator[Move]:
    for call in moment.rows.calls:
        if call.state in ("started", "unknown") and not call.is_overdue:
            late = moment.rows.with_call(call._replace(is_overdue=True))
            says = f"the deadline of {call.ref} passes"
            yield Move(says, OUTSIDE, moment._replace(rows=late), "deadlines")


def _redis_moves(moment: Moment) -> Iterator[Move]:
    left = moment.budget
    for message in dict.fromkeys(moment.mail) if left.duplicates else ():
        mail = tuple(sorted((*moment.mail, message)))
        yield Move(f"{message} is doubled", OUTSIDE, moment._replace(mail=mail), "duplicates")
    if left.flushes and (moment.mail or moment.lock is not None):
        yield Move("Redis is emptied", OUTSIDE, moment._replace(mail=(), lock=None), "flushes")
