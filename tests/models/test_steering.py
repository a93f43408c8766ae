"""Steer: what is accepted is heard by the model, or returned; never lost, never in between."""

import pytest

from loop.decision import Answer, Retry
from loop.outcome import Returned
from loop.request import AssistantMessage, ToolMessage, UserMessage
from loop.transcript import build_request
from models.calls import load_call, record_intent, settle
from models.database import Database
from models.owner import steer_run
from models.records import SpecCache, load_record
from models.steps import (
    Claim,
    book_reply,
    claim_step,
    commit_answer,
    commit_dispatch,
    commit_retry,
    hand_back,
)
from tests.factories import OWNER, a_run
from tests.invariants import violations
from tests.models.story import (
    CHANGE,
    ME,
    READ,
    a_reply,
    an_exchange,
    attempts,
    call_states,
    claimed,
    dispatched,
    event_kinds,
    query,
    run_row,
    started,
)
from tests.models.two_sessions import holding, meet
from umbel.contracts import Principal, RunId
from umbel.errors import InvalidInput
from umbel.names import SteerMode


def steer(
    database: Database, run_id: RunId, text: str = "Use staging.", mode: SteerMode = "redirect"
) -> int | None:
    """Steer a run that takes it; the step it made ready at once."""
    steered = steer_run(database, run_id, OWNER, text, mode)
    assert steered is not None
    return steered.next_step


def said(database: Database, claim: Claim) -> list[str]:
    """The request of a claim, a word per message."""
    spec = SpecCache(database).get(claim.run_id)
    record = load_record(database, spec, claim.step, claim.steers)
    words = []
    for message in build_request(record).messages:
        match message:
            case UserMessage(text=text):
                words.append(text)
            case AssistantMessage():
                words.append("<reply>")
            case ToolMessage():
                words.append("<result>")
            case _:
                pass
    return words


def states(database: Database) -> list[str]:
    return [row["state"] for row in query(database, "SELECT state FROM steers ORDER BY rev")]


def test_a_correction_of_a_waiting_run_is_in_its_first_request(database: Database) -> None:
    run_id = a_run(database).run_id
    steer(database, run_id)
    assert states(database) == ["accepted"]
    claim = claimed(database, run_id)
    assert said(database, claim) == ["What is in the folder?", "Use staging."]
    assert states(database) == ["applied"]
    assert event_kinds(database, run_id)[1] == "run.steered"


@pytest.mark.parametrize("mode", ["redirect", "append"])
def test_a_correction_stands_between_a_result_and_the_next_reply(
    database: Database, mode: SteerMode
) -> None:
    step = dispatched(database, READ)
    proof = started(database, step.calls[0])
    steer(database, step.run_id, mode=mode)
    settle(database, proof, Returned("1"), "1")
    second = claimed(database, step.run_id, step=2)
    heard = ["What is in the folder?", "<reply>", "<result>", "Use staging."]
    assert said(database, second) == heard
    dispatched(database, READ, claim=second)
    spec = SpecCache(database).get(step.run_id)
    # The same words stand at the same place in every later request.
    proof = started(database, query(database, "SELECT id FROM calls WHERE step = 2")[0]["id"])
    settle(database, proof, Returned("2"), "2")
    third = claimed(database, step.run_id, step=3)
    assert said(database, third) == [*heard, "<reply>", "<result>"]
    assert load_record(database, spec, 2, 0).corrections == ()
    assert violations(database, at_rest=False) == []


def test_a_redirect_voids_what_has_not_started_and_the_step_goes_on(database: Database) -> None:
    step = dispatched(database, READ, CHANGE)
    call = load_call(database, step.calls[1])
    assert call is not None
    assert steer(database, step.run_id) == 2
    assert call_states(database, step.run_id) == ["skipped", "skipped"]
    assert record_intent(database, call, ME) is None
    assert said(database, claimed(database, step.run_id, step=2))[-1] == "Use staging."
    assert violations(database, at_rest=False) == []


def test_a_redirect_waits_for_what_has_started(database: Database) -> None:
    step = dispatched(database, CHANGE, READ)
    proof = started(database, step.calls[0])
    assert steer(database, step.run_id) is None
    assert call_states(database, step.run_id) == ["started", "skipped"]
    settled = settle(database, proof, Returned("1"), "1")
    assert settled is not None
    assert settled.next_step == 2
    assert violations(database, at_rest=False) == []


def test_an_append_lets_the_step_finish(database: Database) -> None:
    step = dispatched(database, CHANGE, READ)
    assert steer(database, step.run_id, mode="append") is None
    assert call_states(database, step.run_id) == ["ready", "ready"]
    started(database, step.calls[0])


def test_a_decision_made_under_an_older_revision_is_not_applied(database: Database) -> None:
    claim = claimed(database)
    steer(database, claim.run_id)
    assert commit_answer(database, claim, an_exchange(), Answer("Hello.")) is None
    assert commit_dispatch(database, claim, an_exchange(), ()) is None
    book_reply(database, claim, an_exchange(), discard=True)
    hand_back(database, claim, wait_seconds=0, detail="stale", is_failure=False)
    second = claimed(database, claim.run_id)
    assert second.stored_text is None
    assert said(database, second)[-1] == "Use staging."
    assert violations(database, at_rest=False) == []


