"""Collaborators of a public thread may correct its runs; what follows needs the owner."""

import pytest

from models.database import Database
from models.objections import explain_resume, explain_steer, explain_stop
from models.owner import resume_run, steer_run, stop_run
from models.runs import Accepted
from models.sharing import share_thread
from tests.factories import OWNER, RunWish, a_run
from tests.invariants import violations
from tests.models.story import READ, claimed, dispatched, query, run_row
from umbel.contracts import Principal, RunId
from umbel.errors import NotFound, NotPermitted

BEN = Principal(tenant=OWNER.tenant, user="ben")


def a_shared_run(database: Database) -> Accepted:
    accepted = a_run(database)
    share_thread(database, accepted.thread_id, OWNER, ["ben"])
    return accepted


def must_ask(database: Database, run_id: RunId) -> bool:
    return bool(run_row(database, run_id)["owner_must_approve"])


@pytest.mark.parametrize("mode", ["redirect", "append"])
def test_a_collaborators_word_is_heard_and_the_owner_must_approve_what_follows(
    database: Database, mode: str
) -> None:
    run_id = a_shared_run(database).run_id
    steered = steer_run(database, run_id, BEN, "Use staging.", mode)  # type: ignore[arg-type]
    assert steered is not None
    assert must_ask(database, run_id)
    assert claimed(database, run_id).owner_must_approve
    [row] = query(database, "SELECT author, state FROM steers")
    assert (row["author"], row["state"]) == ("ben", "applied")
    [event] = query(database, "SELECT data FROM events WHERE kind = 'run.steered'")
    assert event["data"]["by"] == "ben"
    assert violations(database, at_rest=False) == []


def test_the_owners_own_word_changes_nothing_about_approvals(database: Database) -> None:
    run_id = a_shared_run(database).run_id
    assert steer_run(database, run_id, OWNER, "Use staging.", "redirect") is not None
    assert not must_ask(database, run_id)


def test_it_holds_after_a_stop_and_a_resume_and_for_the_threads_later_runs(
    database: Database,
) -> None:
    first = a_shared_run(database)
    queued = a_run(database, RunWish(thread_id=first.thread_id))
    steer_run(database, first.run_id, BEN, "Use staging.", "append")
    assert not must_ask(database, queued.run_id)
    stop_run(database, first.run_id, OWNER)
    assert must_ask(database, queued.run_id)
    stop_run(database, queued.run_id, OWNER)
    assert resume_run(database, first.run_id, OWNER) == 1
    assert must_ask(database, first.run_id)
    assert must_ask(database, a_run(database, RunWish(thread_id=first.thread_id)).run_id)


def test_calls_decided_before_an_append_have_not_heard_it_and_stay_ready(
    database: Database,
) -> None:
    shared = a_shared_run(database)
    step = dispatched(database, READ, claim=claimed(database, shared.run_id))
    steered = steer_run(database, shared.run_id, BEN, "And below.", "append")
    assert steered is not None
    assert query(database, "SELECT state FROM calls") == [{"state": "ready"}]
    assert not step.claim.owner_must_approve


def test_a_collaborator_of_a_private_thread_is_told_that_it_is_private(database: Database) -> None:
    accepted = a_shared_run(database)
    database.run(("UPDATE threads SET visibility = 'private'", {}))
    assert steer_run(database, accepted.run_id, BEN, "Hi.", "append") is None
    with pytest.raises(NotPermitted, match="private"):
        explain_steer(database, accepted.run_id, BEN)


def test_a_collaborator_neither_stops_nor_resumes(database: Database) -> None:
    run_id = a_shared_run(database).run_id
    assert stop_run(database, run_id, BEN) is None
    assert resume_run(database, run_id, BEN) is None
    for explain in (explain_stop, explain_resume):
        with pytest.raises(NotPermitted, match="Only the owner"):
            explain(database, run_id, BEN)


def test_for_everybody_else_there_is_no_such_run(database: Database) -> None:
    run_id = a_shared_run(database).run_id
    for stranger in (
        Principal(tenant=OWNER.tenant, user="eve"),
        Principal(tenant="else", user="ben"),
    ):
        assert steer_run(database, run_id, stranger, "Hi.", "append") is None
        for explain in (explain_steer, explain_stop, explain_resume):
            with pytest.raises(NotFound):
                explain(database, run_id, stranger)
    assert query(database, "SELECT 1 FROM steers") == []


def test_only_its_owner_shares_a_thread_and_nobody_makes_it_private(database: Database) -> None:
    accepted = a_run(database)
    with pytest.raises(NotFound):
        share_thread(database, accepted.thread_id, BEN, ["ben"])
    share_thread(database, accepted.thread_id, OWNER, ["ben"])
    share_thread(database, accepted.thread_id, OWNER, [])
    [row] = query(database, "SELECT visibility, collaborators FROM threads")
    assert (row["visibility"], row["collaborators"]) == ("private", [])


def test_an_older_run_that_goes_on_knows_what_was_corrected_in_its_thread_meanwhile(
    database: Database,
) -> None:
    older = a_shared_run(database)
    stop_run(database, older.run_id, OWNER)
    newer = a_run(database, RunWish(thread_id=older.thread_id))
    assert steer_run(database, newer.run_id, BEN, "Use staging.", "append") is not None
    stop_run(database, newer.run_id, OWNER)
    assert not must_ask(database, older.run_id)
    assert resume_run(database, older.run_id, OWNER) == 1
    assert claimed(database, older.run_id).owner_must_approve
