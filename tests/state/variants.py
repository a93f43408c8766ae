"""Planted faults: each is a system that looks right and is not, and the search must find out."""

from dataclasses import dataclass, replace
from typing import Final

from tests.state import faulty, faulty_people
from tests.state.scenarios import (
    AGAIN,
    ASKED,
    FAILING,
    GUESTS,
    KEYED,
    KILLED,
    LIMITED,
    LOSSES,
    PAIR,
    STEERED,
    STOPPED,
    TOOLS,
    ZOMBIE,
)
from tests.state.system import Scenario, System

REAL: Final = System()


@dataclass(frozen=True, slots=True, eq=False)
class Variant:
    """A wrong system, a scenario in which it shows, and what the search must say of it."""

    name: str
    scenario: Scenario
    broken: str
    system: System


VARIANTS: Final = (
    Variant(
        "a decision without the fence",
        ZOMBIE,
        "a worker decides that does not hold the run",
        replace(
            REAL,
            commit_dispatch=faulty.dispatch_without_fence,
            commit_answer=faulty.answer_without_fence,
        ),
    ),
    Variant(
        "a decision by a fence that nobody raises",
        ZOMBIE,
        "a worker decides that does not hold the run",
        replace(
            REAL,
            commit_dispatch=faulty.dispatch_by_fence_alone,
            commit_answer=faulty.answer_by_fence_alone,
            take_over=faulty.takeover_without_fence,
            claim_step=faulty.claim_without_fence,
        ),
    ),
    Variant(
        "a claim of a held run",
        KILLED,
        "a run is taken from its holder",
        replace(REAL, claim_step=faulty.claim_of_a_held_run),
    ),
    Variant(
        "a hand-back by anybody",
        STOPPED,
        "a run is taken from its holder",
        replace(REAL, hand_back=faulty.hand_back_by_anybody),
    ),
    Variant(
        "the intent after the sending",
        AGAIN,
        "a change is sent without intent",
        replace(REAL, intends_first=False),
    ),
    Variant(
        "the stop checked apart from the intent",
        STOPPED,
        "intent after a stop",
        replace(
            REAL,
            checks_with_the_intent=False,
            record_intent=faulty.intent_without_stop,
            stop_run=faulty.stop_without_skipping,
        ),
    ),
    Variant(
        "an intent beside an unknown outcome",
        PAIR,
        "intent beside an unknown outcome",
        replace(
            REAL,
            record_intent=faulty.intent_beside_unknown,
            settle_lost_change=faulty.unknown_beside_its_siblings,
        ),
    ),
    Variant(
        "an intent inside a quarantine",
        AGAIN,
        "intent inside a quarantine",
        replace(REAL, record_intent=faulty.intent_in_quarantine),
    ),
    Variant(
        "an intent after a late done",
        AGAIN,
        "intent of a change that was reported done meanwhile",
        replace(REAL, record_intent=faulty.intent_after_a_late_done),
    ),
    Variant(
        "an intent beside a change of another run",
        KEYED,
        "two changes of one resource are on their way",
        replace(REAL, record_intent=faulty.intent_beside_another_run),
    ),
    Variant(
        "a join that readies a change beside an earlier one of its resource",
        KEYED,
        "a change overtakes an earlier one of its resource",
        replace(REAL, settle_read=faulty.read_that_readies_any_call),
    ),
    Variant(
        "a change sent after its deadline",
        AGAIN,
        "a change may still happen beside its repetition",
        replace(REAL, looks_at_the_clock=False),
    ),
    Variant(
        "a sweeper that sends an open intent again",
        AGAIN,
        "a change is sent without intent",
        replace(REAL, settle_lost_change=faulty.lost_change_made_ready),
    ),
    Variant(
        "a decision saved before its usage",
        KILLED,
        "a decision is used before its usage is booked",
        replace(REAL, books_with_the_decision=False),
    ),
    Variant(
        "a join by a stale count",
        LOSSES,
        "a run waits for calls that are not there",
        replace(REAL, settle_read=faulty.join_by_a_stale_count),
    ),
    Variant("no sweeper", KILLED, "a dead end: nothing leads on", replace(REAL, sweeps=False)),
    Variant(
        "a sweeper that leaves void calls",
        STOPPED,
        "a dead end: nothing leads on",
        replace(REAL, void_calls=faulty.no_void_calls),
    ),
    Variant(
        "a late receipt that moves the run",
        AGAIN,
        "a settled run goes on by itself",
        replace(REAL, settle_change=faulty.late_receipt_that_moves_the_run),
    ),
    Variant(
        "a receipt that may be written again",
        AGAIN,
        "open calls are miscounted",
        replace(REAL, settle_change=faulty.receipt_of_any_state),
    ),
    Variant(
        "a verification without quarantine",
        AGAIN,
        "a change may still happen beside its repetition",
        replace(REAL, verify_receipt=faulty.verification_without_quarantine),
    ),
    Variant(
        "a correction that leaves ready calls",
        TOOLS,
        "a dead end: nothing leads on",
        replace(REAL, steer_run=faulty.steer_without_skipping),
    ),
    Variant(
        "a correction without a new revision",
        STEERED,
        "intent after a correction that its decision had not heard",
        replace(REAL, steer_run=faulty.steer_without_revision),
    ),
    Variant(
        "a stored reply kept by a correction",
        STEERED,
        "intent after a correction that its decision had not heard",
        replace(REAL, steer_run=faulty.stored_reply_of_any_revision),
    ),
    Variant(
        "a reply stored under an older revision",
        STEERED,
        "intent after a correction that its decision had not heard",
        replace(REAL, book_reply=faulty.book_for_any_revision),
    ),
    Variant(
        "an answer that has not heard the last word",
        STEERED,
        "a correction is lost",
        replace(REAL, commit_answer=faulty.answer_that_has_not_heard),
    ),
    Variant(
        "a stop that leaves ready calls",
        STOPPED,
        "a dead end: nothing leads on",
        replace(REAL, stop_run=faulty.stop_without_skipping),
    ),
    Variant(
        "a stop that keeps corrections",
        FAILING,
        "a correction is lost",
        replace(REAL, stop_run=faulty.stop_that_keeps_corrections),
    ),
    Variant(
        "a read that starts after a stop",
        STOPPED,
        "a call starts after a stop",
        replace(REAL, start_read=faulty.read_of_a_stopped_run),
    ),
    Variant(
        "a skip that is not counted down",
        PAIR,
        "open calls are miscounted",
        replace(REAL, settle_lost_change=faulty.unknown_that_forgets_its_siblings),
    ),
    Variant(
        "an unknown outcome that does not pause",
        AGAIN,
        "a run goes on beside an unknown outcome",
        replace(REAL, settle_lost_change=faulty.unknown_that_does_not_pause),
    ),
    Variant(
        "a resume beside an unknown outcome",
        AGAIN,
        "a run goes on beside an unknown outcome",
        replace(REAL, resume_run=faulty.resume_beside_unknown),
    ),
    Variant(
        "an event number without its event",
        STOPPED,
        "event numbers have a gap",
        replace(REAL, stop_run=faulty.skipped_event_forgotten),
    ),
    Variant(
        "an intent by an approval that has lapsed",
        ASKED,
        "a call starts that nobody has approved, or not lately",
        replace(REAL, record_intent=faulty.intent_by_a_lapsed_approval),
    ),
    Variant(
        "a grant that is not counted",
        ASKED,
        "open approvals are miscounted",
        replace(REAL, grant_call=faulty.grant_that_forgets_the_counter),
    ),
    Variant(
        "a sweeper that leaves lapsed approvals",
        ASKED,
        "a dead end: nothing leads on",
        replace(REAL, expire_approval=faulty.no_expiry),
    ),
    Variant(
        "a correction that leaves questions open",
        ASKED,
        "a dead end: nothing leads on",
        replace(REAL, steer_run=faulty.correction_that_leaves_questions),
    ),
    Variant(
        "a join that forgets why to pause",
        TOOLS,
        "a run goes on that was to pause",
        replace(REAL, settle_change=faulty.receipt_that_forgets_the_pause),
    ),
    Variant(
        "a claim that keeps the pause of the step before",
        TOOLS,
        "a step begins with the pause of the one before",
        replace(REAL, claim_step=faulty.claim_that_keeps_the_pause),
    ),
    Variant(
        "a correction that counts as often as it is said",
        GUESTS,
        "an action counts twice",
        replace(REAL, steer_run=faulty_people.steer_without_looking_at_the_key),
    ),
    Variant(
        "a collaborator whose word is the owner's",
        GUESTS,
        "a change starts on the word of a collaborator",
        replace(REAL, steer_run=faulty_people.steer_that_takes_everybody_for_the_owner),
    ),
    Variant(
        "a decision that does not count its calls",
        LIMITED,
        "calls are miscounted",
        replace(REAL, commit_dispatch=faulty_people.dispatch_that_counts_nothing),
    ),
    Variant(
        "a lower limit set while the run works",
        LIMITED,
        "more calls than the limit allows",
        replace(REAL, resume_run=faulty_people.resume_of_a_run_that_works),
    ),
    Variant(
        "a step that is put off for ever",
        LIMITED,
        "a dead end: nothing leads on",
        replace(REAL, put_off_step=faulty_people.put_off_for_ever),
    ),
)
