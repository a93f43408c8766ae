"""Stop: from its commit on nothing starts, and the run ends however its last work ends."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from loop.decision import Answer
from loop.outcome import Errored, Returned
from models import hot
from models.calls import load_call, record_intent, settle, start_read
from models.database import Database
from models.owner import resume_run, steer_run, stop_run
from models.steps import (
    PreparedCall,
    claim_step,
    commit_answer,
    fail_run,
    hand_back,
    release_own,
)
from models.sweeping import free_reads, skip_void_calls, take_over_runs
from tests.factories import OWNER, RunWish, a_run
from tests.invariants import violations
from tests.models.story import (
    CHANGE,
    DEAD_AFTER,
    ME,
    READ,
    a_thread,
    an_exchange,
    attempts,
    beat,
    call_states,
    claimed,
    dispatched,
    event_kinds,
    fall_silent,
    made_unknown,
    query,
    run_row,
    started,
)
from tests.models.two_sessions import holding, meet
from tests.worker_processes import wait_until
from umbel.contracts import Principal, RunId


def ending(database: Database, run_id: RunId) -> tuple[object, ...]:
    row = run_row(database, run_id)
    return row["status"], row["reason"], row["work"], row["settled_at"] is not None


CANCELLED = ("cancelled", "owner_stop", "none", True)


def test_a_run_that_nobody_works_on_is_over_at_once(database: Database) -> None:
    run_id = a_run(database).run_id
    stopped = stop_run(database, run_id, OWNER)
    assert stopped is not None
    assert stopped.is_over
    assert ending(database, run_id) == CANCELLED
    assert event_kinds(database, run_id) == ["run.accepted", "run.stopping", "run.cancelled"]
    assert claim_step(database, run_id, 1, ME) is None
    assert violations(database) == []


def test_a_stop_returns_the_open_corrections_of_its_own_run(database: Database) -> None:
    stranger = Principal(tenant="else", user="eve")
    principals = (OWNER, OWNER, stranger)
    runs = [a_run(database, RunWish(principal=principal)).run_id for principal in principals]
    for run_id, principal in zip(runs, principals, strict=True):
        assert steer_run(database, run_id, principal, "Use staging.", "append") is not None
    assert stop_run(database, runs[0], OWNER) is not None
    rows = query(database, "SELECT run_id, state FROM steers")
    assert {row["run_id"]: row["state"] for row in rows} == {
        runs[0]: "returned",
        runs[1]: "accepted",
        runs[2]: "accepted",
    }


def test_a_second_stop_and_a_stop_by_somebody_else_do_nothing(database: Database) -> None:
    run_id = a_run(database).run_id
    assert stop_run(database, run_id, Principal(tenant=OWNER.tenant, user="else")) is None
    assert stop_run(database, run_id, Principal(tenant="else", user=OWNER.user)) is None
    assert run_row(database, run_id)["stop_at"] is None
    assert stop_run(database, run_id, OWNER) is not None
    assert stop_run(database, run_id, OWNER) is None
    assert stop_run(database, RunId("run_missing"), OWNER) is None


def test_what_has_not_started_is_skipped_and_what_has_is_waited_for(database: Database) -> None:
    step = dispatched(database, READ, READ, CHANGE)
    proof = started(database, step.calls[0])
    stopped = stop_run(database, step.run_id, OWNER)
    assert stopped is not None
    assert not stopped.is_over
    assert stopped.draining == (step.calls[0],)
    assert call_states(database, step.run_id) == ["started", "skipped", "skipped"]
    assert run_row(database, step.run_id)["status"] == "cancelling"
    settle(database, proof, Returned("1"), "1")
    assert ending(database, step.run_id) == CANCELLED
    assert event_kinds(database, step.run_id)[-2:] == ["call.returned", "run.cancelled"]
    assert violations(database) == []


def test_a_step_whose_calls_were_all_skipped_is_over(database: Database) -> None:
    step = dispatched(database, READ, CHANGE)
    assert stop_run(database, step.run_id, OWNER) is not None
    assert ending(database, step.run_id) == CANCELLED
    assert run_row(database, step.run_id)["step"] == 2
    assert resume_run(database, step.run_id, OWNER) == 2
    assert violations(database) == []


@pytest.mark.parametrize("way", ["hand_back", "release_own", "takeover"])
def test_a_held_run_ends_with_its_holder(database: Database, way: str) -> None:
    beat(database)
    claim = claimed(database)
    stopped = stop_run(database, claim.run_id, OWNER)
    assert stopped is not None
    assert not stopped.is_over
    assert run_row(database, claim.run_id)["status"] == "cancelling"
    if way == "hand_back":
        hand_back(database, claim, wait_seconds=0, detail="stop", is_failure=False)
    elif way == "release_own":
        release_own(database, claim.run_id, 1, ME)
    else:
        fall_silent(database)
        take_over_runs(database, dead_after_seconds=DEAD_AFTER, limit=10)
    assert ending(database, claim.run_id) == CANCELLED
    assert event_kinds(database, claim.run_id)[-1] == "run.cancelled"
    assert attempts(database, claim.run_id) == [(1, "lost", None)]
    assert violations(database) == []


def test_an_answer_that_comes_after_the_stop_is_not_given(database: Database) -> None:
    claim = claimed(database)
    stop_run(database, claim.run_id, OWNER)
    assert commit_answer(database, claim, an_exchange(), Answer("Hello.")) is None
    assert run_row(database, claim.run_id)["answer"] is None


def test_no_change_is_intended_while_a_stop_commits(database: Database, url: str) -> None:
    step = dispatched(database, CHANGE)
    call = load_call(database, step.calls[0])
    assert call is not None
    with holding(url) as first:
        stop_run(first, step.run_id, OWNER)
        proof = meet(first, lambda: record_intent(database, call, ME))
    assert proof is None
    assert ending(database, step.run_id) == CANCELLED


def test_no_read_starts_after_a_stop(database: Database) -> None:
    step = dispatched(database, CHANGE, READ)
    call = load_call(database, step.calls[1])
    assert call is not None
    started(database, step.calls[0])
    stop_run(database, step.run_id, OWNER)
    assert start_read(database, call, ME) is None


def test_a_paused_run_is_cancelled_and_its_unknown_change_stays_unknown(
    database: Database,
) -> None:
    step = dispatched(database, CHANGE)
    beat(database)
    proof = started(database, step.calls[0])
    fall_silent(database)
    made_unknown(database, step.calls[0])
    assert run_row(database, step.run_id)["status"] == "paused"
    assert stop_run(database, step.run_id, OWNER) is not None
    assert ending(database, step.run_id) == CANCELLED
    assert resume_run(database, step.run_id, OWNER) is None
    settle(database, proof, Errored("no"), "no")
    assert ending(database, step.run_id) == CANCELLED
    assert resume_run(database, step.run_id, OWNER) == 2
    assert violations(database) == []


def test_the_next_run_of_the_thread_starts_when_the_first_is_stopped(database: Database) -> None:
    thread = a_thread(database)
    stopped = stop_run(database, thread.first.run_id, OWNER)
    assert stopped is not None
    assert stopped.promoted == ((thread.queued[0].run_id, 1),)
    assert run_row(database, thread.queued[0].run_id)["status"] == "running"


def test_a_correction_that_no_request_has_held_is_returned_by_a_stop(database: Database) -> None:
    claim = claimed(database)
    assert steer_run(database, claim.run_id, OWNER, "Use staging.", "append") is not None
    stop_run(database, claim.run_id, OWNER)
    assert query(database, "SELECT state FROM steers") == [{"state": "returned"}]
    assert steer_run(database, claim.run_id, OWNER, "Too late.", "redirect") is None


@pytest.mark.parametrize("verb", ["stop", "steer"])
def test_a_read_that_loses_its_worker_after_a_stop_or_correction_holds_nothing_up(
    database: Database, verb: str
) -> None:
    beat(database)
    step = dispatched(database, READ)
    started(database, step.calls[0])
    if verb == "stop":
        stop_run(database, step.run_id, OWNER)
    else:
        steer_run(database, step.run_id, OWNER, "Use staging.", "redirect")
    fall_silent(database)
    assert free_reads(database, dead_after_seconds=DEAD_AFTER, limit=10) == 1
    assert call_states(database, step.run_id) == ["ready"]
    [(run_id, settled)] = skip_void_calls(database, limit=10)
    assert run_id == step.run_id
    assert call_states(database, step.run_id) == ["skipped"]
    if verb == "stop":
        assert ending(database, step.run_id) == CANCELLED
    else:
        assert settled.next_step == 2
    assert violations(database) == []


def test_a_read_that_may_start_again_is_left_alone(database: Database) -> None:
    beat(database)
    step = dispatched(database, READ)
    started(database, step.calls[0])
    fall_silent(database)
    free_reads(database, dead_after_seconds=DEAD_AFTER, limit=10)
    assert skip_void_calls(database, limit=10) == []
    assert call_states(database, step.run_id) == ["ready"]


IDEMPOTENT = replace(CHANGE, effect="idempotent")


@pytest.mark.parametrize("change", [CHANGE, IDEMPOTENT], ids=["mutation", "idempotent"])
def test_a_change_that_starts_while_a_stop_waits_has_started_before_it(
    database: Database, url: str, change: PreparedCall
) -> None:
    step = dispatched(database, change)
    call = load_call(database, step.calls[0])
    assert call is not None
    start = record_intent if call.effect == "mutation" else start_read
    with holding(url) as first, ThreadPoolExecutor(1) as pool:
        first.run((hot.LOCK_RUN, {"run_id": step.run_id}))
        stopping = pool.submit(stop_run, database, step.run_id, OWNER)
        wait_until(first.blocks, 5, "the stop waits")
        assert start(first, call, ME) is not None
        first.commit()
        stopped = stopping.result(10)
    assert stopped is not None
    assert stopped.draining == (call.call_id,)
    assert violations(database, at_rest=False) == []


def test_an_idempotent_call_that_meets_a_stop_does_not_start(database: Database, url: str) -> None:
    step = dispatched(database, IDEMPOTENT)
    call = load_call(database, step.calls[0])
    assert call is not None
    with holding(url) as first:
        assert stop_run(first, step.run_id, OWNER) is not None
        assert meet(first, lambda: start_read(database, call, ME)) is None


@pytest.mark.parametrize(
    ("effect", "seconds"), [("mutation", 0.01), ("idempotent", 0.01), ("read", 6)]
)
def test_a_call_of_any_effect_that_started_after_the_stop_is_found(
    database: Database, effect: str, seconds: float
) -> None:
    step = dispatched(database, replace(READ, effect=effect))
    started(database, step.calls[0])
    stop_run(database, step.run_id, OWNER)
    assert violations(database, at_rest=False) == []
    later = "UPDATE runs SET stop_at = (SELECT max(started_at) FROM calls) - %(s)s * interval '1 s'"
    database.run((later, {"s": seconds}))
    [found] = violations(database, at_rest=False)
    assert found.startswith("a call started after its run was stopped")


def test_a_run_that_fails_after_it_was_stopped_is_cancelled(database: Database) -> None:
    claim = claimed(database)
    stopped = stop_run(database, claim.run_id, OWNER)
    assert stopped is not None
    assert not stopped.is_over
    ended = fail_run(database, claim, reason="corrupt_record", detail="bad row")
    assert ended == ("cancelled", "owner_stop")
    assert ending(database, claim.run_id) == CANCELLED
    assert event_kinds(database, claim.run_id)[-1] == "run.cancelled"
    assert violations(database) == []
