from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

from loop.decision import Answer
from models import hot
from models.database import Database
from models.hot import LOCK_RUN
from models.steps import (
    Claim,
    Exchange,
    book_reply,
    claim_step,
    commit_answer,
    fail_run,
    hand_back,
    release_own,
)
from tests.factories import a_run
from tests.invariants import violations
from tests.models.story import (
    ME,
    OTHER,
    a_reply,
    an_exchange,
    attempts,
    change,
    claimed,
    event_kinds,
    run_row,
)
from tests.models.two_sessions import holding, meet
from tests.worker_processes import wait_until


def test_a_claim_takes_the_run_and_opens_an_attempt(database: Database) -> None:
    accepted = a_run(database)
    claim = claimed(database, accepted.run_id)
    assert (claim.step, claim.attempt, claim.fence, claim.claims) == (1, 1, 1, 1)
    assert (claim.thread_id, claim.worker, claim.stored_reply) == (accepted.thread_id, ME, None)
    row = run_row(database, accepted.run_id)
    assert (row["work"], row["holder"], row["status"]) == ("held", ME, "running")
    assert attempts(database, accepted.run_id) == [(1, "open", None)]
    assert event_kinds(database, accepted.run_id) == ["run.accepted", "step.claimed"]


def test_a_run_that_is_held_cannot_be_claimed(database: Database) -> None:
    claim = claimed(database)
    assert claim_step(database, claim.run_id, 1, OTHER) is None
    assert claim_step(database, claim.run_id, 1, ME) is None
    assert run_row(database, claim.run_id)["fence"] == 1


def test_a_message_of_another_step_claims_nothing(database: Database) -> None:
    run_id = a_run(database).run_id
    assert claim_step(database, run_id, 2, ME) is None
    assert claim_step(database, run_id, 0, ME) is None
    assert attempts(database, run_id) == []


def test_a_run_whose_time_has_not_come_cannot_be_claimed(database: Database) -> None:
    run_id = a_run(database).run_id
    change(database, "UPDATE runs SET not_before = now() + interval '1 minute'")
    assert claim_step(database, run_id, 1, ME) is None
    change(database, "UPDATE runs SET not_before = now() - interval '1 second'")
    claimed(database, run_id)


def test_a_stopped_run_cannot_be_claimed(database: Database) -> None:
    run_id = a_run(database).run_id
    change(database, "UPDATE runs SET stop_at = now()")
    assert claim_step(database, run_id, 1, ME) is None


def test_of_two_claims_that_meet_one_wins(database: Database, url: str) -> None:
    run_id = a_run(database).run_id
    with holding(url) as first:
        won = claimed(first, run_id)
        assert meet(first, lambda: claim_step(database, run_id, 1, OTHER)) is None
    assert won.fence == 1
    assert run_row(database, run_id)["holder"] == ME
    assert attempts(database, run_id) == [(1, "open", None)]


def test_of_many_claims_at_once_exactly_one_wins(
    make_database: Callable[[], Database], database: Database
) -> None:
    run_id = a_run(database).run_id
    with ThreadPoolExecutor(8) as pool:
        claims = list(pool.map(lambda _: claim_step(database, run_id, 1, ME), range(50)))
    assert len([claim for claim in claims if claim is not None]) == 1
    assert event_kinds(database, run_id) == ["run.accepted", "step.claimed"]


def test_a_claim_that_waited_for_a_hand_back_takes_the_run_with_a_new_attempt(
    database: Database, url: str
) -> None:
    claim = claimed(database)
    with holding(url) as first:
        assert hand_back(first, claim, wait_seconds=0, detail="drain", is_failure=False)
        # Its snapshot says "held": it does not wait, it leaves; the next message finds it ready.
        assert claim_step(database, claim.run_id, 1, OTHER) is None
        first.commit()
    again = claimed(database, claim.run_id, worker=OTHER)
    assert (again.attempt, again.fence) == (2, 2)
    assert attempts(database, claim.run_id)[0][1] == "lost"


def test_a_run_handed_back_opens_a_new_attempt_and_the_old_one_is_lost(
    database: Database,
) -> None:
    claim = claimed(database)
    assert hand_back(database, claim, wait_seconds=0, detail="drain", is_failure=False)
    again = claimed(database, claim.run_id, worker=OTHER)
    assert (again.attempt, again.fence, again.claims) == (2, 2, 1)
    assert attempts(database, claim.run_id) == [(1, "lost", None), (2, "open", None)]


def test_only_a_failure_counts_against_the_claims_of_a_step(database: Database) -> None:
    claim = claimed(database)
    hand_back(database, claim, wait_seconds=0, detail="bug", is_failure=True)
    assert claimed(database, claim.run_id).claims == 2


def test_a_run_handed_back_with_a_wait_is_due_only_after_it(database: Database) -> None:
    claim = claimed(database)
    hand_back(database, claim, wait_seconds=60, detail="bug", is_failure=True)
    assert claim_step(database, claim.run_id, 1, ME) is None