def test_no_change_is_intended_while_a_redirect_commits(database: Database, url: str) -> None:
    step = dispatched(database, CHANGE)
    call = load_call(database, step.calls[0])
    assert call is not None
    with holding(url) as first:
        steer_run(first, step.run_id, OWNER, "Use staging.", "redirect")
        proof = meet(first, lambda: record_intent(database, call, ME))
    assert proof is None


@pytest.mark.parametrize("mode", ["redirect", "append"])
def test_a_claim_that_waited_for_a_correction_hears_it(
    database: Database, url: str, mode: SteerMode
) -> None:
    run_id = a_run(database).run_id
    with holding(url) as first:
        assert steer_run(first, run_id, OWNER, "Use staging.", mode) is not None
        claim = meet(first, lambda: claim_step(database, run_id, 1, ME))
    assert claim is not None
    assert claim.steers == 1
    assert query(database, "SELECT state FROM steers") == [{"state": "applied"}]
    commit_answer(database, claim, an_exchange(), Answer("Done."))
    assert violations(database) == []


@pytest.mark.parametrize("is_booked_before", [True, False])
def test_a_reply_stored_under_an_older_revision_is_discarded(
    database: Database, *, is_booked_before: bool
) -> None:
    claim = claimed(database)
    if is_booked_before:
        book_reply(database, claim, an_exchange(), discard=False)
    steer(database, claim.run_id)
    if not is_booked_before:
        book_reply(database, claim, an_exchange(), discard=False)
    hand_back(database, claim, wait_seconds=0, detail="could not be applied", is_failure=True)
    second = claimed(database, claim.run_id)
    assert second.stored_text is None
    assert attempts(database, claim.run_id) == [(1, "closed", "discard"), (2, "open", None)]
    assert violations(database, at_rest=False) == []


def test_an_answer_that_has_not_heard_the_last_word_is_one_more_step(database: Database) -> None:
    claim = claimed(database)
    steer(database, claim.run_id, "And the folder below?", "append")
    reply = an_exchange(a_reply("Nothing."))
    assert commit_answer(database, claim, reply, Answer("Nothing.")) is None
    applied = commit_dispatch(database, claim, reply, ())
    assert applied is not None
    assert applied.next_step == 2
    second = claimed(database, claim.run_id, step=2)
    assert said(database, second) == [
        "What is in the folder?",
        "<reply>",
        "And the folder below?",
    ]
    assert run_row(database, claim.run_id)["corrections"] == 0
    assert commit_answer(database, second, an_exchange(), Answer("Nothing either.")) is not None
    assert states(database) == ["applied"]
    assert violations(database, at_rest=False) == []


def test_a_stored_answer_is_held_against_what_its_request_had_heard(database: Database) -> None:
    claim = claimed(database)
    book_reply(database, claim, an_exchange(), discard=False)
    hand_back(database, claim, wait_seconds=0, detail="could not be applied", is_failure=True)
    steer(database, claim.run_id, mode="append")
    second = claimed(database, claim.run_id)
    assert second.stored_text is not None
    assert second.steers == 0
    assert states(database) == ["accepted"]
    assert commit_answer(database, second, an_exchange(), Answer("Hello.")) is None


def test_nobody_else_steers_and_an_ended_run_takes_no_correction(database: Database) -> None:
    claim = claimed(database)
    stranger = Principal(tenant=OWNER.tenant, user="else")
    assert steer_run(database, claim.run_id, stranger, "Hi.", "append") is None
    commit_answer(database, claim, an_exchange(), Answer("Hello."))
    assert steer_run(database, claim.run_id, OWNER, "Hi.", "append") is None
    assert query(database, "SELECT * FROM steers") == []


@pytest.mark.parametrize("text", ["", "  \n", "x" * 4001, "nul \x00"])
def test_a_text_that_says_nothing_or_too_much_is_refused(database: Database, text: str) -> None:
    run_id = a_run(database).run_id
    with pytest.raises(InvalidInput):
        steer_run(database, run_id, OWNER, text, "redirect")


@pytest.mark.parametrize(("mode", "next_step"), [("redirect", 1), ("append", None)])
def test_a_correction_ends_the_wait_for_a_provider(
    database: Database, mode: SteerMode, next_step: int | None
) -> None:
    claim = claimed(database)
    assert commit_retry(database, claim, an_exchange(), Retry("provider", 3600.0, "429"))
    assert claim_step(database, claim.run_id, 1, ME) is None
    steered = steer_run(database, claim.run_id, OWNER, "Use the other one.", mode)
    assert steered is not None
    assert steered.next_step == next_step
    assert (claim_step(database, claim.run_id, 1, ME) is not None) == (next_step is not None)
    assert violations(database, at_rest=False) == []


def test_a_correction_of_a_run_that_is_ready_anyway_rings_for_nothing(database: Database) -> None:
    steered = steer_run(database, a_run(database).run_id, OWNER, "Use staging.", "redirect")
    assert steered is not None
    assert steered.next_step is None
