"""The sweeper on the real database, with a bell that writes down what it rings."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import fakeredis
import pytest
from celery import Celery
from sqlalchemy import text

from locks.ownership import OwnershipLocks
from loop.outcome import Returned
from models.calls import MAX_READ_ATTEMPTS, settle
from models.database import Database
from scheduler.beat import SweepScheduler
from scheduler.sweeper import Sweeper
from tests.factories import RunWish, a_run
from tests.invariants import violations
from tests.models.story import (
    CHANGE,
    DEAD_AFTER,
    ME,
    READ,
    a_thread,
    beat,
    call_states,
    change,
    claimed,
    dispatched,
    fall_silent,
    query,
    run_row,
    started,
)
from tests.scheduler.recording_bell import RecordingBell


def forget_ringing(database: Database) -> None:
    """Let a long time pass since everything was announced."""
    long_ago = "now() - interval '1 hour'"
    change(database, f"UPDATE runs SET ring_at = {long_ago} WHERE ring_at IS NOT NULL")
    change(database, f"UPDATE calls SET ring_at = {long_ago} WHERE ring_at IS NOT NULL")


def test_a_message_that_was_lost_is_sent_again_and_not_too_often(
    database: Database, sweeper: Sweeper, bell: RecordingBell
) -> None:
    run_id = a_run(database).run_id
    assert sweeper.sweep().rung == 0, "it has just been announced"
    forget_ringing(database)
    assert sweeper.sweep().rung == 1
    assert sweeper.sweep().rung == 0
    assert bell.steps == [(run_id, 1)]


def test_ready_calls_are_announced_as_well(
    database: Database, sweeper: Sweeper, bell: RecordingBell
) -> None:
    step = dispatched(database, READ, CHANGE)
    forget_ringing(database)
    sweeper.sweep()
    assert bell.tools == {step.calls[0]: READ.tool, step.calls[1]: CHANGE.tool}


def test_an_announcement_that_the_broker_did_not_take_costs_no_patience(
    database: Database, sweeper: Sweeper, bell: RecordingBell
) -> None:
    """Else work would lie still for minutes after a broker that was away for minutes is back."""
    step = dispatched(database, READ)
    run_id = a_run(database).run_id
    bell.is_away = True
    for _ in range(5):
        forget_ringing(database)
        sweeper.sweep()
    assert run_row(database, run_id)["rings"] == 0
    assert query(database, "SELECT rings FROM calls") == [{"rings": 0}]
    bell.is_away = False
    forget_ringing(database)
    sweeper.sweep()
    assert (bell.steps, bell.calls) == ([(run_id, 1)], step.calls)


def test_what_a_dead_worker_held_is_announced_at_once_and_its_lock_is_gone(
    database: Database, sweeper: Sweeper, bell: RecordingBell, locks: OwnershipLocks
) -> None:
    beat(database)
    claim = claimed(database)
    locks.acquire(claim.run_id, f"{ME} {claim.run_id}")
    fall_silent(database)
    swept = sweeper.sweep()
    assert (swept.taken_over, bell.steps) == (1, [(claim.run_id, 1)])
    assert locks.acquire(claim.run_id, "wrk_other x")


def test_a_lock_of_somebody_else_is_left_alone(
    database: Database, sweeper: Sweeper, locks: OwnershipLocks
) -> None:
    claim = claimed(database)
    locks.acquire(claim.run_id, "wrk_other x")
    fall_silent(database)
    sweeper.sweep()
    assert locks.holders([claim.run_id]) == {claim.run_id: "wrk_other x"}


def test_a_run_that_cost_too_many_workers_is_not_announced(
    database: Database, sweeper: Sweeper, bell: RecordingBell
) -> None:
    run = a_run(database, RunWish(policy={"max_losses": 1}))
    claimed(database, run.run_id)
    fall_silent(database)
    assert sweeper.sweep().taken_over == 1
    assert bell.steps == []
    assert violations(database) == []


def test_reads_of_a_dead_worker_are_announced_in_the_same_sweep(
    database: Database, sweeper: Sweeper, bell: RecordingBell
) -> None:
    step = dispatched(database, READ)
    started(database, step.calls[0])
    fall_silent(database)
    swept = sweeper.sweep()
    assert (swept.reads_freed, bell.calls) == (1, step.calls)


def test_a_read_that_cost_too_many_workers_ends_as_an_error_and_the_run_goes_on(
    database: Database, sweeper: Sweeper, bell: RecordingBell
) -> None:
    step = dispatched(database, READ)
    fall_silent(database)
    for _ in range(MAX_READ_ATTEMPTS):
        started(database, step.calls[0])
        sweeper.sweep()
    assert len(bell.calls) == MAX_READ_ATTEMPTS - 1
    assert call_states(database, step.run_id) == ["errored"]
    assert bell.steps == [(step.run_id, 2)]
    [row] = query(database, "SELECT body FROM evidence")
    assert "worker_lost" in row["body"]


def test_a_call_that_is_given_up_makes_room_for_the_next_which_is_announced(
    database: Database, sweeper: Sweeper, bell: RecordingBell
) -> None:
    step = dispatched(database, READ, replace(READ, state="planned"))
    change(database, "UPDATE calls SET attempt = 3, ring_at = NULL WHERE position = 1")
    sweeper.sweep()
    assert call_states(database, step.run_id) == ["errored", "ready"]
    assert bell.tools == {step.calls[1]: READ.tool}


def test_a_change_of_a_dead_worker_is_unknown_and_never_announced_again(
    database: Database, sweeper: Sweeper, bell: RecordingBell
) -> None:
    step = dispatched(database, CHANGE)
    started(database, step.calls[0])
    fall_silent(database)
    assert sweeper.sweep().made_unknown == 1
    forget_ringing(database)
    assert sweeper.sweep().rung == 0
    assert bell.calls == []
    assert run_row(database, step.run_id)["reason"] == "unknown_outcome"
    assert violations(database) == []


def test_a_run_that_it_starts_is_announced_at_once(
    database: Database, sweeper: Sweeper, bell: RecordingBell
) -> None:
    thread = a_thread(database)
    claim = claimed(database, thread.first.run_id)
    change(
        database,
        "UPDATE runs SET work = 'none', status = 'paused', reason = 'stall', holder = NULL,"
        " settled_at = now() WHERE id = %(id)s",
        id=claim.run_id,
    )
    sweeper.sweep()
    assert bell.steps == [(thread.queued[0].run_id, 1)]


def test_two_sweepers_at_once_announce_each_row_once(
    database: Database,
    make_database: Callable[[], Database],
    locks: OwnershipLocks,
    bell: RecordingBell,
) -> None:
    steps = [dispatched(database, READ, READ) for _ in range(5)]
    runs = [a_run(database).run_id for _ in range(5)]
    forget_ringing(database)
    sweepers = [Sweeper(make_database(), locks, bell, DEAD_AFTER, 60) for _ in range(2)]
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda one: one.sweep(), sweepers))
    assert sorted(bell.steps) == sorted((run_id, 1) for run_id in runs)
    assert sorted(bell.calls) == sorted(call for step in steps for call in step.calls)


def test_two_sweepers_at_once_settle_each_lost_change_once(
    database: Database,
    make_database: Callable[[], Database],
    locks: OwnershipLocks,
    bell: RecordingBell,
) -> None:
    keys = [(f"one:{n}", f"other:{n}") for n in range(4)]
    steps = [dispatched(database, *(replace(CHANGE, resource_key=k) for k in two)) for two in keys]
    for step in steps:
        for call_id in step.calls:
            started(database, call_id)
    fall_silent(database)
    sweepers = [Sweeper(make_database(), locks, bell, DEAD_AFTER, 60) for _ in range(2)]
    with ThreadPoolExecutor(2) as threads:
        swept = list(threads.map(lambda one: one.sweep(), sweepers))
    assert sum(one.made_unknown for one in swept) == 8
    assert violations(database) == []


def test_a_sweep_that_died_half_way_is_finished_by_the_next(
    database: Database, sweeper: Sweeper, bell: RecordingBell
) -> None:
    claim = claimed(database)
    fall_silent(database)
    bell.is_away = True
    sweeper.sweep()
    bell.is_away = False
    forget_ringing(database)
    sweeper.sweep()
    assert bell.steps == [(claim.run_id, 1)]


def test_a_quiet_system_is_left_alone(database: Database, sweeper: Sweeper) -> None:
    beat(database)
    step = dispatched(database, READ)
    settle(database, started(database, step.calls[0]), Returned("1"), "1")
    beat(database)
    before = query(database, "SELECT xmin::text, * FROM runs")
    swept = sweeper.sweep()
    assert (swept.taken_over, swept.reads_freed, swept.made_unknown, swept.rung) == (0, 0, 0, 0)
    assert query(database, "SELECT xmin::text, * FROM runs") == before


class BeatWithoutDatabase(SweepScheduler):
    """Beat whose PostgreSQL is away."""

    def make_sweeper(self) -> Sweeper:
        nowhere = Database("postgresql+psycopg://nobody@127.0.0.1:1/none", role="b", pool_size=1)
        locks = OwnershipLocks(fakeredis.FakeRedis(), prefix="u", ttl_seconds=30)
        return Sweeper(nowhere, locks, RecordingBell(), 15, 5)


def test_beat_goes_on_when_postgresql_is_away(caplog: pytest.LogCaptureFixture) -> None:
    app: Any = Celery("t", set_as_current=False)
    beat_process = BeatWithoutDatabase(app, lazy=False)
    assert beat_process.tick() == 1.0
    assert beat_process.tick() == 1.0
    assert caplog.messages == ["sweep not finished"] * 2
    assert beat_process.get_schedule() == {}


def test_after_an_outage_nobody_is_declared_dead_before_all_could_beat(
    database: Database, sweeper: Sweeper
) -> None:
    step = claimed(database)
    fall_silent(database)
    sweeper.outages.note_outage()
    assert sweeper.sweep().taken_over == 0
    assert run_row(database, step.run_id)["work"] == "held"
    assert not sweeper.outages.is_over_for(DEAD_AFTER + 5)
    assert sweeper.outages.is_over_for(0)


def test_without_an_outage_the_dead_are_found_at_once(database: Database, sweeper: Sweeper) -> None:
    claimed(database)
    fall_silent(database)
    assert sweeper.sweep().taken_over == 1


def test_a_locked_run_does_not_stop_the_sweep_for_the_others(
    database: Database, make_database: Callable[[], Database], sweeper: Sweeper, bell: RecordingBell
) -> None:
    stuck = dispatched(database, CHANGE)
    started(database, stuck.calls[0])
    fall_silent(database)
    other = a_run(database)
    forget_ringing(database)
    with make_database().begin() as session:
        session.execute(text("SELECT 1 FROM runs WHERE id = :id FOR UPDATE"), {"id": stuck.run_id})
        assert sweeper.sweep().made_unknown == 0
        assert (other.run_id, 1) in bell.steps
    assert sweeper.sweep().made_unknown == 1


def test_a_read_that_is_silent_for_too_long_ends_as_an_error_and_the_run_goes_on(
    database: Database, sweeper: Sweeper, bell: RecordingBell
) -> None:
    step = dispatched(database, READ)
    proof = started(database, step.calls[0])
    beat(database)
    assert sweeper.sweep() is not None
    assert call_states(database, step.run_id) == ["started"], "its time is not over"
    change(database, "UPDATE calls SET deadline_at = now() - interval '6 seconds'")
    sweeper.sweep()
    assert call_states(database, step.run_id) == ["errored"]
    assert (step.run_id, 2) in bell.steps
    assert settle(database, proof, Returned('"late"'), '"late"') is None
    assert violations(database) == []
