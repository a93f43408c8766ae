"""One bad row, one locked row, one broker that is away: the sweep goes on for everybody else."""

import time
from collections.abc import Callable

import pytest
from sqlalchemy import text

from locks.ownership import OwnershipLocks
from models.database import Database
from scheduler.sweeper import GRACE_SECONDS, OutageMemory, Sweeper
from tests.factories import a_run
from tests.models.story import (
    CHANGE,
    DEAD_AFTER,
    OTHER,
    READ,
    a_thread,
    beat,
    call_states,
    change,
    claimed,
    dispatched,
    fall_silent,
    run_row,
    started,
)
from tests.scheduler.recording_bell import RecordingBell
from tests.scheduler.test_sweeper import forget_ringing
from umbel.contracts import RunId
from umbel.errors import Contended

_WRONG_COUNTER = "UPDATE runs SET next_seq = next_seq - 1 WHERE id = %(id)s"
"""Its next event has a number that is taken, by whatever fault: no statement about it succeeds."""


def a_lost_change(database: Database) -> RunId:
    step = dispatched(database, CHANGE)
    started(database, step.calls[0])
    return step.run_id


def test_a_run_that_cannot_be_settled_stops_nobody(
    database: Database,
    sweeper: Sweeper,
    bell: RecordingBell,
    caplog: pytest.LogCaptureFixture,
) -> None:
    poor, lost = a_lost_change(database), a_lost_change(database)
    change(database, _WRONG_COUNTER, id=poor)
    fall_silent(database)
    beat(database, OTHER)
    due = a_run(database).run_id
    forget_ringing(database)
    assert sweeper.sweep().made_unknown == 1
    assert run_row(database, lost)["status"] == "paused"
    assert run_row(database, poor)["work"] == "calls"
    assert (due, 1) in bell.steps
    [record] = [record for record in caplog.records if record.levelname == "ERROR"]
    assert (record.message, vars(record)["run_id"]) == ("row left to the next sweep", poor)


def test_a_run_that_cannot_be_taken_over_keeps_no_other_one(
    database: Database, sweeper: Sweeper
) -> None:
    poor, others = claimed(database), [claimed(database) for _ in range(3)]
    change(database, _WRONG_COUNTER, id=poor.run_id)
    fall_silent(database)
    assert sweeper.sweep().taken_over == 3
    assert {run_row(database, other.run_id)["work"] for other in others} == {"ready"}
    assert run_row(database, poor.run_id)["work"] == "held"


def free(database: Database, first: RunId) -> None:
    """End the run that the others of its thread wait for."""
    change(
        database,
        "UPDATE runs SET status = 'cancelled', reason = 'owner_stop', stop_at = now(),"
        " work = 'none', settled_at = now() WHERE id = %(id)s",
        id=first,
    )


def test_a_queued_run_that_cannot_be_started_keeps_no_other_thread(
    database: Database, sweeper: Sweeper
) -> None:
    poor, other = a_thread(database), a_thread(database)
    for thread in (poor, other):
        free(database, thread.first.run_id)
    change(database, _WRONG_COUNTER, id=poor.queued[0].run_id)
    sweeper.sweep()
    assert run_row(database, poor.queued[0].run_id)["status"] == "queued"
    assert run_row(database, other.queued[0].run_id)["status"] == "running"


def test_a_locked_queued_run_is_left_and_nobody_waits_for_it(
    database: Database, make_database: Callable[[], Database], sweeper: Sweeper
) -> None:
    dead, thread = claimed(database), a_thread(database)
    free(database, thread.first.run_id)
    fall_silent(database)
    queued = thread.queued[0].run_id
    with make_database().begin() as session:
        session.execute(text("SELECT 1 FROM runs WHERE id = :id FOR UPDATE"), {"id": queued})
        began = time.monotonic()
        assert sweeper.sweep().taken_over == 1
        assert time.monotonic() - began < 4  # the statement's own limit is 5 s
    assert run_row(database, dead.run_id)["work"] == "ready"
    assert run_row(database, queued)["status"] == "queued"
    sweeper.sweep()
    assert run_row(database, queued)["status"] == "running"


def test_a_statement_that_took_too_long_is_no_outage(database: Database) -> None:
    with pytest.raises(Contended):
        database.run(("SET LOCAL statement_timeout = '50ms'", {}), ("SELECT pg_sleep(5)", {}))


@pytest.mark.parametrize("lengths", [{}, {"umbel.tools": 10_000}], ids=["away", "full"])
def test_a_read_that_cost_too_many_workers_ends_whatever_the_broker_does(
    database: Database, sweeper: Sweeper, bell: RecordingBell, lengths: dict[str, int]
) -> None:
    bell.lengths, bell.is_away = lengths, not lengths
    step = dispatched(database, READ)
    change(database, "UPDATE calls SET attempt = 3")
    sweeper.sweep()
    assert call_states(database, step.run_id) == ["errored"]
    assert run_row(database, step.run_id)["work"] == "ready"


def test_a_sweeper_that_has_just_begun_lets_the_living_beat_first(
    database: Database, locks: OwnershipLocks, bell: RecordingBell
) -> None:
    sweeper = Sweeper(
        database,
        locks,
        bell,
        dead_after_seconds=DEAD_AFTER,
        ring_after_seconds=60,
        outages=OutageMemory(time.monotonic() - DEAD_AFTER),
    )
    run_id = a_lost_change(database)
    fall_silent(database)  # nobody could beat while PostgreSQL recovered; its start time is old
    assert sweeper.sweep().made_unknown == 0
    assert run_row(database, run_id)["work"] == "calls"
    assert sweeper.outages.is_over_for(DEAD_AFTER)
    assert not sweeper.outages.is_over_for(DEAD_AFTER + GRACE_SECONDS)


def test_a_connection_notices_that_what_it_sent_does_not_arrive(database: Database) -> None:
    with database.engine.connect() as connection:
        driver = connection.connection.driver_connection
        assert driver is not None
        assert driver.info.get_parameters()["tcp_user_timeout"] == "10000"
