"""A further request in a thread: what becomes of the busy run, and what the next one knows."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from loop.decision import Answer
from loop.outcome import Returned
from loop.request import AssistantMessage, ToolMessage, UserMessage
from loop.transcript import build_request
from models.calls import settle
from models.database import Database
from models.follow_ups import FollowedUp, HandedOver, follow_up
from models.owner import resume_run, steer_run, stop_run, verify_receipt
from models.records import load_record, load_spec
from models.runs import Accepted, RunRequest
from models.steps import Claim, commit_answer
from tests.factories import OWNER, RunWish, a_run
from tests.invariants import violations
from tests.models.story import (
    CHANGE,
    READ,
    a_reply,
    an_exchange,
    beat,
    claimed,
    count,
    dispatched,
    fall_silent,
    made_unknown,
    query,
    run_row,
    started,
)
from umbel.contracts import RunId, ThreadId
from umbel.errors import Conflict
from umbel.names import OnBusy

AGAIN = RunId("run_again")
REQUEST = RunRequest(
    principal=OWNER,
    input="And the folder below?",
    agent="default",
    profile="steward",
    model="scripted",
    wire="chat",
    instructions="",
    policy="{}",
    tools="[]",
)


def asks_again(
    database: Database, busy: Accepted, on_busy: OnBusy, run_id: RunId = AGAIN
) -> FollowedUp | HandedOver:
    with database.begin() as connection:
        return follow_up(
            connection, REQUEST, run_id=run_id, thread_id=busy.thread_id, on_busy=on_busy
        )


def said(database: Database, claim: Claim) -> list[str]:
    """The request of a claim, a word per message."""
    record = load_record(database, load_spec(database, claim.run_id), claim.step, claim.steers)
    words = []
    for message in build_request(record).messages:
        match message:
            case UserMessage(text=text):
                words.append(text)
            case AssistantMessage(text=text):
                words.append(f"<{text}>")
            case ToolMessage(text=text):
                words.append(text)
            case _:
                pass
    return words


def answered(database: Database, accepted: Accepted, words: str = "Two files.") -> None:
    """A run that read once, was corrected once, and answered."""
    step = dispatched(database, READ, claim=claimed(database, accepted.run_id))
    settle(database, started(database, step.calls[0]), Returned("1"), "1")
    steer_run(database, accepted.run_id, OWNER, "Count them.", "append")
    last = claimed(database, accepted.run_id, step=2)
    assert commit_answer(database, last, an_exchange(a_reply(words)), Answer(words)) is not None


def test_a_busy_thread_lets_it_wait(database: Database) -> None:
    busy = a_run(database)
    found = asks_again(database, busy, "enqueue")
    assert isinstance(found, FollowedUp)
    assert found.accepted.is_queued


def test_a_busy_thread_refuses_it_and_says_who_is_at_work(database: Database) -> None:
    busy = a_run(database)
    with pytest.raises(Conflict, match=busy.run_id):
        asks_again(database, busy, "reject")
    assert count(database, "runs") == 1


def test_an_idle_thread_takes_it_whatever_is_said_about_busy_ones(database: Database) -> None:
    busy = a_run(database)
    stop_run(database, busy.run_id, OWNER)
    found = asks_again(database, busy, "reject")
    assert isinstance(found, FollowedUp)
    assert not found.accepted.is_queued


def test_an_interrupted_run_that_nobody_holds_makes_way_at_once(database: Database) -> None:
    busy = a_run(database)
    found = asks_again(database, busy, "interrupt")
    assert isinstance(found, FollowedUp)
    assert (found.stopped, found.promoted) == (busy.run_id, ((AGAIN, 1),))
    assert run_row(database, busy.run_id)["status"] == "cancelled"
    assert run_row(database, AGAIN)["status"] == "running"
    assert violations(database, at_rest=False) == []


def test_an_interrupted_run_that_is_held_ends_first(database: Database) -> None:
    busy = a_run(database)
    claimed(database, busy.run_id)
    found = asks_again(database, busy, "interrupt")
    assert isinstance(found, FollowedUp)
    assert (found.stopped, found.promoted) == (busy.run_id, ())
    assert run_row(database, busy.run_id)["status"] == "cancelling"
    assert run_row(database, AGAIN)["status"] == "queued"


def test_a_repeated_interrupt_stops_nothing_more(database: Database) -> None:
    busy = a_run(database)
    a_run(database, RunWish(thread_id=busy.thread_id, run_id=RunId("run_between")))
    asks_again(database, busy, "interrupt")
    assert run_row(database, RunId("run_between"))["status"] == "running"
    found = asks_again(database, busy, "interrupt")
    assert isinstance(found, FollowedUp)
    assert (found.accepted.is_new, found.stopped) == (False, None)
    assert run_row(database, RunId("run_between"))["status"] == "running"


def test_a_request_becomes_a_correction_once_however_often_it_is_sent(database: Database) -> None:
    busy = a_run(database)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: asks_again(database, busy, "steer"), range(4)))
    assert {type(one) for one in found} == {HandedOver}
    assert query(database, "SELECT id, text FROM steers") == [
        {"id": "str_again", "text": REQUEST.input}
    ]
    stop_run(database, busy.run_id, OWNER)
    a_run(database, RunWish(thread_id=busy.thread_id))
    again = asks_again(database, busy, "steer")
    assert isinstance(again, HandedOver)
    assert (again.run_id, count(database, "steers")) == (busy.run_id, 1)


def test_a_run_that_hears_nothing_more_leaves_it_to_a_run_of_its_own(database: Database) -> None:
    busy = a_run(database)
    claimed(database, busy.run_id)
    stop_run(database, busy.run_id, OWNER)
    found = asks_again(database, busy, "steer")
    assert isinstance(found, FollowedUp)
    assert found.accepted.is_queued


def test_the_next_run_knows_what_was_said_done_and_answered_before(database: Database) -> None:
    first = a_run(database)
    answered(database, first)
    asks_again(database, first, "enqueue")
    assert said(database, claimed(database, AGAIN)) == [
        "What is in the folder?",
        "<>",
        "1",
        "Count them.",
        "<Two files.>",
        "And the folder below?",
    ]


def test_a_request_that_never_began_is_not_known_to_the_next_run(database: Database) -> None:
    first = a_run(database)
    stop_run(database, first.run_id, OWNER)
    asks_again(database, first, "enqueue")
    assert said(database, claimed(database, AGAIN)) == ["And the folder below?"]


def test_what_happens_to_an_earlier_run_later_does_not_change_what_was_known(
    database: Database,
) -> None:
    beat(database)
    first = dispatched(database, CHANGE)
    started(database, first.calls[0])
    fall_silent(database)
    made_unknown(database, first.calls[0])
    thread = ThreadId(run_row(database, first.run_id)["thread_id"])
    a_run(database, RunWish(thread_id=thread, run_id=AGAIN))
    claim = claimed(database, AGAIN)
    known = said(database, claim)
    assert "Nobody knows whether this change happened." in known[2]
    verify_receipt(database, first.run_id, first.calls[0], OWNER, "happened", "It is in the log.")
    commit_answer(database, claim, an_exchange(), Answer("Hello."))
    resume_run(database, first.run_id, OWNER)
    last = claimed(database, first.run_id, step=2)
    commit_answer(database, last, an_exchange(a_reply("Late.")), Answer("Late."))
    assert said(database, claim) == known
    # The first run began before the second: it does not know it.
    assert "And the folder below?" not in " ".join(said(database, last))


def test_runs_of_other_threads_are_not_known(database: Database) -> None:
    answered(database, a_run(database))
    first = a_run(database)
    answered(database, first, "Three files.")
    asks_again(database, first, "enqueue")
    words = said(database, claimed(database, AGAIN))
    assert "<Three files.>" in words
    assert "<Two files.>" not in words
