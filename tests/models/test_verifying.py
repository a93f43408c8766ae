"""Verification: the owner's word settles an unknown change, sends nothing, and is not overruled."""

from dataclasses import replace

import pytest

from loop.outcome import Errored, Returned, Unknown
from models.calls import Started, load_call, record_intent, settle
from models.database import Database
from models.owner import resume_run, verify_receipt
from models.sweeping import skip_void_calls
from tests.factories import OWNER
from tests.invariants import violations
from tests.models.story import (
    CHANGE,
    ME,
    Dispatched,
    call_row,
    change,
    claimed,
    dispatched,
    event_kinds,
    query,
    receipt_row,
    run_row,
    started,
)
from umbel.contracts import Principal, RunId
from umbel.errors import InvalidInput
from umbel.names import Verification

FOUND = "I looked into the system."


def an_unknown_change(database: Database) -> tuple[Dispatched, Started]:
    step = dispatched(database, CHANGE)
    proof = started(database, step.calls[0])
    settle(database, proof, Unknown("?"), "")
    return step, proof


def verify(database: Database, step: Dispatched, outcome: Verification) -> int | None:
    return verify_receipt(database, step.run_id, step.calls[0], OWNER, outcome, FOUND)


@pytest.mark.parametrize(
    ("outcome", "state"),
    [("happened", "returned"), ("partial", "returned"), ("not_happened", "errored")],
)
def test_the_owners_word_becomes_the_result_of_the_call(
    database: Database, outcome: Verification, state: str
) -> None:
    step, _ = an_unknown_change(database)
    assert verify(database, step, outcome) == 0
    assert call_row(database, step.calls[0])["state"] == state
    receipt = receipt_row(database, step.calls[0])
    assert (receipt["outcome"], receipt["verified"], receipt["verified_by"]) == (
        "unknown",
        outcome,
        OWNER.user,
    )
    [evidence] = query(database, "SELECT body FROM evidence")
    assert f'{{"verified_by_owner":"{outcome}","text":"{FOUND}"}}' == evidence["body"]
    row = run_row(database, step.run_id)
    assert (row["status"], row["unknowns"]) == ("paused", 0)
    assert event_kinds(database, step.run_id)[-1] == "call.verified"
    assert event_kinds(database, step.run_id).count("call.intent") == 1
    assert resume_run(database, step.run_id, OWNER) == 2
    claimed(database, step.run_id, step=2)
    assert violations(database, at_rest=False) == []


def test_only_the_owner_verifies_and_only_what_is_unknown(database: Database) -> None:
    step, _ = an_unknown_change(database)
    for other in (
        Principal(tenant=OWNER.tenant, user="else"),
        Principal(tenant="else", user=OWNER.user),
    ):
        found = verify_receipt(database, step.run_id, step.calls[0], other, "happened", FOUND)
        assert found is None
    assert verify(database, step, "happened") == 0
    assert verify(database, step, "not_happened") is None
    known = dispatched(database, CHANGE)
    settle(database, started(database, known.calls[0]), Returned("1"), "1")
    assert verify(database, known, "not_happened") is None
    assert run_row(database, known.run_id)["unknowns"] == 0


@pytest.mark.parametrize(
    ("said", "late", "kind"),
    [
        ("not_happened", Returned("42"), "call.conflict"),
        ("happened", Errored("no"), "call.conflict"),
        ("partial", Returned("42"), "call.conflict"),
        ("happened", Returned("42"), "call.confirmed"),
        ("not_happened", Errored("no"), "call.confirmed"),
    ],
)
def test_what_the_tool_reports_afterwards_is_kept_and_moves_nothing(
    database: Database, said: Verification, late: Returned | Errored, kind: str
) -> None:
    step, proof = an_unknown_change(database)
    verify(database, step, said)
    before = run_row(database, step.run_id)
    state = call_row(database, step.calls[0])["state"]
    assert settle(database, proof, late, "") is None
    assert event_kinds(database, step.run_id)[-1] == kind
    assert call_row(database, step.calls[0])["state"] == state
    after = run_row(database, step.run_id)
    assert after == before | {"next_seq": before["next_seq"] + 1}
    receipt = receipt_row(database, step.calls[0])
    assert (receipt["verified"], receipt["late_body"]) == (said, late.text)
    settle(database, proof, late, "")
    assert event_kinds(database, step.run_id).count(kind) == 1
    assert violations(database, at_rest=False) == []


def resumed_with(database: Database, run_id: RunId, *, key: str | None = None) -> Started | None:
    """The intent of the same bytes in the run's next step, if they may be sent."""
    assert resume_run(database, run_id, OWNER) is not None
    again = replace(CHANGE, resource_key=key)
    step = dispatched(database, again, claim=claimed(database, run_id, step=2))
    call = load_call(database, step.calls[0])
    assert call is not None
    return record_intent(database, call, ME)


@pytest.mark.parametrize("outcome", ["not_happened", "partial"])
def test_the_same_change_waits_until_the_old_attempt_can_no_longer_fire(
    database: Database, outcome: Verification
) -> None:
    step, _ = an_unknown_change(database)
    verify(database, step, outcome)
    assert resumed_with(database, step.run_id) is None
    [call_id] = [r["id"] for r in query(database, "SELECT id FROM calls WHERE step = 2")]
    call = load_call(database, call_id)
    assert call is not None
    # Time passes.
    change(
        database,
        "UPDATE calls SET quiet_until = now() WHERE quiet_until IS NOT NULL",
    )
    assert record_intent(database, call, ME) is not None
    assert violations(database, at_rest=False) == []


def test_the_quarantine_ends_after_the_deadline_and_a_quiet_time(database: Database) -> None:
    step, _ = an_unknown_change(database)
    verify(database, step, "not_happened")
    [row] = query(
        database,
        "SELECT quiet_until - deadline_at AS beyond FROM calls WHERE effect = 'mutation'",
    )
    assert row["beyond"].total_seconds() == 60


@pytest.mark.parametrize("outcome", ["happened", "not_happened"])
def test_another_resource_and_what_did_happen_are_not_held_back(
    database: Database, outcome: Verification
) -> None:
    step, _ = an_unknown_change(database)
    verify(database, step, outcome)
    key = "elsewhere" if outcome == "not_happened" else None
    assert resumed_with(database, step.run_id, key=key) is not None


def test_a_word_that_says_nothing_is_refused(database: Database) -> None:
    step, _ = an_unknown_change(database)
    with pytest.raises(InvalidInput):
        verify_receipt(database, step.run_id, step.calls[0], OWNER, "happened", " ")


def test_a_change_that_was_done_after_all_is_not_sent_again(database: Database) -> None:
    step, proof = an_unknown_change(database)
    verify(database, step, "not_happened")
    assert resumed_with(database, step.run_id) is None
    settle(database, proof, Returned("42"), "42")
    # Time passes.
    change(
        database,
        "UPDATE calls SET quiet_until = now() WHERE quiet_until IS NOT NULL",
    )
    [call_id] = [r["id"] for r in query(database, "SELECT id FROM calls WHERE step = 2")]
    call = load_call(database, call_id)
    assert call is not None
    assert record_intent(database, call, ME) is None
    [(run_id, settled)] = skip_void_calls(database, limit=10)
    assert (run_id, settled.next_step) == (step.run_id, 3)
    assert call_row(database, call_id)["state"] == "skipped"
    assert violations(database, at_rest=False) == []
