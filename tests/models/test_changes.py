"""Changes: one intent ever, receipts, unknown outcomes, late facts."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from loop.outcome import Errored, Returned, ToolOutcome, Unknown
from models.calls import (
    CallRow,
    give_up,
    load_call,
    record_intent,
    settle,
)
from models.database import Database
from models.owner_reading import list_receipts
from models.resources import keep_resources
from tests.factories import OWNER
from tests.models.story import (
    CHANGE,
    ME,
    OTHER,
    READ,
    Dispatched,
    call_row,
    call_states,
    change,
    count,
    dispatched,
    event_kinds,
    made_unknown,
    query,
    receipt_row,
    run_row,
    started,
)
from tests.models.two_sessions import holding, meet
from umbel.contracts import WorkerId

DONE = Returned('{"id":"42"}')
NOT_DONE = Errored('{"error":{"code":"tool_failed"}}')
UNKNOWN = Unknown("connection reset after send")


def a_change(database: Database, step: Dispatched | None = None) -> CallRow:
    call = load_call(database, (step or dispatched(database, CHANGE)).calls[0])
    assert call is not None
    return call


def test_an_intent_is_written_down_before_anything_is_sent(database: Database) -> None:
    step = dispatched(database, CHANGE)
    proof = started(database, step.calls[0])
    assert (proof.attempt, proof.args_text) == (1, CHANGE.args_text)
    receipt = receipt_row(database, step.calls[0])
    assert (receipt["args_text"], receipt["outcome"], receipt["attempt"]) == (
        CHANGE.args_text,
        None,
        1,
    )
    kinds = event_kinds(database, step.run_id)
    assert kinds[receipt["intent_seq"] - 1] == "call.intent"
    row = call_row(database, step.calls[0])
    assert (row["state"], row["holder"]) == ("started", ME)
    assert row["deadline_at"] > row["started_at"]


def test_twenty_intents_at_once_are_one(
    database: Database, make_database: Callable[[], Database]
) -> None:
    call = a_change(database)
    pools = [make_database() for _ in range(4)]
    with ThreadPoolExecutor(20) as threads:
        proofs = list(threads.map(lambda n: record_intent(pools[n % 4], call, ME), range(20)))
    assert len([proof for proof in proofs if proof is not None]) == 1
    assert event_kinds(database, call.run_id).count("call.intent") == 1
    assert count(database, "receipts") == 1


@pytest.mark.parametrize(
    "moved",
    [
        "stop_at = now(), status = 'cancelling'",
        "steer_rev = steer_rev + 1",
        "source_rev = source_rev + 1",
        "auth_rev = auth_rev + 1",
        "unknowns = 1",
        "status = 'cancelling'",
        "work = 'none', status = 'paused', reason = 'lost_worker', settled_at = now()",
    ],
)
def test_nothing_is_sent_once_the_run_has_moved_on(database: Database, moved: str) -> None:
    call = a_change(database)
    change(database, f"UPDATE runs SET {moved}")
    assert record_intent(database, call, ME) is None
    assert count(database, "receipts") == 0
    assert call_row(database, call.call_id)["state"] == "ready"


@pytest.mark.parametrize(
    "moved",
    [
        "stop_at = now(), status = 'cancelling'",
        "steer_rev = steer_rev + 1",
        "auth_rev = auth_rev + 1",
        "unknowns = 1",
    ],
)
def test_nothing_is_sent_when_the_run_moves_on_while_the_intent_waits(
    database: Database, url: str, moved: str
) -> None:
    call = a_change(database)
    with holding(url) as first:
        first.run((f"UPDATE runs SET {moved} WHERE id = %(id)s", {"id": call.run_id}))
        assert meet(first, lambda: record_intent(database, call, ME)) is None
    assert count(database, "receipts") == 0


def test_of_two_intents_that_meet_one_is_sent(database: Database, url: str) -> None:
    call = a_change(database)
    with holding(url) as first:
        assert record_intent(first, call, ME) is not None
        assert meet(first, lambda: record_intent(database, call, OTHER)) is None
    assert call_row(database, call.call_id)["holder"] == ME
    assert event_kinds(database, call.run_id).count("call.intent") == 1


def test_an_intent_that_waited_for_another_call_still_numbers_its_event_rightly(
    database: Database, url: str
) -> None:
    step = dispatched(database, READ, CHANGE)
    read = started(database, step.calls[0])
    call = load_call(database, step.calls[1])
    assert call is not None
    with holding(url) as first:
        settle(first, read, DONE, "v")
        proof = meet(first, lambda: record_intent(database, call, ME))
    assert proof is not None
    assert event_kinds(database, step.run_id)[-2:] == ["call.returned", "call.intent"]
    assert receipt_row(database, step.calls[1])["intent_seq"] == 7


def test_a_change_that_was_skipped_while_its_intent_waits_is_not_sent(
    database: Database, url: str
) -> None:
    step = dispatched(database, CHANGE, CHANGE)
    doubtful = started(database, step.calls[0])
    call = load_call(database, step.calls[1])
    assert call is not None
    with holding(url) as first:
        settle(first, doubtful, UNKNOWN, "")
        assert meet(first, lambda: record_intent(database, call, ME)) is None
    assert call_states(database, step.run_id) == ["unknown", "skipped"]
    assert count(database, "receipts") == 1


def test_another_version_of_the_tool_is_not_sent(database: Database) -> None:
    call = a_change(database)
    assert record_intent(database, replace(call, tool_version="2"), ME) is None


def test_a_read_has_no_intent(database: Database) -> None:
    call = a_change(database, dispatched(database, READ))
    assert record_intent(database, call, ME) is None


def test_a_change_is_never_sent_a_second_time_whatever_its_row_says(database: Database) -> None:
    call = a_change(database)
    assert record_intent(database, call, ME) is not None
    change(database, "UPDATE calls SET state = 'ready', holder = NULL")
    assert record_intent(database, call, OTHER) is None


@pytest.mark.parametrize(
    ("outcome", "state", "receipt"),
    [(DONE, "returned", "done"), (NOT_DONE, "errored", "not_done")],
)
def test_a_known_outcome_is_a_receipt_a_result_and_a_join(
    database: Database, outcome: ToolOutcome, state: str, receipt: str
) -> None:
    step = dispatched(database, CHANGE)
    settled = settle(database, started(database, step.calls[0]), outcome, "view")
    assert settled is not None
    assert settled.next_step == 2
    row = receipt_row(database, step.calls[0])
    assert (row["outcome"], row["is_late"]) == (receipt, False)
    assert call_states(database, step.run_id) == [state]
    assert count(database, "evidence") == 1


def test_an_unknown_outcome_pauses_the_run_and_has_no_result(database: Database) -> None:
    step = dispatched(database, CHANGE)
    settled = settle(database, started(database, step.calls[0]), UNKNOWN, "")
    assert settled is not None
    assert (settled.status, settled.work, settled.next_step) == ("paused", "none", None)
    run = run_row(database, step.run_id)
    assert (run["reason"], run["unknowns"], run["open_calls"]) == ("unknown_outcome", 1, 0)
    assert receipt_row(database, step.calls[0])["outcome"] == "unknown"
    assert count(database, "evidence") == 0
    assert event_kinds(database, step.run_id)[-2:] == ["call.unknown", "run.paused"]


def test_the_same_outcome_twice_is_written_once(database: Database) -> None:
    step = dispatched(database, CHANGE, CHANGE)
    proof = started(database, step.calls[0])
    assert settle(database, proof, DONE, "v") is not None
    assert settle(database, proof, NOT_DONE, "v") is None
    assert receipt_row(database, step.calls[0])["outcome"] == "done"
    assert run_row(database, step.run_id)["open_calls"] == 1


@pytest.mark.parametrize("outcomes", [(DONE, UNKNOWN), (UNKNOWN, DONE)])
def test_two_outcomes_of_one_change_that_meet_agree_on_what_is_known(
    database: Database, url: str, outcomes: tuple[ToolOutcome, ToolOutcome]
) -> None:
    step = dispatched(database, CHANGE)
    proof = started(database, step.calls[0])
    with holding(url) as first:
        assert settle(first, proof, outcomes[0], "v") is not None
        meet(first, lambda: settle(database, proof, outcomes[1], "v"))
    assert call_states(database, step.run_id) == ["returned"]
    row = run_row(database, step.run_id)
    assert row["unknowns"] == 0
    assert row["status"] == ("running" if outcomes[0] == DONE else "paused")
    event_kinds(database, step.run_id)


def test_beside_an_unknown_outcome_nothing_new_starts_and_what_runs_may_end(
    database: Database,
) -> None:
    step = dispatched(database, CHANGE, READ, READ, replace(READ, state="planned"))
    doubtful, running = (started(database, call) for call in step.calls[:2])
    settled = settle(database, doubtful, UNKNOWN, "")
    assert settled is not None
    assert (settled.status, settled.work, settled.next_call) == ("running", "calls", None)
    assert call_states(database, step.run_id) == ["unknown", "started", "skipped", "skipped"]
    assert count(database, "evidence") == 2, "skipped calls have a result for the model"
    last = settle(database, running, DONE, "v")
    assert last is not None
    assert (last.status, last.next_call) == ("paused", None)
    kinds = event_kinds(database, step.run_id)
    assert kinds[-5:] == [
        "call.unknown",
        "call.skipped",
        "call.skipped",
        "call.returned",
        "run.paused",
    ]


def test_a_late_receipt_makes_the_facts_known_and_does_not_move_the_run(
    database: Database,
) -> None:
    step = dispatched(database, CHANGE)
    proof = started(database, step.calls[0])
    change(database, "UPDATE calls SET deadline_at = now() - interval '1 minute'")
    assert made_unknown(database, step.calls[0]) is not None
    before = run_row(database, step.run_id)
    settled = settle(database, proof, DONE, "v")
    assert settled is not None
    assert settled.next_step is None
    after = run_row(database, step.run_id)
    assert (after["status"], after["work"], after["step"]) == ("paused", "none", before["step"])
    assert after["unknowns"] == 0
    row = receipt_row(database, step.calls[0])
    assert (row["outcome"], row["is_late"]) == ("done", True)
    [event] = query(database, "SELECT data FROM events ORDER BY seq DESC LIMIT 1")
    assert event["data"]["is_late"] is True
    assert settle(database, proof, DONE, "v") is None, "and only once"


def test_a_late_receipt_before_the_last_sibling_lets_the_run_go_on(database: Database) -> None:
    step = dispatched(database, CHANGE, READ)
    doubtful, running = (started(database, call) for call in step.calls)
    settle(database, doubtful, UNKNOWN, "")
    settle(database, doubtful, DONE, "v")
    last = settle(database, running, DONE, "v")
    assert last is not None
    assert (last.status, last.next_step) == ("running", 2)


def test_a_change_that_was_never_sent_can_be_given_up(database: Database) -> None:
    step = dispatched(database, CHANGE)
    settled = give_up(database, a_change(database, step), NOT_DONE)
    assert settled is not None
    assert call_states(database, step.run_id) == ["errored"]
    assert count(database, "receipts") == 0


def test_the_ids_a_change_recorded_stay_with_its_receipt(database: Database) -> None:
    step = dispatched(database, CHANGE)
    proof = started(database, step.calls[0])
    settle(database, proof, Returned('"sent"'), '"sent"', ["INV-204", "INV-205"])
    [row] = query(database, "SELECT outcome, resources FROM receipts")
    assert (row["outcome"], row["resources"]) == ("done", ["INV-204", "INV-205"])


def test_ids_that_a_lost_change_recorded_are_there_for_whoever_looks_for_it(
    database: Database,
) -> None:
    step = dispatched(database, CHANGE)
    proof = started(database, step.calls[0])
    assert keep_resources(database, proof, ["INV-204"])
    assert keep_resources(database, proof, ["INV-204", "INV-205"])
    assert not keep_resources(database, replace(proof, worker=WorkerId("another")), ["X"])
    assert not keep_resources(database, replace(proof, attempt=2), ["X"])
    settle(database, proof, Unknown("Its worker is gone."), "")
    [receipt] = list_receipts(database, tenant=OWNER.tenant, only_unknown=True)
    assert (receipt.outcome, receipt.resources) == ("unknown", ("INV-204", "INV-205"))
