"""Reads: started, settled, joined; given back when their worker is lost."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from loop.outcome import Errored, Returned
from models.calls import (
    MAX_READ_ATTEMPTS,
    ReadyCall,
    extend_deadline,
    free_own_read,
    give_up,
    load_call,
    settle,
    start_read,
)
from models.database import Database
from models.sweeping import free_reads
from tests.models.story import (
    CHANGE,
    DEAD_AFTER,
    ME,
    OTHER,
    READ,
    beat,
    call_row,
    call_states,
    change,
    claimed,
    count,
    dispatched,
    event_kinds,
    fall_silent,
    query,
    run_row,
    started,
)
from tests.models.two_sessions import holding, meet
from umbel.contracts import CallId

DONE = Returned('{"ok":true}')


def test_a_started_read_belongs_to_its_worker_and_attempt(database: Database) -> None:
    step = dispatched(database, READ)
    proof = started(database, step.calls[0])
    assert (proof.attempt, proof.args_text) == (1, READ.args_text)
    row = call_row(database, step.calls[0])
    assert (row["state"], row["holder"], row["attempt"]) == ("started", ME, 1)
    assert start_read(database, proof.call, OTHER) is None


def test_of_many_starts_at_once_exactly_one_wins(database: Database) -> None:
    call = load_call(database, dispatched(database, READ).calls[0])
    assert call is not None
    with ThreadPoolExecutor(8) as pool:
        starts = list(pool.map(lambda _: start_read(database, call, ME), range(20)))
    assert len([proof for proof in starts if proof is not None]) == 1


@pytest.mark.parametrize("moved", ["stop_at = now()", "steer_rev = steer_rev + 1"])
def test_a_read_of_a_stopped_or_corrected_run_is_not_started(
    database: Database, moved: str
) -> None:
    call = load_call(database, dispatched(database, READ).calls[0])
    change(database, f"UPDATE runs SET {moved}")
    assert call is not None
    assert start_read(database, call, ME) is None


def test_a_change_is_never_started_as_a_read(database: Database) -> None:
    call = load_call(database, dispatched(database, CHANGE).calls[0])
    assert call is not None
    assert start_read(database, call, ME) is None


def test_a_result_is_stored_whole_and_makes_the_run_ready(database: Database) -> None:
    step = dispatched(database, READ)
    settled = settle(database, started(database, step.calls[0]), DONE, "view")
    assert settled is not None
    assert (settled.work, settled.next_step) == ("ready", 2)
    [row] = query(database, "SELECT * FROM evidence")
    assert (row["body"], row["view"], row["total_chars"]) == (DONE.text, "view", len(DONE.text))
    assert run_row(database, step.run_id)["open_calls"] == 0
    assert event_kinds(database, step.run_id)[-1] == "call.returned"
    assert claimed(database, step.run_id, step=2).attempt == 1


def test_the_step_joins_only_with_its_last_call(database: Database) -> None:
    step = dispatched(database, READ, READ, READ)
    proofs = [started(database, call) for call in step.calls]
    works = [settle(database, proof, DONE, "v") for proof in reversed(proofs)]
    assert [outcome and outcome.work for outcome in works] == ["calls", "calls", "ready"]
    assert run_row(database, step.run_id)["step"] == 2


def test_the_last_two_results_that_meet_join_exactly_once(database: Database, url: str) -> None:
    step = dispatched(database, READ, READ)
    one, two = (started(database, call) for call in step.calls)
    with holding(url) as first:
        early = settle(first, one, DONE, "v")
        late = meet(first, lambda: settle(database, two, DONE, "v"))
    assert early is not None
    assert late is not None
    assert (early.work, late.work) == ("calls", "ready")
    row = run_row(database, step.run_id)
    assert (row["step"], row["open_calls"], row["work"]) == (2, 0, "ready")
    assert event_kinds(database, step.run_id)[-2:] == ["call.returned", "call.returned"]


def test_the_same_result_twice_is_stored_once(database: Database) -> None:
    step = dispatched(database, READ, READ)
    proof = started(database, step.calls[0])
    assert settle(database, proof, DONE, "v") is not None
    assert settle(database, proof, Errored('{"error":1}'), "v") is None
    assert run_row(database, step.run_id)["open_calls"] == 1
    assert count(database, "evidence") == 1


def test_the_same_result_at_once_is_stored_once(database: Database, url: str) -> None:
    step = dispatched(database, READ, READ)
    proof = started(database, step.calls[0])
    with holding(url) as first:
        assert settle(first, proof, DONE, "v") is not None
        assert meet(first, lambda: settle(database, proof, DONE, "v")) is None
    assert run_row(database, step.run_id)["open_calls"] == 1


def test_a_result_lands_even_when_the_run_was_corrected_meanwhile(database: Database) -> None:
    step = dispatched(database, READ)
    proof = started(database, step.calls[0])
    change(database, "UPDATE runs SET steer_rev = steer_rev + 1, fence = fence + 1")
    settled = settle(database, proof, DONE, "v")
    assert settled is not None
    assert settled.work == "ready"


def test_the_last_result_of_a_stopped_run_ends_it(database: Database) -> None:
    step = dispatched(database, READ)
    proof = started(database, step.calls[0])
    change(database, "UPDATE runs SET stop_at = now(), status = 'cancelling'")
    settled = settle(database, proof, DONE, "v")
    assert settled is not None
    assert (settled.status, settled.work, settled.next_step) == ("cancelled", "none", None)
    assert run_row(database, step.run_id)["reason"] == "owner_stop"


def test_a_settled_call_readies_the_next_planned_one(database: Database) -> None:
    planned = replace(READ, state="planned")
    step = dispatched(database, READ, planned, planned)
    assert step.applied.ready_calls == (ReadyCall(step.calls[0], READ.tool),)
    for at in (1, 2):
        settled = settle(database, started(database, step.calls[at - 1]), DONE, "v")
        assert settled is not None
        assert settled.next_call == ReadyCall(step.calls[at], READ.tool)
    settled = settle(database, started(database, step.calls[2]), DONE, "v")
    assert settled is not None
    assert (settled.next_call, settled.work) == (None, "ready")


def test_two_results_that_meet_ready_exactly_two_planned_calls(
    database: Database, url: str
) -> None:
    planned = replace(READ, state="planned")
    step = dispatched(database, READ, READ, planned, planned, planned)
    one, two = (started(database, call) for call in step.calls[:2])
    with holding(url) as first:
        early = settle(first, one, DONE, "v")
        late = meet(first, lambda: settle(database, two, DONE, "v"))
    assert early is not None
    assert late is not None
    ready = [ReadyCall(call_id, READ.tool) for call_id in step.calls[2:4]]
    assert [early.next_call, late.next_call] == ready
    assert call_states(database, step.run_id) == [
        "returned",
        "returned",
        "ready",
        "ready",
        "planned",
    ]


def test_a_duplicate_result_readies_no_further_call(database: Database) -> None:
    step = dispatched(database, READ, replace(READ, state="planned"))
    proof = started(database, step.calls[0])
    settle(database, proof, DONE, "v")
    assert settle(database, proof, DONE, "v") is None
    assert call_states(database, step.run_id) == ["returned", "ready"]


def test_reads_of_a_dead_worker_are_ready_again_and_its_late_result_is_too_late(
    database: Database,
) -> None:
    beat(database)
    step = dispatched(database, READ)
    proof = started(database, step.calls[0])
    assert free_reads(database, dead_after_seconds=DEAD_AFTER, limit=10) == 0
    fall_silent(database)
    assert free_reads(database, dead_after_seconds=DEAD_AFTER, limit=10) == 1
    again = started(database, step.calls[0], OTHER)
    assert again.attempt == 2
    assert settle(database, proof, DONE, "v") is None
    assert settle(database, again, DONE, "v") is not None


def test_a_late_result_does_not_settle_a_second_attempt_of_the_same_worker(
    database: Database,
) -> None:
    step = dispatched(database, READ)
    proof = started(database, step.calls[0])
    change(database, "UPDATE calls SET state = 'ready'")
    again = started(database, step.calls[0])
    assert settle(database, proof, DONE, "v") is None
    assert settle(database, again, DONE, "v") is not None


def test_a_worker_that_is_not_known_at_all_counts_as_dead(database: Database) -> None:
    step = dispatched(database, READ)
    started(database, step.calls[0])
    fall_silent(database)
    assert free_reads(database, dead_after_seconds=DEAD_AFTER, limit=10) == 1


def test_nobody_is_dead_before_the_database_has_been_up_long_enough(database: Database) -> None:
    step = dispatched(database, READ)
    started(database, step.calls[0])
    assert free_reads(database, dead_after_seconds=1e6, limit=10) == 0


def test_a_read_that_cost_too_many_workers_is_not_started_again_but_given_up(
    database: Database,
) -> None:
    step = dispatched(database, READ)
    for _ in range(MAX_READ_ATTEMPTS):
        started(database, step.calls[0])
        change(database, "UPDATE calls SET state = 'ready'")
    call = load_call(database, step.calls[0])
    assert call is not None
    assert start_read(database, call, ME) is None
    settled = give_up(database, call, Errored('{"error":{"code":"worker_lost"}}'))
    assert settled is not None
    assert settled.next_step == 2
    assert call_states(database, step.run_id) == ["errored"]
    assert give_up(database, call, Errored("{}")) is None


def test_a_call_that_runs_cannot_be_given_up(database: Database) -> None:
    step = dispatched(database, READ)
    proof = started(database, step.calls[0])
    assert give_up(database, proof.call, Errored("{}")) is None


def test_progress_moves_the_deadline_of_the_own_attempt_only(database: Database) -> None:
    step = dispatched(database, CHANGE)
    proof = started(database, step.calls[0])
    change(database, "UPDATE calls SET deadline_at = now()")
    assert extend_deadline(database, proof)
    [row] = query(
        database, "SELECT deadline_at > now() + interval '29 seconds' AS moved FROM calls"
    )
    assert row["moved"]
    assert not extend_deadline(database, replace(proof, worker=OTHER))
    assert not extend_deadline(database, replace(proof, attempt=2))
    settle(database, proof, DONE, "v")
    assert not extend_deadline(database, proof)


def test_an_unknown_id_is_no_call(database: Database) -> None:
    assert load_call(database, CallId("call_none")) is None


def test_a_read_its_worker_cannot_finish_is_ready_again(database: Database) -> None:
    proof = started(database, dispatched(database, READ).calls[0])
    assert not free_own_read(database, replace(proof, worker=OTHER)), "not another's"
    assert not free_own_read(database, replace(proof, attempt=proof.attempt - 1)), (
        "not an older one"
    )
    assert free_own_read(database, proof)
    assert call_row(database, proof.call.call_id)["state"] == "ready"
    assert not free_own_read(database, proof), "once"
    again = start_read(database, proof.call, OTHER)
    assert again is not None
    assert again.attempt == proof.attempt + 1
    assert settle(database, proof, DONE, "") is None, "the abandoned attempt is over"


def test_a_change_is_never_made_ready_again(database: Database) -> None:
    proof = started(database, dispatched(database, CHANGE).calls[0])
    assert not free_own_read(database, proof)
    assert call_row(database, proof.call.call_id)["state"] == "started"
