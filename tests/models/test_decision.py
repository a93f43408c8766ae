from collections.abc import Callable
from dataclasses import replace

import pytest

from loop.decision import Answer, Pause, Retry
from models.calls import ReadyCall
from models.database import Database
from models.steps import (
    Applied,
    Claim,
    book_reply,
    claim_step,
    commit_answer,
    commit_dispatch,
    commit_pause,
    commit_retry,
    fail_run,
)
from models.sweeping import take_over_runs
from tests.factories import a_run
from tests.models.story import (
    CHANGE,
    DEAD_AFTER,
    ME,
    OTHER,
    READ,
    REFUSED,
    a_reply,
    a_thread,
    an_exchange,
    attempts,
    beat,
    call_ids,
    call_states,
    change,
    claimed,
    count,
    dispatched,
    event_kinds,
    fall_silent,
    in_order,
    query,
    run_row,
)
from tests.models.two_sessions import holding, meet
from umbel.errors import InvariantBroken

Decide = Callable[[Database, Claim], Applied | None]


def dispatch(database: Database, claim: Claim) -> Applied | None:
    calls = in_order(READ, CHANGE)
    return commit_dispatch(database, claim, an_exchange(a_reply(calls=calls)), calls)


def answer(database: Database, claim: Claim) -> Applied | None:
    return commit_answer(database, claim, an_exchange(), Answer("Hello."))


def pause(database: Database, claim: Claim) -> Applied | None:
    return commit_pause(database, claim, an_exchange(), Pause("credentials", "auth: no"))


def retry(database: Database, claim: Claim) -> Applied | None:
    return commit_retry(database, claim, an_exchange(), Retry("provider", 3.0, "server"))


EVERY_DECISION = pytest.mark.parametrize("decide", [dispatch, answer, pause, retry])


def test_a_dispatch_stores_reply_usage_and_calls_in_the_models_order(database: Database) -> None:
    step = dispatched(database, READ, CHANGE, REFUSED)
    [row] = query(database, "SELECT * FROM model_calls")
    assert (row["state"], row["decision"], row["endpoint"]) == ("closed", "dispatch", "local/chat")
    assert (row["input_tokens"], row["output_tokens"], row["total_tokens"]) == (10, 5, 15)
    assert bytes(row["request_sha"]) == b"\x01" * 32
    run = run_row(database, step.run_id)
    assert (run["work"], run["open_calls"], run["calls_used"], run["step"]) == ("calls", 2, 3, 1)
    assert run["holder"] is None
    assert call_states(database, step.run_id) == ["ready", "ready", "refused"]
    ready = [ReadyCall(step.calls[0], READ.tool), ReadyCall(step.calls[1], CHANGE.tool)]
    assert list(step.applied.ready_calls) == ready
    assert step.applied.next_step is None
    assert event_kinds(database, step.run_id)[2:] == [
        "step.decided",
        "call.ready",
        "call.ready",
        "call.refused",
    ]
    [refusal] = query(database, "SELECT * FROM evidence")
    assert (refusal["call_id"], refusal["view"]) == (step.calls[2], REFUSED.body)


def test_a_step_whose_every_call_was_refused_is_ready_for_the_next(database: Database) -> None:
    step = dispatched(database, REFUSED, REFUSED)
    run = run_row(database, step.run_id)
    assert (run["work"], run["open_calls"], run["step"]) == ("ready", 0, 2)
    assert step.applied.next_step == 2
    assert claimed(database, step.run_id, step=2).calls_used == 2


def test_arguments_are_stored_byte_for_byte_with_their_hash(database: Database) -> None:
    text = '{"a":"{{x}} %s \\u0000 é 😀","b":1.0}'
    step = dispatched(database, replace(READ, args_text=text))
    [row] = query(
        database,
        "SELECT args_text, args_sha = sha256(convert_to(args_text, 'UTF8')) AS fits FROM calls",
    )
    assert (row["args_text"], row["fits"]) == (text, True)
    assert step.calls == call_ids(database, step.run_id)


def test_an_answer_completes_the_run_and_is_delivered_once(database: Database) -> None:
    claim = claimed(database)
    assert answer(database, claim) == Applied()
    run = run_row(database, claim.run_id)
    assert (run["status"], run["work"], run["answer"]) == ("completed", "none", "Hello.")
    [delivery] = query(database, "SELECT * FROM deliveries")
    assert (delivery["run_id"], delivery["recipient"]) == (claim.run_id, "ann")
    assert (delivery["destination"], delivery["state"]) == ("inbox", "delivered")
    assert delivery["body"] == "Hello."
    assert event_kinds(database, claim.run_id)[2:] == [
        "step.decided",
        "delivery.delivered",
        "run.completed",
    ]
    assert answer(database, claim) is None
    assert count(database, "deliveries") == 1


def test_a_retry_waits_and_counts_the_failure(database: Database) -> None:
    claim = claimed(database)
    assert retry(database, claim) == Applied()
    run = run_row(database, claim.run_id)
    assert (run["status"], run["reason"], run["failures"]) == ("waiting", "provider_retry", 1)
    assert claim_step(database, claim.run_id, 1, ME) is None, "its time has not come"
    change(database, "UPDATE runs SET not_before = now()")
    again = claimed(database, claim.run_id)
    assert (again.attempt, again.failures, again.claims) == (2, 1, 1)
    assert run_row(database, claim.run_id)["reason"] is None
    assert attempts(database, claim.run_id) == [(1, "closed", "retry"), (2, "open", None)]


def test_a_retry_without_a_wait_names_the_step_to_ring_for(database: Database) -> None:
    claim = claimed(database)
    at_once = Retry("empty_response", 0.0, "empty_response")
    assert commit_retry(database, claim, an_exchange(), at_once) == Applied(next_step=1)


