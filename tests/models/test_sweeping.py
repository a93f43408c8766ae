"""What the sweeper asks of the database: takeover, promotion, what is due."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from loop.decision import Answer
from loop.outcome import Returned
from models.calls import settle
from models.database import Database
from models.steps import commit_answer
from models.sweeping import (
    DueStep,
    Room,
    TakenOver,
    due_calls,
    due_steps,
    forget_workers,
    take_over_runs,
)
from models.workers import drop_predecessors, remove
from tests.factories import RunWish, a_run
from tests.models.story import (
    DEAD_AFTER,
    ME,
    OTHER,
    READ,
    an_exchange,
    attempts,
    beat,
    change,
    claimed,
    count,
    dispatched,
    event_kinds,
    fall_silent,
    run_row,
    started,
)
from tests.models.two_sessions import holding


def take_over(database: Database, dead_after: float = DEAD_AFTER) -> list[TakenOver]:
    return take_over_runs(database, dead_after_seconds=dead_after, limit=10)


def due(database: Database, ring_after: float = 60.0) -> list[DueStep]:
    return due_steps(database, Room(10, ring_after))


def test_a_run_of_a_dead_worker_is_ready_again_behind_a_new_fence(database: Database) -> None:
    beat(database)
    claim = claimed(database)
    fall_silent(database)
    assert take_over(database) == [TakenOver(claim.run_id, 1, True, ME)]
    row = run_row(database, claim.run_id)
    assert (row["work"], row["holder"], row["fence"], row["losses"]) == ("ready", None, 2, 1)
    assert attempts(database, claim.run_id) == [(1, "lost", None)]
    assert event_kinds(database, claim.run_id)[-1] == "run.taken_over"
    assert claimed(database, claim.run_id, worker=OTHER).attempt == 2
    assert take_over(database, dead_after=1e6) == []


def test_a_living_worker_keeps_its_run(database: Database) -> None:
    beat(database, OTHER)
    fall_silent(database, OTHER)
    beat(database)
    claim = claimed(database)
    assert take_over(database) == []
    assert run_row(database, claim.run_id)["holder"] == ME


def test_a_worker_that_said_goodbye_is_dead_at_once(database: Database) -> None:
    beat(database)
    claimed(database)
    fall_silent(database)
    beat(database)
    remove(database, ME)
    assert len(take_over(database)) == 1


def test_a_successor_that_drops_its_predecessors_frees_their_work(database: Database) -> None:
    beat(database, ME, node="step@here")
    beat(database, OTHER, node="step@there")
    mine, others = claimed(database), claimed(database, worker=OTHER)
    fall_silent(database)
    drop_predecessors(database, "step@here")
    assert [run.run_id for run in take_over(database, dead_after=1.5)] == [mine.run_id]
    assert run_row(database, others.run_id)["holder"] == OTHER


def test_nobody_is_taken_over_before_the_database_has_been_up_long_enough(
    database: Database,
) -> None:
    claimed(database)
    assert take_over(database, dead_after=1e6) == []


def test_a_step_that_costs_too_many_workers_pauses_its_run(database: Database) -> None:
    run_id = a_run(database, RunWish(policy={"max_losses": 2})).run_id
    fall_silent(database)
    claimed(database, run_id)
    assert take_over(database)[0].is_ready
    claimed(database, run_id)
    [last] = take_over(database)
    assert not last.is_ready
    row = run_row(database, run_id)
    assert (row["status"], row["reason"], row["work"]) == ("paused", "lost_worker", "none")
    assert "worker logs" in row["detail"]
    assert event_kinds(database, run_id)[-2:] == ["run.taken_over", "run.paused"]
    assert attempts(database, run_id) == [(1, "lost", None), (2, "lost", None)]


def test_a_decided_step_forgets_the_workers_that_were_lost(database: Database) -> None:
    run_id = a_run(database, RunWish(policy={"max_losses": 2})).run_id
    fall_silent(database)
    claimed(database, run_id)
    take_over(database)
    step = dispatched(database, READ, claim=claimed(database, run_id))
    settle(database, started(database, step.calls[0]), Returned("1"), "1")
    claimed(database, run_id, step=2)
    assert take_over(database)[0].is_ready


def test_a_stopped_run_of_a_dead_worker_ends(database: Database) -> None:
    claim = claimed(database)
    fall_silent(database)
    change(database, "UPDATE runs SET stop_at = now(), status = 'cancelling'")
    [taken] = take_over(database)
    assert not taken.is_ready
    row = run_row(database, claim.run_id)
    assert (row["status"], row["reason"], row["work"]) == ("cancelled", "owner_stop", "none")
    assert attempts(database, claim.run_id) == [(1, "lost", None)]
    event_kinds(database, claim.run_id)


def test_two_sweepers_take_each_run_over_once(
    database: Database, make_database: Callable[[], Database]
) -> None:
    for _ in range(6):
        claimed(database)
    fall_silent(database)
    pools = [make_database(), make_database()]
    with ThreadPoolExecutor(2) as threads:
        taken = [run for runs in threads.map(take_over, pools) for run in runs]
    assert len({run.run_id for run in taken}) == len(taken) == 6


def test_a_decision_that_commits_while_the_sweeper_looks_is_left_alone(
    database: Database, url: str
) -> None:
    claim = claimed(database)
    fall_silent(database)
    with holding(url) as first:
        assert commit_answer(first, claim, an_exchange(), Answer("Hello."))
        assert take_over(database) == [], "the row is skipped, not waited for"
        first.commit()
    assert take_over(database) == []
    assert run_row(database, claim.run_id)["status"] == "completed"


def test_a_ready_run_that_nobody_was_told_of_is_due_and_only_once(database: Database) -> None:
    run_id = a_run(database).run_id
    assert due(database) == [], "its acceptance rang"
    change(database, "UPDATE runs SET ring_at = NULL")
    assert due(database) == [DueStep(run_id, 1, 1)]
    assert due(database) == []


@pytest.mark.parametrize(
    ("rings", "seconds", "is_due"),
    [
        (0, 9, False),
        (0, 11, True),
        (1, 23, False),
        (1, 37, True),
        (2, 47, False),
        (2, 73, True),
        (30, 590, False),
        (30, 610, True),
    ],
)
def test_announcements_are_repeated_with_growing_patience(
    database: Database, rings: int, seconds: int, is_due: bool
) -> None:
    a_run(database)
    change(
        database,
        "UPDATE runs SET rings = %(rings)s, ring_at = now() - make_interval(secs => %(seconds)s)",
        rings=rings,
        seconds=seconds,
    )
    assert bool(due(database, ring_after=10.0)) == is_due


def test_a_run_that_waits_is_due_when_its_time_comes(database: Database) -> None:
    a_run(database)
    change(database, "UPDATE runs SET ring_at = NULL, not_before = now() + interval '1 minute'")
    assert due(database) == []
    change(database, "UPDATE runs SET not_before = now() - interval '1 second'")
    assert len(due(database)) == 1


def test_a_claim_starts_the_patience_anew(database: Database) -> None:
    run_id = a_run(database).run_id
    change(database, "UPDATE runs SET rings = 9")
    claimed(database, run_id)
    assert run_row(database, run_id)["rings"] == 0


def test_a_held_or_settled_run_is_never_due(database: Database) -> None:
    claim = claimed(database)
    change(database, "UPDATE runs SET ring_at = NULL")
    assert due(database) == []
    commit_answer(database, claim, an_exchange(), Answer("Hello."))
    assert due(database) == []


def test_ready_calls_are_due_as_runs_are(database: Database) -> None:
    step = dispatched(database, READ, READ)
    assert due_calls(database, Room(10, 60)) == []
    change(database, "UPDATE calls SET ring_at = NULL")
    started(database, step.calls[0])
    [call] = due_calls(database, Room(10, 60))
    assert (call.call_id, call.tool, call.effect, call.rings) == (step.calls[1], "look", "read", 1)
    assert due_calls(database, Room(10, 60)) == []


def test_two_sweepers_find_each_due_row_once(
    database: Database, make_database: Callable[[], Database]
) -> None:
    for _ in range(10):
        a_run(database)
    change(database, "UPDATE runs SET ring_at = NULL")
    pools = [make_database(), make_database()]
    with ThreadPoolExecutor(2) as threads:
        found = [step for steps in threads.map(due, pools) for step in steps]
    assert len({step.run_id for step in found}) == len(found) == 10


def test_workers_are_forgotten_an_hour_after_their_last_beat(database: Database) -> None:
    beat(database, ME)
    beat(database, OTHER)
    change(
        database,
        "UPDATE workers SET beat_at = now() - interval '61 minutes' WHERE id = %(id)s",
        id=ME,
    )
    forget_workers(database)
    assert count(database, "workers") == 1