def test_a_stopped_run_that_is_handed_back_is_cancelled(database: Database) -> None:
    claim = claimed(database)
    change(database, "UPDATE runs SET stop_at = now(), status = 'cancelling'")
    assert hand_back(database, claim, wait_seconds=0, detail="drain", is_failure=False)
    row = run_row(database, claim.run_id)
    assert (row["status"], row["reason"], row["work"]) == ("cancelled", "owner_stop", "none")
    assert attempts(database, claim.run_id) == [(1, "lost", None)]


def test_nobody_but_the_holder_hands_a_run_back(database: Database) -> None:
    claim = claimed(database)
    hand_back(database, claim, wait_seconds=0, detail="drain", is_failure=False)
    claimed(database, claim.run_id, worker=OTHER)
    assert not hand_back(database, claim, wait_seconds=0, detail="late", is_failure=False)
    assert run_row(database, claim.run_id)["holder"] == OTHER


def test_a_claim_whose_answer_was_lost_is_released_and_claimed_again(database: Database) -> None:
    claim = claimed(database)
    assert release_own(database, claim.run_id, 1, ME)
    row = run_row(database, claim.run_id)
    assert (row["work"], row["holder"], row["fence"], row["attempts"]) == ("ready", None, 2, 0)
    again = claimed(database, claim.run_id, worker=OTHER)
    assert (again.attempt, again.claims) == (2, 1)


def test_only_an_own_claim_of_the_same_step_is_released(database: Database) -> None:
    claim = claimed(database)
    assert not release_own(database, claim.run_id, 1, OTHER)
    assert not release_own(database, claim.run_id, 2, ME)
    assert not release_own(database, claim.run_id, 1, ME, fence=claim.fence - 1)
    assert run_row(database, claim.run_id)["holder"] == ME
    assert release_own(database, claim.run_id, 1, ME, fence=claim.fence)


def test_a_claim_that_commits_while_it_is_being_released_is_released_all_the_same(
    database: Database, url: str
) -> None:
    """The connection broke while the claim waited for a lock: its commit is still to come."""
    run_id = a_run(database).run_id
    with holding(url) as blocker, ThreadPoolExecutor(2) as pool:
        blocker.run((LOCK_RUN, {"run_id": run_id}))
        late = pool.submit(claim_step, database, run_id, 1, ME)
        wait_until(blocker.blocks, 5, "the claim waits")
        release = pool.submit(release_own, database, run_id, 1, ME)
        wait_until(lambda: blocker.is_waited_at(2) or release.done(), 5, "the release looks")
        blocker.commit()
        assert late.result(5) is not None
        assert release.result(5)
    assert run_row(database, run_id)["work"] == "ready", "held for ever by a worker that lives"


def test_a_stored_reply_is_applied_without_a_second_model_call(database: Database) -> None:
    claim = claimed(database)
    reply = a_reply("The answer.")
    assert book_reply(database, claim, an_exchange(reply), discard=False)
    hand_back(database, claim, wait_seconds=0, detail="could not apply", is_failure=True)
    again = claimed(database, claim.run_id, worker=OTHER)
    assert again.stored_reply == reply
    assert again.attempt == 1
    assert attempts(database, claim.run_id) == [(1, "closed", None)]
    stored = Exchange(reply, None, None, None)
    assert commit_answer(database, again, stored, Answer("The answer."))
    assert attempts(database, claim.run_id) == [(1, "closed", "answer")]


@pytest.mark.parametrize("ending", ["hand_back", "fail"])
def test_what_a_zombie_would_write_is_told_by_its_fence(
    database: Database, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    """A planted fault, the guard forgotten: the rules of the record find what it let in."""
    statement, write = _ENDINGS[ending]
    held = "fence = %(fence)s AND holder = %(worker)s AND work = 'held'"
    sql = getattr(hot, statement)
    assert held in sql
    monkeypatch.setattr(hot, statement, sql.replace(held, "work = 'held'"))
    zombie = claimed(database)
    hand_back(database, zombie, wait_seconds=0, detail="lost", is_failure=False)
    claimed(database, zombie.run_id, worker=OTHER)
    assert violations(database, at_rest=False) == []
    assert write(database, zombie)
    [found] = violations(database, at_rest=False)
    assert found.startswith("a fence went back")


_ENDINGS: Final[dict[str, tuple[str, Callable[[Database, Claim], object]]]] = {
    "hand_back": (
        "HAND_BACK",
        lambda database, claim: hand_back(
            database, claim, wait_seconds=0, detail="late", is_failure=False
        ),
    ),
    "fail": (
        "FAIL_RUN",
        lambda database, claim: fail_run(
            database, claim, reason="corrupt_record", detail="It does not parse."
        ),
    ),
}
