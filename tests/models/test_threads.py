"""One run of a thread at a time, and none forgotten."""

from loop.decision import Answer
from models.database import Database
from models.steps import commit_answer
from models.sweeping import (
    DueStep,
    promote_runs,
)
from tests.factories import RunWish, a_run
from tests.models.story import (
    a_thread,
    an_exchange,
    change,
    claimed,
    event_kinds,
    run_row,
)
from tests.models.two_sessions import holding, meet


def test_a_queued_run_starts_when_the_one_before_it_is_answered(database: Database) -> None:
    thread = a_thread(database, waiting=2)
    assert [run.is_queued for run in thread.queued] == [True, True]
    applied = commit_answer(
        database, claimed(database, thread.first.run_id), an_exchange(), Answer("Hello.")
    )
    assert applied is not None
    assert applied.promoted == ((thread.queued[0].run_id, 1),)
    assert run_row(database, thread.queued[0].run_id)["work"] == "ready"
    assert run_row(database, thread.queued[1].run_id)["status"] == "queued"
    assert event_kinds(database, thread.queued[0].run_id) == ["run.accepted", "run.promoted"]


def test_a_run_accepted_while_the_one_before_it_ends_is_not_forgotten(
    database: Database, url: str
) -> None:
    """The thread row is what they meet at: without it the new run would stay queued for ever."""
    first_run = a_run(database)
    claim = claimed(database, first_run.run_id)
    with holding(url) as first:
        assert commit_answer(first, claim, an_exchange(), Answer("Hello."))
        late = meet(first, lambda: a_run(database, RunWish(thread_id=first_run.thread_id)))
    assert not late.is_queued
    assert run_row(database, late.run_id)["work"] == "ready"


def test_the_sweeper_starts_what_nobody_promoted(database: Database) -> None:
    thread = a_thread(database, waiting=2)
    change(
        database,
        "UPDATE runs SET status = 'paused', work = 'none', reason = 'lost_worker',"
        " settled_at = now() WHERE id = %(id)s",
        id=thread.first.run_id,
    )
    assert promote_runs(database, limit=10) == [DueStep(thread.queued[0].run_id, 1)]
    assert promote_runs(database, limit=10) == []


def test_two_sweepers_promote_one_run(database: Database, url: str) -> None:
    thread = a_thread(database, waiting=2)
    commit_answer(database, claimed(database, thread.first.run_id), an_exchange(), Answer("Hi."))
    commit_answer(
        database, claimed(database, thread.queued[0].run_id), an_exchange(), Answer("Hi.")
    )
    change(
        database,
        "UPDATE runs SET status = 'queued', work = 'none' WHERE id = %(id)s",
        id=thread.queued[1].run_id,
    )
    with holding(url) as first:
        assert len(promote_runs(first, limit=10)) == 1
        assert promote_runs(database, limit=10) == []  # and does not wait for the first one
        first.commit()
    assert event_kinds(database, thread.queued[1].run_id)[-1] == "run.promoted"
