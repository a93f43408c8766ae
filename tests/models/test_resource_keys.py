"""Changes that touch the same thing: one at a time, in order, in all runs of a tenant."""

import hashlib
from dataclasses import replace

import pytest

from loop.outcome import Errored, Returned, Unknown
from models.approvals import expire_approvals, grant_call
from models.calls import Started, load_call, record_intent, settle
from models.database import Database
from models.owner import resume_run, stop_run, verify_receipt
from models.resource_keys import next_change, put_off_change
from models.runs import find_run
from models.sweeping import settle_lost_changes, skip_void_calls
from models.workers import register
from tests.factories import OWNER, RunWish, a_run
from tests.invariants import violations
from tests.models.story import (
    CHANGE,
    DEAD_AFTER,
    ME,
    OTHER,
    READ,
    Dispatched,
    beat,
    call_row,
    call_states,
    change,
    claimed,
    dispatched,
    fall_silent,
    query,
    started,
)
from tests.models.two_sessions import holding, meet
from umbel.contracts import CallId, RunId, WorkerId
from umbel.names import Verification

ASKED = replace(CHANGE, state="awaiting_approval")
ANN = replace(CHANGE, resource_key="account:ann")
BOB = replace(CHANGE, resource_key="account:bob")
SHA = hashlib.sha256(str(CHANGE.args_text).encode()).digest()
FOUND = "I looked into it."


def intent(database: Database, call_id: CallId, worker: WorkerId = ME) -> Started | None:
    call = load_call(database, call_id)
    assert call is not None
    return record_intent(database, call, worker)


def follow_up(database: Database, step: Dispatched) -> Dispatched:
    """The same change once more, in a further run of the thread."""
    run = a_run(database, RunWish(thread_id=step.claim.thread_id))
    return dispatched(database, CHANGE, claim=claimed(database, run.run_id))


def detail(database: Database, run_id: RunId) -> str | None:
    with database.begin() as connection:
        row = find_run(connection, run_id)
    assert row is not None
    return row.detail


def test_changes_of_a_step_without_a_key_start_one_after_another(database: Database) -> None:
    step = dispatched(database, CHANGE, CHANGE)
    first = started(database, step.calls[0])
    assert intent(database, step.calls[1]) is None
    settle(database, first, Returned("1"), "1")
    assert intent(database, step.calls[1]) is not None
    assert violations(database, at_rest=False) == []


def test_other_keys_and_reads_start_beside_a_change(database: Database) -> None:
    step = dispatched(database, ANN, BOB, CHANGE, READ)
    for call_id in step.calls:
        started(database, call_id)
    assert call_states(database, step.run_id) == ["started"] * 4


def test_what_ends_a_change_readies_the_next_one_of_its_key_and_not_of_a_busy_one(
    database: Database,
) -> None:
    later = (replace(ANN, state="planned"), replace(BOB, state="planned"))
    step = dispatched(database, ANN, BOB, READ, *later)
    ann, bob, read = (started(database, call_id) for call_id in step.calls[:3])
    assert settle(database, read, Returned("1"), "1")
    assert call_states(database, step.run_id)[3:] == ["planned", "planned"]
    settled = settle(database, bob, Returned("1"), "1")
    assert settled is not None
    assert settled.next_call is not None
    assert settled.next_call.call_id == step.calls[4]
    settled = settle(database, ann, Errored("no"), "no")
    assert settled is not None
    assert settled.next_call is not None
    assert settled.next_call.call_id == step.calls[3]


def test_of_two_approved_changes_the_second_waits_for_the_first(database: Database) -> None:
    step = dispatched(database, ASKED, ASKED, replace(ASKED, resource_key="elsewhere"))
    ready = [grant_call(database, call_id, OWNER, SHA) for call_id in step.calls]
    assert [granted and granted.ready is not None for granted in ready] == [True, False, True]
    settled = settle(database, started(database, step.calls[0]), Returned("1"), "1")
    assert settled is not None
    assert settled.next_call is not None
    assert settled.next_call.call_id == step.calls[1]


def test_an_approval_that_lapses_makes_place_for_the_next_change(database: Database) -> None:
    step = dispatched(database, ASKED, ASKED)
    for call_id in step.calls:
        grant_call(database, call_id, OWNER, SHA)
    change(
        database,
        "UPDATE calls SET approval_until = now() - interval '1 s' WHERE id = %(id)s",
        id=step.calls[0],
    )
    [(_, settled)] = expire_approvals(database, limit=10)
    assert settled.next_call is not None
    assert settled.next_call.call_id == step.calls[1]


def test_a_key_is_closed_in_every_run_of_its_tenant_and_in_no_other(database: Database) -> None:
    mine, yours = dispatched(database, ANN), dispatched(database, ANN)
    foreign = dispatched(database, ANN)
    change(database, "UPDATE calls SET tenant = 'else' WHERE id = %(id)s", id=foreign.calls[0])
    change(database, "UPDATE runs SET tenant = 'else' WHERE id = %(id)s", id=foreign.run_id)
    first = started(database, mine.calls[0])
    assert intent(database, yours.calls[0]) is None
    assert intent(database, foreign.calls[0]) is not None
    assert next_change(database, mine.calls[0]) is None
    settle(database, first, Returned("1"), "1")
    found = next_change(database, mine.calls[0])
    assert found is not None
    assert found.call_id == yours.calls[0]
    assert intent(database, yours.calls[0]) is not None


