"""A step, point by point: tasks/step.py."""

from collections.abc import Iterator
from typing import assert_never

from loop.decision import Answer, Discard, Dispatch, Pause, Retry
from tests.state.moves import Move, through
from tests.state.record import Claim, Done, Rows, Worker
from tests.state.system import Scenario, System
from tests.state.world import IDLE, Message, Mind, Moment


def hear_step(heard: Moment, slot: Worker, step: int, system: System) -> Iterator[Move]:
    run = heard.rows.run
    is_ready = run.step == step and run.work == "ready"
    done = system.claim_step(heard.rows, step, slot)
    if done.claim is None or (heard.lock is not None and not is_ready):
        yield Move(f"hears of step {step} and finds nothing to do", slot, heard)
        return
    if heard.lock is None:
        heard = heard._replace(lock=slot)
    yield Move(
        f"claims step {step}",
        slot,
        heard.after(done).thinking(slot, Mind("claimed", claim=done.claim)),
    )
    late = system.put_off_step(heard.rows, step)
    says = f"raises before it claims step {step}, and puts it off"
    yield Move(says, slot, through(heard.after(late), slot, ()), "early")
    lost = Mind("unsure", claim=done.claim)
    yield Move(
        f"claims step {step} and gets no answer",
        slot,
        heard.after(done).thinking(slot, lost),
        "unanswered",
    )


def decide_step(moment: Moment, slot: Worker, scenario: Scenario, system: System) -> Iterator[Move]:
    mind = moment.minds[slot]
    claim = _claim_of(moment, slot)
    if mind.at == "unheard":
        done = system.commit_dispatch(moment.rows, claim, ())
        yield _decided(moment, slot, done, "makes the answer one more step")
        return
    if not system.books_with_the_decision and mind.at == "claimed":
        yield _saved_bare(moment, slot, claim, scenario)
        return
    if mind.at == "saved":
        done = system.book_reply(moment.rows, claim, discard=False)
        yield Move("books the usage", slot, moment.after(done).thinking(slot, IDLE))
        return
    for fails in (False, True):
        if fails and claim.is_stored:
            continue
        says, done, misses = _apply(moment.rows, claim, scenario, system, fails=fails)
        fault = "failures" if fails else ""
        yield _decided(moment, slot, done, says, fault, misses=misses)
    unapplied = Mind("unapplied", claim=mind.claim)
    yield Move("cannot apply the reply", slot, moment.thinking(slot, unapplied), "errors")


def _apply(
    rows: Rows, claim: Claim, scenario: Scenario, system: System, *, fails: bool
) -> tuple[str, Done, str]:
    """What it does, what comes of it, and where it stands if nothing came of it."""
    decision = scenario.decide(claim, rows.run.call_limit, fails=fails)
    match decision:
        case Answer():
            return "answers", system.commit_answer(rows, claim), "unheard"
        case Dispatch(calls=calls):
            planned = scenario.planned(calls, must_ask=claim.owner_must_approve)
            is_in_vain = bool(planned) and all(
                call.state in ("refused", "errored") for call in planned
            )
            if claim.corrections >= scenario.policy.corrections and is_in_vain:
                pause = Pause("repeated_failure", "")
                return "pauses", _paused(rows, claim, pause, system), "stale"
            return "dispatches", system.commit_dispatch(rows, claim, planned), "stale"
        case Retry(wait_seconds=seconds):
            return "retries", system.commit_retry(rows, claim, waits=seconds > 0), "stale"
        case Pause():
            return "pauses", _paused(rows, claim, decision, system), "stale"
        case Discard():
            return "discards", Done(rows), "stale"
        case _:
            assert_never(decision)


def _paused(rows: Rows, claim: Claim, pause: Pause, system: System) -> Done:
    return system.commit_pause(rows, claim, pause.reason, keeps_reply=pause.keeps_reply)


def _decided(
    moment: Moment, slot: Worker, done: Done, says: str, fault: str = "", *, misses: str = "stale"
) -> Move:
    if not done.is_done:
        after = moment.thinking(slot, moment.minds[slot]._replace(at=misses))
        return Move(f"{says}: the run has moved on", slot, after, fault)
    step = done.rows.run.step
    ready = tuple(c.ref for c in done.rows.calls if c.step == step and c.state == "ready")
    bells: tuple[Message, ...] = ready if done.rows.run.work == "calls" else ()
    if done.next_step is not None:
        bells = ((done.next_step, 0),)
    return Move(says, slot, through(moment.after(done), slot, bells), fault)


def _saved_bare(moment: Moment, slot: Worker, claim: Claim, scenario: Scenario) -> Move:
    """Only in a planted fault: the decision is committed and its usage is not."""
    says, done, _ = _apply(moment.rows, claim, scenario, System(), fails=False)
    if not done.is_done:
        return _decided(moment, slot, done, says)
    models = tuple(
        m._replace(has_usage=False) if m.decision and m not in moment.rows.models else m
        for m in done.rows.models
    )
    bare = done._replace(rows=done.rows._replace(models=models))
    mind = Mind("saved", claim=moment.minds[slot].claim)
    return Move(f"{says} without its usage", slot, moment.after(bare).thinking(slot, mind))


def give_up_stream(moment: Moment, slot: Worker, system: System) -> Iterator[Move]:
    claim, run = _claim_of(moment, slot), moment.rows.run
    if claim.is_stored or moment.minds[slot].at != "claimed":
        return
    news = run.fence > claim.fence or run.is_stopped or run.steer_rev > claim.steer_rev
    done = system.book_reply(moment.rows, claim, discard=True)
    after = moment.after(done).thinking(slot, Mind("back", claim=moment.minds[slot].claim))
    if news or moment.silent[slot]:
        yield Move("gives the stream up", slot, after)
    else:
        yield Move("ends: gives the stream up", slot, after, "drains")


def leave_step(moment: Moment, slot: Worker, system: System) -> Iterator[Move]:
    mind, claim = moment.minds[slot], _claim_of(moment, slot)
    if mind.at == "back":
        done = system.hand_back(moment.rows, claim, is_failure=mind.outcome == "failure")
        bells = ((claim.step, 0),) if done.is_done and mind.outcome == "stale" else ()
        yield Move("hands the run back", slot, through(moment.after(done), slot, bells))
        return
    is_stale = mind.at == "stale"
    done = system.book_reply(moment.rows, claim, discard=is_stale)
    back = Mind("back", claim=mind.claim, outcome="stale" if is_stale else "failure")
    yield Move("books the reply alone", slot, moment.after(done).thinking(slot, back))


def _claim_of(moment: Moment, slot: Worker) -> Claim:
    claim = moment.minds[slot].claim
    assert claim is not None
    return claim._replace(worker=slot)


def release_step(moment: Moment, slot: Worker, system: System) -> Iterator[Move]:
    """Its claim may have been committed, and it knows of none."""
    claim = _claim_of(moment, slot)
    done = system.release_own(moment.rows, claim.step, slot)
    yield Move("releases its own", slot, through(moment.after(done), slot, ()))
