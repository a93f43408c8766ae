"""Replies that were paid for and could not be applied."""

from collections.abc import Callable

import pytest

from loop.decision import Answer
from models.database import Database
from models.steps import (
    Applied,
    Claim,
    Exchange,
    book_reply,
    commit_answer,
    fail_run,
    hand_back,
)
from tests.models.story import (
    OTHER,
    REFUSED,
    a_reply,
    an_exchange,
    attempts,
    change,
    claimed,
    dispatched,
    query,
)
from umbel.errors import InvariantBroken

Decide = Callable[[Database, Claim], Applied | None]


def test_the_usage_of_a_stale_reply_is_booked_whatever_the_fence(database: Database) -> None:
    claim = claimed(database)
    hand_back(database, claim, wait_seconds=0, detail="drain", is_failure=False)
    claimed(database, claim.run_id, worker=OTHER)
    assert book_reply(database, claim, an_exchange(), discard=True)
    assert attempts(database, claim.run_id) == [(1, "closed", "discard"), (2, "open", None)]
    [row] = query(database, "SELECT total_tokens FROM model_calls WHERE attempt = 1")
    assert row["total_tokens"] == 15
    assert not book_reply(database, claim, an_exchange(), discard=True), "it has a decision"


def test_a_late_reply_of_a_lost_attempt_does_not_disturb_the_next(database: Database) -> None:
    claim = claimed(database)
    hand_back(database, claim, wait_seconds=0, detail="drain", is_failure=False)
    again = claimed(database, claim.run_id, worker=OTHER)
    book_reply(database, claim, an_exchange(), discard=False)
    assert commit_answer(database, again, an_exchange(), Answer("Hello.")) is not None
    assert attempts(database, claim.run_id) == [(1, "closed", None), (2, "closed", "answer")]


def test_a_late_reply_of_a_step_that_is_over_is_not_taken_for_the_next_one(
    database: Database,
) -> None:
    late = claimed(database)
    hand_back(database, late, wait_seconds=0, detail="drain", is_failure=False)
    dispatched(database, REFUSED, claim=claimed(database, late.run_id, worker=OTHER))
    assert book_reply(database, late, an_exchange(a_reply("Late.")), discard=False)
    following = claimed(database, late.run_id, step=2)
    assert (following.stored_reply, following.attempt) == (None, 1)


def test_two_stored_replies_do_not_lock_the_run_out(database: Database) -> None:
    """Both workers failed to apply: the first one's reply arrived after it had lost the run."""
    first = claimed(database)
    hand_back(database, first, wait_seconds=0, detail="lost", is_failure=False)
    second = claimed(database, first.run_id, worker=OTHER)
    book_reply(database, first, an_exchange(a_reply("Old.")), discard=False)
    book_reply(database, second, an_exchange(a_reply("New.")), discard=False)
    hand_back(database, second, wait_seconds=0, detail="could not apply", is_failure=True)
    third = claimed(database, first.run_id)
    assert third.stored_reply is not None
    assert (third.stored_reply.text, third.attempt) == ("New.", 2)


def test_a_stored_reply_that_turned_out_stale_is_not_applied_later(database: Database) -> None:
    claim = claimed(database)
    book_reply(database, claim, an_exchange(), discard=False)
    hand_back(database, claim, wait_seconds=0, detail="could not apply", is_failure=True)
    again = claimed(database, claim.run_id)
    assert again.stored_reply is not None
    change(database, "UPDATE runs SET steer_rev = steer_rev + 1")
    stored = Exchange(again.stored_reply, None, None, None)
    assert commit_answer(database, again, stored, Answer("Hello.")) is None
    assert book_reply(database, again, stored, discard=True)
    hand_back(database, again, wait_seconds=0, detail="stale", is_failure=False)
    fresh = claimed(database, claim.run_id)
    assert (fresh.stored_reply, fresh.attempt) == (None, 2)
    assert attempts(database, claim.run_id)[0] == (1, "closed", "discard")


def test_a_stored_reply_that_does_not_parse_is_found_out_after_the_claim(
    database: Database,
) -> None:
    """An error out of the claim itself would leave the run held by a worker that lives."""
    claim = claimed(database)
    book_reply(database, claim, an_exchange(), discard=False)
    hand_back(database, claim, wait_seconds=0, detail="could not apply", is_failure=True)
    change(database, "UPDATE model_calls SET reply = '{}x'")
    again = claimed(database, claim.run_id)
    with pytest.raises(InvariantBroken, match="ModelTurn does not parse"):
        assert again.stored_reply
    assert fail_run(database, again, reason="corrupt_record", detail="reply")


def test_booking_a_stored_reply_again_keeps_what_the_row_has(database: Database) -> None:
    claim = claimed(database)
    book_reply(database, claim, an_exchange(), discard=False)
    hand_back(database, claim, wait_seconds=0, detail="could not apply", is_failure=True)
    again = claimed(database, claim.run_id)
    stored = Exchange(again.stored_reply or a_reply(), None, None, None)
    assert commit_answer(database, again, stored, Answer("Hello."))
    [row] = query(database, "SELECT * FROM model_calls")
    assert (row["endpoint"], row["manifest"]) == ("local/chat", '{"version":1}')
    assert bytes(row["request_sha"]) == b"\x01" * 32