def test_a_dispatch_forgets_the_failures_of_its_step(database: Database) -> None:
    claim = claimed(database)
    retry(database, claim)
    change(database, "UPDATE runs SET not_before = now(), losses = 1")
    step = dispatched(database, REFUSED, claim=claimed(database, claim.run_id))
    run = run_row(database, step.run_id)
    assert (run["failures"], run["losses"], run["attempts"]) == (0, 0, 0)


def test_a_pause_leaves_the_run_to_a_person_and_frees_its_thread(database: Database) -> None:
    thread = a_thread(database)
    claim = claimed(database, thread.first.run_id)
    promoted = pause(database, claim)
    run = run_row(database, claim.run_id)
    assert (run["status"], run["reason"], run["detail"]) == ("paused", "credentials", "auth: no")
    assert promoted == Applied(promoted=((thread.queued[0].run_id, 1),))
    assert event_kinds(database, claim.run_id)[-1] == "run.paused"


def test_a_failed_run_is_settled_and_leaves_no_attempt_open(database: Database) -> None:
    claim = claimed(database)
    assert fail_run(database, claim, reason="corrupt_record", detail="bad row")
    run = run_row(database, claim.run_id)
    assert (run["status"], run["reason"], run["work"]) == ("failed", "corrupt_record", "none")
    assert attempts(database, claim.run_id) == [(1, "lost", None)]
    assert not fail_run(database, claim, reason="corrupt_record", detail="again")


@EVERY_DECISION
def test_the_same_decision_twice_is_applied_once(database: Database, decide: Decide) -> None:
    claim = claimed(database)
    assert decide(database, claim) is not None
    kinds = event_kinds(database, claim.run_id)
    assert decide(database, claim) is None
    assert event_kinds(database, claim.run_id) == kinds
    assert len(attempts(database, claim.run_id)) == 1


@EVERY_DECISION
@pytest.mark.parametrize(
    "moved",
    [
        "steer_rev = steer_rev + 1",
        "source_rev = source_rev + 1",
        "auth_rev = auth_rev + 1",
        "stop_at = now()",
        "step = step + 1",
        "fence = fence + 1",
    ],
)
def test_a_decision_about_a_state_that_is_over_writes_nothing(
    database: Database, decide: Decide, moved: str
) -> None:
    claim = claimed(database)
    change(database, f"UPDATE runs SET {moved}")
    before = event_kinds(database, claim.run_id)
    assert decide(database, claim) is None
    assert event_kinds(database, claim.run_id) == before
    assert attempts(database, claim.run_id) == [(1, "open", None)]
    assert [count(database, table) for table in ("calls", "deliveries", "evidence")] == [0, 0, 0]
    assert run_row(database, claim.run_id)["work"] == "held"


@EVERY_DECISION
@pytest.mark.parametrize(
    "moved",
    ["steer_rev = steer_rev + 1", "stop_at = now()", "auth_rev = auth_rev + 1"],
)
def test_a_correction_that_commits_while_the_decision_waits_makes_it_void(
    database: Database, url: str, decide: Decide, moved: str
) -> None:
    claim = claimed(database)
    with holding(url) as first:
        first.run((f"UPDATE runs SET {moved} WHERE id = %(id)s", {"id": claim.run_id}))
        assert meet(first, lambda: decide(database, claim)) is None
    assert attempts(database, claim.run_id) == [(1, "open", None)]
    assert [count(database, table) for table in ("calls", "deliveries", "evidence")] == [0, 0, 0]


@EVERY_DECISION
def test_a_takeover_that_commits_while_the_decision_waits_makes_it_void(
    database: Database, url: str, decide: Decide
) -> None:
    beat(database)
    claim = claimed(database)
    fall_silent(database)
    with holding(url) as first:
        assert len(take_over_runs(first, dead_after_seconds=DEAD_AFTER, limit=10)) == 1
        assert meet(first, lambda: decide(database, claim)) is None
    assert attempts(database, claim.run_id) == [(1, "lost", None)]
    assert claimed(database, claim.run_id, worker=OTHER).attempt == 2


def test_a_decision_without_its_model_call_row_is_refused(database: Database) -> None:
    claim = claimed(database)
    change(database, "UPDATE model_calls SET state = 'lost', closed_at = now()")
    with pytest.raises(InvariantBroken, match="already decided"):
        answer(database, claim)
    assert run_row(database, claim.run_id)["work"] == "held"
    assert count(database, "deliveries") == 0


def test_a_decision_that_breaks_a_rule_of_the_tables_leaves_no_trace(database: Database) -> None:
    claim = claimed(database)
    wrong = replace(CHANGE, placement="inline")
    with pytest.raises(InvariantBroken, match="calls_mutation_is_task"):
        commit_dispatch(database, claim, an_exchange(), [wrong])
    assert attempts(database, claim.run_id) == [(1, "open", None)]
    assert count(database, "calls") == 0
    assert book_reply(database, claim, an_exchange(), discard=False), "and the reply can be kept"


def test_unknown_usage_stays_unknown(database: Database) -> None:
    claim = claimed(database)
    silent = a_reply("Hello.").model_copy(update={"usage": type(a_reply().usage)()})
    commit_answer(database, claim, an_exchange(silent), Answer("Hello."))
    [row] = query(database, "SELECT total_tokens, input_tokens, is_estimated FROM model_calls")
    assert tuple(row.values()) == (None, None, False)


def test_a_run_of_another_thread_is_not_touched(database: Database) -> None:
    stranger = a_run(database)
    answer(database, claimed(database))
    assert event_kinds(database, stranger.run_id) == ["run.accepted"]
