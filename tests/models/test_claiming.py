"""What a process finds in the backlog by itself, and who may take a step that cost a worker."""

import pytest

from models.claiming import Duty, NextStep, next_call, next_step
from models.database import Database
from models.steps import claim_step
from models.sweeping import Room, due_calls, due_steps
from models.workers import Capacity, living_slots, register
from tests.factories import RunWish, a_run
from tests.models.story import (
    CHANGE,
    DEAD_AFTER,
    ME,
    OTHER,
    READ,
    change,
    claimed,
    dispatched,
    fall_silent,
    run_row,
    started,
)
from umbel.contracts import Principal, RunId, WorkerId
from umbel.names import LOOP_QUEUE, SUSPECT_QUEUE

CONTROL = WorkerId("wrk_control")


def of_tenant(database: Database, tenant: str, count: int = 1) -> list[RunId]:
    wish = RunWish(principal=Principal(tenant=tenant, user="ann"))
    return [a_run(database, wish).run_id for _ in range(count)]


def look(database: Database, after: str = "", duty: Duty = Duty()) -> NextStep | None:  # noqa: B008
    return next_step(database, duty, after=after, heard_seconds=0.0)


def a_suspect(database: Database) -> RunId:
    run_id = a_run(database).run_id
    change(database, "UPDATE runs SET losses = 1 WHERE id = %(id)s", id=run_id)
    return run_id


def a_control_worker(database: Database) -> None:
    capacity = Capacity(1, ("umbel.control", SUSPECT_QUEUE))
    register(database, CONTROL, node="c", role="control", pool="prefork", pid=1, capacity=capacity)


def test_tenants_take_turns_whatever_they_have_waiting(database: Database) -> None:
    many, few = of_tenant(database, "many", 50), of_tenant(database, "few")
    first = look(database)
    assert first is not None
    assert first.tenant == "few"
    claim_step(database, few[0], 1, ME)
    second = look(database, after="few")
    assert second is not None
    assert second.run_id == many[0]
    third = look(database, after="many")
    assert third is not None, "the last tenant is followed by the first"
    assert third.run_id == many[1]


def test_what_was_just_announced_is_left_to_whoever_hears_of_it(database: Database) -> None:
    of_tenant(database, "one")
    assert next_step(database, Duty(), after="", heard_seconds=60.0) is None
    assert look(database) is not None


@pytest.mark.parametrize(
    "fact",
    ["not_before = now() + interval '1 hour'", "stop_at = now(), status = 'cancelling'"],
)
def test_a_run_that_is_not_due_or_stopped_is_not_found(database: Database, fact: str) -> None:
    of_tenant(database, "one")
    change(database, f"UPDATE runs SET {fact}")
    assert look(database) is None


def test_a_step_that_cost_a_worker_is_left_to_a_living_suspect_worker(database: Database) -> None:
    run_id = a_suspect(database)
    a_control_worker(database)
    assert look(database) is None
    assert claim_step(database, run_id, 1, ME) is None
    assert run_row(database, run_id)["work"] == "ready"
    duty = Duty(takes_fresh=False, takes_suspects=True)
    assert look(database, duty=duty) is not None
    assert claim_step(database, run_id, 1, CONTROL, duty) is not None


def test_where_no_suspect_worker_lives_others_take_such_steps_one_at_a_time(
    database: Database,
) -> None:
    a_control_worker(database)
    run_id = a_suspect(database)
    fall_silent(database, CONTROL)
    busy = Duty(dead_after_seconds=DEAD_AFTER, may_risk=False)
    assert claim_step(database, run_id, 1, ME, busy) is None, "both would die of the worse one"
    claim = claim_step(database, run_id, 1, OTHER, Duty(dead_after_seconds=DEAD_AFTER))
    assert claim is not None
    assert claim.losses == 1


def test_a_suspect_worker_looks_for_nothing_else(database: Database) -> None:
    of_tenant(database, "one")
    assert look(database, duty=Duty(takes_fresh=False, takes_suspects=True)) is None


def test_ready_calls_are_found_the_same_way(database: Database) -> None:
    step = dispatched(database, READ, CHANGE)
    found = next_call(database, after="", heard_seconds=0.0)
    assert found is not None
    assert (found.call_id, found.tool, found.tenant) == (step.calls[0], "look", "acme")
    started(database, step.calls[0])
    other = next_call(database, after=found.tenant, heard_seconds=0.0)
    assert other is not None
    assert other.call_id == step.calls[1]
    started(database, step.calls[1])
    assert next_call(database, after="", heard_seconds=0.0) is None


def test_announcements_go_round_the_tenants(database: Database) -> None:
    many, few = of_tenant(database, "many", 30), of_tenant(database, "few", 2)
    change(database, "UPDATE runs SET ring_at = NULL")
    told = [step.run_id for step in due_steps(database, Room(6, 60))]
    assert set(few) < set(told)
    assert {told[0] in few, told[1] in few} == {True, False}, "one of each, then another of each"
    assert len(set(told) & set(many)) == 4


def test_a_row_waits_longer_each_time_unless_the_list_is_empty(database: Database) -> None:
    step = dispatched(database, READ)
    a_run(database)
    change(database, "UPDATE runs SET rings = 3, ring_at = now() - interval '61 seconds'")
    change(database, "UPDATE calls SET rings = 3, ring_at = now() - interval '61 seconds'")
    assert due_steps(database, Room(10, 60)) == []
    assert due_calls(database, Room(10, 60)) == []
    assert len(due_steps(database, Room(10, 60, is_empty=True))) == 1
    assert [call.call_id for call in due_calls(database, Room(10, 60, is_empty=True))] == step.calls


def test_slots_are_those_of_living_processes(database: Database) -> None:
    capacity = Capacity(100, (LOOP_QUEUE,))
    for name in ("wrk_a", "wrk_b"):
        register(
            database, WorkerId(name), node=name, role="step", pool="g", pid=1, capacity=capacity
        )
    a_control_worker(database)
    fall_silent(database, WorkerId("wrk_b"))
    slots = living_slots(database, dead_after_seconds=DEAD_AFTER + 5)
    assert slots == {LOOP_QUEUE: 100, SUSPECT_QUEUE: 1, "umbel.control": 1}


def test_a_first_loss_does_not_yet_make_the_claims_of_neighbours_wait(database: Database) -> None:
    a_suspect(database)
    a_control_worker(database)
    assert claimed(database).attempt == 1