def test_of_two_changes_that_start_at_once_one_does(database: Database, url: str) -> None:
    mine, yours = dispatched(database, ANN), dispatched(database, ANN)
    call = load_call(database, mine.calls[0])
    assert call is not None
    with holding(url) as first:
        assert record_intent(first, call, ME) is not None
        assert meet(first, lambda: intent(database, yours.calls[0], OTHER)) is None
    assert call_states(database, yours.run_id) == ["ready"]
    assert query(database, "SELECT call_id FROM receipts") == [{"call_id": mine.calls[0]}]
    assert violations(database, at_rest=False) == []


def test_an_intent_that_is_rolled_back_closes_nothing(database: Database, url: str) -> None:
    mine, yours = dispatched(database, ANN), dispatched(database, ANN)
    call = load_call(database, mine.calls[0])
    assert call is not None
    with holding(url) as first:
        assert record_intent(first, call, ME) is not None
    assert intent(database, yours.calls[0]) is not None


def test_a_dead_worker_closes_the_key_until_its_change_is_verified(database: Database) -> None:
    beat(database)
    mine, yours = dispatched(database, ANN), dispatched(database, ANN)
    started(database, mine.calls[0])
    fall_silent(database)
    register(database, OTHER, node="other@here", role="tool", pool="prefork", pid=2)
    assert len(settle_lost_changes(database, dead_after_seconds=DEAD_AFTER, limit=10)) == 1
    assert intent(database, yours.calls[0], OTHER) is None
    assert stop_run(database, mine.run_id, OWNER) is not None
    assert intent(database, yours.calls[0], OTHER) is None
    verify_receipt(database, mine.run_id, mine.calls[0], OWNER, "happened", FOUND)
    assert intent(database, yours.calls[0], OTHER) is not None


def test_a_late_receipt_opens_the_key(database: Database) -> None:
    mine, yours = dispatched(database, ANN), dispatched(database, ANN)
    proof = started(database, mine.calls[0])
    settle(database, proof, Unknown("?"), "")
    assert intent(database, yours.calls[0]) is None
    settle(database, proof, Returned("1"), "1")
    assert intent(database, yours.calls[0]) is not None


def test_a_follow_up_does_not_send_beside_an_unknown_outcome_of_its_thread(
    database: Database,
) -> None:
    step = dispatched(database, CHANGE)
    settle(database, started(database, step.calls[0]), Unknown("?"), "")
    further = follow_up(database, step)
    assert intent(database, further.calls[0]) is None
    assert detail(database, further.run_id) == (
        f"Change {further.calls[0]} waits, as nobody knows whether {step.calls[0]} has changed"
        f" the same resource: `umbel receipts verify {step.calls[0]}` says so, and it goes on by"
        " itself."
    )


@pytest.mark.parametrize("outcome", ["not_happened", "partial"])
def test_a_follow_up_waits_until_the_old_attempt_can_no_longer_fire(
    database: Database, outcome: Verification
) -> None:
    step = dispatched(database, CHANGE)
    settle(database, started(database, step.calls[0]), Unknown("?"), "")
    verify_receipt(database, step.run_id, step.calls[0], OWNER, outcome, FOUND)
    further = follow_up(database, step)
    assert intent(database, further.calls[0]) is None
    assert "may still be on its way" in str(detail(database, further.run_id))
    assert next_change(database, step.calls[0]) is None
    # Time passes.
    change(database, "UPDATE calls SET quiet_until = now() WHERE quiet_until IS NOT NULL")
    assert next_change(database, step.calls[0]) is not None
    assert detail(database, further.run_id) is None
    assert intent(database, further.calls[0]) is not None


def test_a_follow_up_does_not_repeat_what_was_done_after_all(database: Database) -> None:
    step = dispatched(database, CHANGE)
    proof = started(database, step.calls[0])
    settle(database, proof, Unknown("?"), "")
    verify_receipt(database, step.run_id, step.calls[0], OWNER, "not_happened", FOUND)
    settle(database, proof, Returned("1"), "1")
    change(database, "UPDATE calls SET quiet_until = now() WHERE quiet_until IS NOT NULL")
    further = follow_up(database, step)
    assert intent(database, further.calls[0]) is None
    [(run_id, _)] = skip_void_calls(database, limit=10)
    assert run_id == further.run_id
    elsewhere = dispatched(database, CHANGE)
    assert intent(database, elsewhere.calls[0]) is not None


def test_a_change_whose_key_is_closed_is_put_off_and_no_other(database: Database) -> None:
    mine, yours, free = (dispatched(database, call) for call in (ANN, ANN, BOB))
    started(database, mine.calls[0])
    for step, is_put_off in ((yours, True), (free, False)):
        call = load_call(database, step.calls[0])
        assert call is not None
        assert put_off_change(database, call) is is_put_off
        [row] = query(
            database,
            "SELECT ring_at > now() AS later FROM calls WHERE id = %(id)s",
            id=call.call_id,
        )
        assert row["later"] is is_put_off
    assert "waits for" in str(detail(database, yours.run_id))
    assert detail(database, free.run_id) is None


def test_a_change_is_put_off_until_the_quiet_time_is_over(database: Database) -> None:
    step = dispatched(database, CHANGE)
    settle(database, started(database, step.calls[0]), Unknown("?"), "")
    verify_receipt(database, step.run_id, step.calls[0], OWNER, "partial", FOUND)
    assert resume_run(database, step.run_id, OWNER) == 2
    again = dispatched(database, CHANGE, claim=claimed(database, step.run_id, step=2))
    call = load_call(database, again.calls[0])
    assert call is not None
    assert put_off_change(database, call)
    quiet = call_row(database, step.calls[0])["quiet_until"]
    assert call_row(database, call.call_id)["ring_at"] == quiet
