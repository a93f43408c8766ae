"""The harness notices: each lie of a record, or of a world, is found by the rule it breaks."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from loop.outcome import Errored, Returned, Unknown
from models.calls import settle
from models.database import Database
from models.owner import resume_run, steer_run, stop_run, verify_receipt
from tests.chaos.harness.judge import RULES, Judge
from tests.chaos.harness.ledger import Accepted, Ack, Ledger
from tests.chaos.harness.reading import read_back, trace_of
from tests.chaos.harness.script import model_of
from tests.factories import OWNER, RunWish, a_run
from tests.models.story import CHANGE, change, claimed, dispatched, started
from umbel.contracts import CallId, RunId

DONE = Returned('{"id":"42"}')
NOT_DONE = Errored('{"error":{"code":"tool_failed"}}')
UNKNOWN = Unknown("connection reset after send")
KEY = "0.1.1"

Lie = Callable[[Database, Ledger, RunId, CallId], object]


def broken(database: Database, ledger: Ledger) -> set[str]:
    return {violation.rule for violation in Judge(database, ledger).verdict()}


def a_story(
    database: Database, ledger: Ledger, outcome: Returned | Errored | Unknown = DONE
) -> tuple[RunId, CallId]:
    """A run of number 0 that is stopped after one change, with a ledger that agrees."""
    accepted = a_run(database, RunWish(model=model_of(0)))
    run_id = accepted.run_id
    ledger.note_accepted(Accepted(0, run_id, accepted.thread_id))
    step = dispatched(database, CHANGE, claim=claimed(database, run_id))
    ledger.note_asked(0, 1)
    [call_id] = step.calls
    settle(database, started(database, call_id), outcome, "view")
    if outcome is not NOT_DONE:
        ledger.note_effect(call_id, run_id, KEY)
    if stop_run(database, run_id, OWNER) is not None:
        ledger.note_ack(Ack("stop", run_id, ""))
    return run_id, call_id


@pytest.mark.parametrize("outcome", [DONE, NOT_DONE, UNKNOWN])
def test_a_record_that_agrees_with_the_world_breaks_no_rule(
    database: Database, outcome: Returned | Errored | Unknown
) -> None:
    ledger = Ledger()
    run_id, call_id = a_story(database, ledger, outcome)
    if outcome is UNKNOWN:
        assert (
            verify_receipt(database, run_id, call_id, OWNER, "happened", "I looked, it is there.")
            == 0
        )
        ledger.note_ack(Ack("verify", run_id, f"{call_id} happened"))
    assert broken(database, ledger) == set()


def sent_again(_: Database, ledger: Ledger, run_id: RunId, call_id: CallId) -> None:
    ledger.note_effect(call_id, run_id, KEY)


def sent_by_another_call(_: Database, ledger: Ledger, run_id: RunId, __: CallId) -> None:
    ledger.note_effect(CallId("call_unheard_of"), run_id, "0.1.2")


def not_done_at_all(_: Database, ledger: Ledger, __: RunId, ___: CallId) -> None:
    ledger.effects.clear()


def said_to_be_undone(database: Database, _: Ledger, __: RunId, call_id: CallId) -> None:
    change(database, "UPDATE receipts SET outcome = 'not_done' WHERE call_id = %(id)s", id=call_id)


def left_without_an_outcome(database: Database, _: Ledger, __: RunId, call_id: CallId) -> None:
    change(
        database,
        "UPDATE receipts SET outcome = NULL, closed_at = NULL WHERE call_id = %(id)s",
        id=call_id,
    )


def accepted_and_gone(_: Database, ledger: Ledger, __: RunId, ___: CallId) -> None:
    ledger.note_accepted(Accepted(1, "run_unheard_of", "thr_unheard_of"))


def still_at_work(database: Database, ledger: Ledger, _: RunId, __: CallId) -> None:
    accepted = a_run(database, RunWish(model=model_of(1)))
    ledger.note_accepted(Accepted(1, accepted.run_id, accepted.thread_id))


def failed(database: Database, _: Ledger, run_id: RunId, __: CallId) -> None:
    change(
        database,
        "UPDATE runs SET status = 'failed', reason = 'corrupt_record' WHERE id = %(id)s",
        id=run_id,
    )


def steered_in_vain(database: Database, ledger: Ledger, run_id: RunId, _: CallId) -> None:
    assert steer_run(database, run_id, OWNER, "Too late.", "append") is None
    ledger.note_ack(Ack("steer", run_id, "str_unheard_of"))


def resumed_in_vain(database: Database, ledger: Ledger, run_id: RunId, _: CallId) -> None:
    assert resume_run(database, run_id, OWNER) is not None
    assert stop_run(database, run_id, OWNER) is not None
    for _time in range(2):
        ledger.note_ack(Ack("resume", run_id, ""))


def verified_in_vain(_: Database, ledger: Ledger, run_id: RunId, call_id: CallId) -> None:
    ledger.note_ack(Ack("verify", run_id, f"{call_id} happened"))


def asked_unseen(_: Database, ledger: Ledger, __: RunId, ___: CallId) -> None:
    ledger.note_asked(0, 2)


def asked_for_nothing(database: Database, ledger: Ledger, run_id: RunId, _: CallId) -> None:
    change(
        database,
        "INSERT INTO model_calls (run_id, step, attempt, tenant, fence, holder, state, closed_at)"
        " SELECT run_id, step, 2, tenant, fence, holder, 'lost', now() FROM model_calls"
        " WHERE run_id = %(id)s",
        id=run_id,
    )
    ledger.note_asked(0, 1)
    change(
        database,
        "UPDATE events SET kind = 'run.dreamt' WHERE run_id = %(id)s AND kind = 'run.stopping'",
        id=run_id,
    )
    ledger.acks.clear()


def done_unasked(_: Database, ledger: Ledger, __: RunId, ___: CallId) -> None:
    ledger.accepted[0] = replace(ledger.accepted[0], asks=True)


def done_with_other_bytes(_: Database, ledger: Ledger, __: RunId, call_id: CallId) -> None:
    ledger.accepted[0] = replace(ledger.accepted[0], asks=True)
    ledger.note_allowed(call_id, "0.1.2")


def done_in_spite_of_a_no(_: Database, ledger: Ledger, run_id: RunId, call_id: CallId) -> None:
    ledger.accepted[0] = replace(ledger.accepted[0], asks=True)
    ledger.note_allowed(call_id, KEY)
    ledger.note_ack(Ack("deny", run_id, call_id))


def denied_in_vain(_: Database, ledger: Ledger, run_id: RunId, call_id: CallId) -> None:
    ledger.note_ack(Ack("deny", run_id, call_id))


def numbered_with_a_gap(database: Database, _: Ledger, run_id: RunId, __: CallId) -> None:
    change(database, "UPDATE runs SET next_seq = next_seq + 1 WHERE id = %(id)s", id=run_id)


LIES: list[tuple[Lie, str]] = [
    (sent_again, "change done twice"),
    (sent_by_another_call, "change without intent"),
    (not_done_at_all, "false receipt"),
    (said_to_be_undone, "false receipt"),
    (left_without_an_outcome, "unknown not shown"),
    (accepted_and_gone, "lost run"),
    (still_at_work, "unsettled run"),
    (failed, "failed run"),
    (steered_in_vain, "forgotten word"),
    (resumed_in_vain, "forgotten word"),
    (verified_in_vain, "forgotten word"),
    (asked_unseen, "invisible model call"),
    (asked_for_nothing, "unexplained model call"),
    (done_unasked, "change without approval"),
    (done_with_other_bytes, "change without approval"),
    (done_in_spite_of_a_no, "change without approval"),
    (denied_in_vain, "forgotten word"),
    (numbered_with_a_gap, "broken rule of the record"),
]


@pytest.mark.parametrize(("lie", "rule"), LIES, ids=[lie.__name__ for lie, _ in LIES])
def test_a_lie_breaks_its_rule(database: Database, lie: Lie, rule: str) -> None:
    assert rule in RULES
    ledger = Ledger()
    run_id, call_id = a_story(database, ledger)
    lie(database, ledger, run_id, call_id)
    assert rule in broken(database, ledger)


def test_a_request_that_cannot_be_built_again_is_found_and_its_run_is_told(
    database: Database,
) -> None:
    run_id, _ = a_story(database, Ledger())  # its manifest names nothing
    _, unreadable = read_back(database)
    assert [(v.rule, v.run_id) for v in unreadable] == [("unreadable row", run_id)]
    assert any("run.cancelled" in line for line in trace_of(database, run_id))
