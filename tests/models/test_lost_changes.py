"""Changes that nobody can finish any more: who may say so, and when."""

from loop.outcome import Errored, Returned, Unknown
from models.calls import (
    settle,
)
from models.database import Database
from models.sweeping import free_reads, settle_lost_changes
from tests.models.story import (
    CHANGE,
    DEAD_AFTER,
    beat,
    call_states,
    change,
    dispatched,
    fall_silent,
    made_unknown,
    run_row,
    started,
)
from tests.models.two_sessions import holding, meet

DONE = Returned('{"id":"42"}')
NOT_DONE = Errored('{"error":{"code":"tool_failed"}}')
UNKNOWN = Unknown("connection reset after send")

DONE = Returned('{"id":"42"}')


def test_a_change_in_time_of_a_living_worker_is_left_alone(database: Database) -> None:
    beat(database)
    step = dispatched(database, CHANGE)
    started(database, step.calls[0])
    assert made_unknown(database, step.calls[0]) is None
    assert settle_lost_changes(database, dead_after_seconds=1e6, limit=10) == []
    assert call_states(database, step.run_id) == ["started"]


def test_a_change_past_its_deadline_becomes_unknown_though_its_worker_lives(
    database: Database,
) -> None:
    beat(database)
    step = dispatched(database, CHANGE)
    started(database, step.calls[0])
    change(database, "UPDATE calls SET deadline_at = now() - interval '4 seconds'")
    assert made_unknown(database, step.calls[0]) is None, "five seconds of patience"
    change(database, "UPDATE calls SET deadline_at = now() - interval '6 seconds'")
    [(_, call_id, settled)] = settle_lost_changes(database, dead_after_seconds=1e6, limit=10)
    assert (call_id, settled.status) == (step.calls[0], "paused")


def test_a_change_of_a_dead_worker_becomes_unknown_at_once(database: Database) -> None:
    beat(database)
    step = dispatched(database, CHANGE)
    started(database, step.calls[0])
    fall_silent(database)
    assert made_unknown(database, step.calls[0]) is not None
    assert call_states(database, step.run_id) == ["unknown"]


def test_no_change_is_lost_before_the_database_has_been_up_long_enough(
    database: Database,
) -> None:
    step = dispatched(database, CHANGE)
    started(database, step.calls[0])
    assert settle_lost_changes(database, dead_after_seconds=1e6, limit=10) == []


def test_progress_that_commits_while_the_sweeper_waits_saves_the_change(
    database: Database, url: str
) -> None:
    beat(database)
    step = dispatched(database, CHANGE)
    started(database, step.calls[0])
    change(database, "UPDATE calls SET deadline_at = now() - interval '6 seconds'")
    with holding(url) as first:
        first.run(("UPDATE calls SET deadline_at = now() + interval '1 minute'", {}))
        assert meet(first, lambda: made_unknown(database, step.calls[0])) is None
    assert call_states(database, step.run_id) == ["started"]


def test_a_receipt_that_commits_while_the_sweeper_waits_stands(
    database: Database, url: str
) -> None:
    step = dispatched(database, CHANGE)
    proof = started(database, step.calls[0])
    fall_silent(database)
    with holding(url) as first:
        settle(first, proof, DONE, "v")
        assert meet(first, lambda: made_unknown(database, step.calls[0])) is None
    assert call_states(database, step.run_id) == ["returned"]
    assert run_row(database, step.run_id)["work"] == "ready"


def test_changes_are_never_given_back(database: Database) -> None:
    step = dispatched(database, CHANGE)
    started(database, step.calls[0])
    fall_silent(database)
    assert free_reads(database, dead_after_seconds=DEAD_AFTER, limit=10) == 0
