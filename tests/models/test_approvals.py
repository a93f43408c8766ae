"""Approvals: of these very bytes, by the owner, used once, void as soon as things move on."""

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final

import pytest

from loop.outcome import Returned, Unknown
from models import hot_approvals, hot_calls
from models.approvals import Denied, Granted, deny_call, expire_approvals, grant_call
from models.calls import load_call, record_intent, settle, start_read
from models.database import Database
from models.owner import steer_run, stop_run
from models.steps import claim_step, commit_dispatch
from tests.factories import OWNER, RunWish, a_run
from tests.invariants import violations
from tests.models.story import (
    CHANGE,
    ME,
    READ,
    Dispatched,
    a_reply,
    an_exchange,
    call_ids,
    call_row,
    call_states,
    change,
    claimed,
    count,
    dispatched,
    event_kinds,
    in_order,
    query,
    run_row,
    started,
)
from tests.models.two_sessions import holding, meet
from umbel.contracts import CallId, Principal, RunId
from umbel.errors import InvalidInput

ASKED: Final = replace(CHANGE, state="awaiting_approval")
SHA: Final = hashlib.sha256(str(CHANGE.args_text).encode()).digest()
DONE: Final = Returned("1")
WAITING: Final = ("waiting", "approval_required", "calls")


def grant(database: Database, call_id: CallId, **other: Any) -> Granted | None:
    given: dict[str, Any] = {"principal": OWNER, "args_sha": SHA, **other}
    return grant_call(database, call_id, **given)


def deny(database: Database, call_id: CallId, words: str = "") -> Denied | None:
    return deny_call(database, call_id, OWNER, SHA, words)


def intent(database: Database, call_id: CallId) -> bool:
    call = load_call(database, call_id)
    assert call is not None
    return record_intent(database, call, ME) is not None


def standing(database: Database, run_id: RunId) -> tuple[str, str | None, str]:
    row = run_row(database, run_id)
    return row["status"], row["reason"], row["work"]


def with_limit(database: Database, seconds: float) -> Dispatched:
    claim = claimed(database)
    prepared = in_order(ASKED)
    exchange = an_exchange(a_reply(calls=prepared))
    applied = commit_dispatch(database, claim, exchange, prepared, seconds)
    assert applied is not None
    return Dispatched(claim, call_ids(database, claim.run_id), applied)


def run_out(database: Database) -> None:
    change(database, "UPDATE calls SET approval_until = now() - interval '1 second'")


def test_a_run_waits_for_its_owner_and_holds_nothing_meanwhile(database: Database) -> None:
    step = dispatched(database, ASKED)
    assert step.applied.ready_calls == ()
    assert standing(database, step.run_id) == WAITING
    row = run_row(database, step.run_id)
    assert (row["holder"], row["open_approvals"], row["open_calls"]) == (None, 1, 1)
    assert "umbel approvals list" in row["detail"]
    assert event_kinds(database, step.run_id)[-1] == "call.awaiting_approval"
    assert claim_step(database, step.run_id, 2, ME) is None
    assert not intent(database, step.calls[0])
    assert violations(database) == []


def test_what_was_granted_starts_once_and_the_run_goes_on(database: Database) -> None:
    step = dispatched(database, ASKED)
    granted = grant(database, step.calls[0])
    assert granted is not None
    assert granted.ready is not None
    assert (granted.ready.call_id, granted.ready.tool) == (step.calls[0], CHANGE.tool)
    assert standing(database, step.run_id) == ("running", None, "calls")
    assert run_row(database, step.run_id)["detail"] is None
    proof = started(database, step.calls[0])
    settled = settle(database, proof, DONE, "1")
    assert settled is not None
    assert settled.next_step == 2
    assert event_kinds(database, step.run_id)[-4:] == [
        "call.awaiting_approval",
        "approval.granted",
        "call.intent",
        "call.returned",
    ]
    [word] = query(database, "SELECT * FROM approvals")
    assert (word["word"], word["said_by"], bytes(word["args_sha"])) == ("granted", "ann", SHA)
    assert violations(database) == []


def test_an_approval_that_its_owner_never_gave_breaks_a_rule(database: Database) -> None:
    step = dispatched(database, ASKED)
    assert grant(database, step.calls[0]) is not None
    change(database, "UPDATE approvals SET said_by = 'else'")
    assert [line.partition(":")[0] for line in violations(database)] == [
        "a call has an approval that its run's owner never gave"
    ]


def test_twenty_uses_of_one_approval_are_one_intent(
    database: Database, make_database: Callable[[], Database]
) -> None:
    step = dispatched(database, ASKED)
    assert grant(database, step.calls[0]) is not None
    pools = [make_database() for _ in range(4)]
    with ThreadPoolExecutor(20) as threads:
        sent = list(threads.map(lambda n: intent(pools[n % 4], step.calls[0]), range(20)))
    assert sent.count(True) == 1
    assert count(database, "receipts") == 1


def test_of_twenty_answers_to_one_question_one_counts(
    database: Database, make_database: Callable[[], Database]
) -> None:
    step = dispatched(database, ASKED)
    pools = [make_database() for _ in range(4)]

    def answer(number: int) -> object:
        verb = grant if number % 2 else deny
        return verb(pools[number % 4], step.calls[0])

    with ThreadPoolExecutor(20) as threads:
        answers = [given for given in threads.map(answer, range(20)) if given is not None]
    assert len(answers) == 1
    assert count(database, "approvals") == 1
    assert violations(database) == []


@pytest.mark.parametrize(
    "other",
    [
        {"args_sha": hashlib.sha256(b"{}").digest()},
        {"args_sha": b""},
        {"principal": Principal(tenant=OWNER.tenant, user="else")},
        {"principal": Principal(tenant="else", user=OWNER.user)},
    ],
)
def test_nobody_else_and_nothing_else_is_approved(
    database: Database, other: dict[str, Any]
) -> None:
    step = dispatched(database, ASKED)
    assert grant(database, step.calls[0], **other) is None
    assert standing(database, step.run_id) == WAITING
    assert count(database, "approvals") == 0
    assert grant(database, CallId("call_none")) is None


@pytest.mark.parametrize(
    "moved",
    [
        "UPDATE runs SET steer_rev = steer_rev + 1",
        "UPDATE runs SET source_rev = source_rev + 1",
        "UPDATE runs SET auth_rev = auth_rev + 1",
        "UPDATE calls SET tool_version = '2'",
        "UPDATE calls SET approval_until = now() - interval '1 second'",
        "UPDATE calls SET approved_sha = NULL, state = 'awaiting_approval'",
    ],
)
def test_an_approval_is_worth_nothing_once_things_have_moved_on(
    database: Database, moved: str
) -> None:
    step = dispatched(database, ASKED)
    assert grant(database, step.calls[0]) is not None
    call = load_call(database, step.calls[0])
    assert call is not None
    change(database, moved)
    assert record_intent(database, call, ME) is None
    assert count(database, "receipts") == 0


@pytest.mark.parametrize("column", ["steer_rev", "source_rev", "auth_rev"])
def test_what_has_moved_on_is_not_approved_any_more(database: Database, column: str) -> None:
    step = dispatched(database, ASKED)
    change(database, f"UPDATE runs SET {column} = {column} + 1")
    assert grant(database, step.calls[0]) is None
    assert deny(database, step.calls[0]) is None


def test_a_denial_with_words_is_the_result_of_that_call_alone(database: Database) -> None:
    step = dispatched(database, ASKED, ASKED)
    denied = deny(database, step.calls[0], "Use the test account.")
    assert denied is not None
    assert denied.settled.next_step is None
    assert call_states(database, step.run_id) == ["refused", "awaiting_approval"]
    assert standing(database, step.run_id) == WAITING
    [result] = query(database, "SELECT body, view FROM evidence")
    assert result["body"] == result["view"]
    assert '"code":"denied"' in result["body"]
    assert "Use the test account." in result["body"]
    assert event_kinds(database, step.run_id)[-2:] == ["approval.denied", "call.refused"]
    denied = deny(database, step.calls[1])
    assert denied is not None
    assert denied.settled.next_step == 2
    assert standing(database, step.run_id) == ("running", None, "ready")
    assert violations(database) == []


def test_words_that_cannot_be_stored_are_refused(database: Database) -> None:
    step = dispatched(database, ASKED)
    for words in ("no\x00", "n" * 4_001):
        with pytest.raises(InvalidInput):
            deny(database, step.calls[0], words)
    assert standing(database, step.run_id) == WAITING


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_one_batch_is_decided_in_any_order(database: Database, order: tuple[int, ...]) -> None:
    things = (replace(ASKED, resource_key=name) for name in "abc")
    step = dispatched(database, *things)
    for place in order[:2]:
        assert grant(database, step.calls[place]) is not None
        assert intent(database, step.calls[place])
        assert standing(database, step.run_id) == WAITING
    assert deny(database, step.calls[order[2]]) is not None
    assert standing(database, step.run_id) == ("running", None, "calls")


def test_reads_beside_a_question_go_on_and_do_not_end_the_step(database: Database) -> None:
    step = dispatched(database, READ, ASKED)
    settled = settle(database, started(database, step.calls[0]), DONE, "1")
    assert settled is not None
    assert settled.next_step is None
    assert standing(database, step.run_id) == WAITING
    assert grant(database, step.calls[1]) is not None
    settled = settle(database, started(database, step.calls[1]), DONE, "1")
    assert settled is not None
    assert settled.next_step == 2


def test_what_is_granted_waits_for_its_place_among_the_parallel_calls(database: Database) -> None:
    claim = claimed(database, a_run(database, RunWish(policy={"parallel": 1})).run_id)
    step = dispatched(database, READ, ASKED, ASKED, claim=claim)
    granted = grant(database, step.calls[2])
    assert granted is not None
    assert granted.ready is None
    assert call_states(database, step.run_id) == ["ready", "awaiting_approval", "planned"]
    settled = settle(database, started(database, step.calls[0]), DONE, "1")
    assert settled is not None
    assert settled.next_call is not None
    assert settled.next_call.call_id == step.calls[2]
    assert deny(database, step.calls[1]) is not None
    assert call_states(database, step.run_id) == ["returned", "refused", "ready"]
    assert violations(database) == []


@pytest.mark.parametrize("is_granted", [False, True])
@pytest.mark.parametrize("verb", ["stop", "steer"])
def test_a_stop_or_a_correction_closes_what_is_open(
    database: Database, verb: str, is_granted: bool
) -> None:
    step = dispatched(database, ASKED, ASKED)
    if is_granted:
        assert grant(database, step.calls[0]) is not None
    if verb == "stop":
        assert stop_run(database, step.run_id, OWNER) is not None
        assert standing(database, step.run_id) == ("cancelled", "owner_stop", "none")
    else:
        steered = steer_run(database, step.run_id, OWNER, "Not these.", "redirect")
        assert steered is not None
        assert steered.next_step == 2
        assert standing(database, step.run_id) == ("running", None, "ready")
    assert call_states(database, step.run_id) == ["skipped", "skipped"]
    assert run_row(database, step.run_id)["open_approvals"] == 0
    assert grant(database, step.calls[0]) is None
    assert deny(database, step.calls[1]) is None
    assert violations(database) == []


def test_a_correction_that_is_appended_leaves_the_question_open(database: Database) -> None:
    step = dispatched(database, ASKED)
    assert steer_run(database, step.run_id, OWNER, "And then?", "append") is not None
    assert standing(database, step.run_id) == WAITING
    assert grant(database, step.calls[0]) is not None
    assert intent(database, step.calls[0])


def test_an_unknown_outcome_closes_the_questions_of_its_step(database: Database) -> None:
    step = dispatched(database, ASKED, ASKED, ASKED)
    assert grant(database, step.calls[0]) is not None
    assert grant(database, step.calls[1]) is not None
    proof = started(database, step.calls[0])
    settle(database, proof, Unknown("connection reset"), "")
    assert call_states(database, step.run_id) == ["unknown", "skipped", "skipped"]
    assert standing(database, step.run_id) == ("paused", "unknown_outcome", "none")
    assert violations(database) == []


def test_beside_a_started_change_an_unknown_outcome_leaves_a_run_that_waits_for_nobody(
    database: Database,
) -> None:
    step = dispatched(database, ASKED, ASKED, READ)
    read = started(database, step.calls[2])
    assert grant(database, step.calls[0]) is not None
    settle(database, started(database, step.calls[0]), Unknown("connection reset"), "")
    assert call_states(database, step.run_id) == ["unknown", "skipped", "started"]
    assert standing(database, step.run_id) == ("running", None, "calls")
    settle(database, read, DONE, "1")
    assert standing(database, step.run_id) == ("paused", "unknown_outcome", "none")
    assert violations(database) == []


def test_an_approval_lapses_after_an_hour_by_the_databases_clock(database: Database) -> None:
    step = dispatched(database, ASKED)
    assert grant(database, step.calls[0]) is not None
    [left] = query(
        database, "SELECT extract(epoch FROM approval_until - now())::float AS s FROM calls"
    )
    assert 3_500 < left["s"] <= 3_601
    run_out(database)
    assert not intent(database, step.calls[0])
    [(run_id, settled)] = expire_approvals(database, limit=10)
    assert (run_id, settled.next_step) == (step.run_id, 2)
    assert call_states(database, step.run_id) == ["skipped"]
    assert event_kinds(database, step.run_id)[-2:] == ["approval.expired", "call.skipped"]
    words = query(database, "SELECT word, said_by FROM approvals ORDER BY id")
    assert [tuple(row.values()) for row in words] == [("granted", "ann"), ("expired", None)]
    assert expire_approvals(database, limit=10) == []
    assert violations(database) == []


def test_a_question_stays_open_unless_the_policy_sets_a_limit(database: Database) -> None:
    step = dispatched(database, ASKED)
    assert call_row(database, step.calls[0])["approval_until"] is None
    other = with_limit(database, 60)
    assert expire_approvals(database, limit=10) == []
    change(
        database,
        "UPDATE calls SET approval_until = now() WHERE run_id = %(id)s",
        id=other.run_id,
    )
    assert grant(database, other.calls[0]) is None
    [(run_id, settled)] = expire_approvals(database, limit=10)
    assert (run_id, settled.next_step) == (other.run_id, 2)
    assert standing(database, other.run_id) == ("running", None, "ready")
    assert standing(database, step.run_id) == WAITING
    assert violations(database) == []


def test_a_lapsed_approval_gives_its_place_to_the_next_call(database: Database) -> None:
    claim = claimed(database, a_run(database, RunWish(policy={"parallel": 1})).run_id)
    step = dispatched(database, ASKED, ASKED, claim=claim)
    assert grant(database, step.calls[0]) is not None
    assert grant(database, step.calls[1]) is not None
    assert call_states(database, step.run_id) == ["ready", "planned"]
    change(database, "UPDATE calls SET approval_until = now() WHERE state = 'ready'")
    [(_, settled)] = expire_approvals(database, limit=10)
    assert settled.next_call is not None
    assert settled.next_call.call_id == step.calls[1]
    assert violations(database) == []


def test_an_idempotent_call_needs_its_approval_too(database: Database) -> None:
    step = dispatched(database, replace(ASKED, effect="idempotent"))
    assert grant(database, step.calls[0]) is not None
    call = load_call(database, step.calls[0])
    assert call is not None
    run_out(database)
    assert start_read(database, call, ME) is None
    change(database, "UPDATE calls SET approval_until = now() + interval '1 minute'")
    assert start_read(database, call, ME) is not None


@pytest.mark.parametrize("first", ["stop", "steer", "deny"])
def test_no_approval_is_given_while_something_commits_that_closes_it(
    database: Database, url: str, first: str
) -> None:
    step = dispatched(database, ASKED)
    with holding(url) as session:
        if first == "stop":
            stop_run(session, step.run_id, OWNER)
        elif first == "steer":
            steer_run(session, step.run_id, OWNER, "Not that.", "redirect")
        else:
            deny(session, step.calls[0])
        assert meet(session, lambda: grant(database, step.calls[0])) is None
    assert violations(database) == []


def test_no_intent_is_written_while_a_stop_commits_that_voids_its_approval(
    database: Database, url: str
) -> None:
    step = dispatched(database, ASKED)
    assert grant(database, step.calls[0]) is not None
    with holding(url) as session:
        stop_run(session, step.run_id, OWNER)
        assert not meet(session, lambda: intent(database, step.calls[0]))
    assert count(database, "receipts") == 0


def test_an_approval_that_lapses_while_its_intent_waits_is_not_used(
    database: Database, url: str
) -> None:
    step = dispatched(database, ASKED)
    assert grant(database, step.calls[0]) is not None
    with holding(url) as session:
        session.run(
            ("SELECT id FROM runs WHERE id = %(id)s FOR UPDATE", {"id": step.run_id}),
            ("UPDATE calls SET approval_until = clock_timestamp()", {}),
        )
        assert not meet(session, lambda: intent(database, step.calls[0]))
    assert count(database, "receipts") == 0


def test_of_the_last_two_answers_that_meet_one_lets_the_run_go_on(
    database: Database, url: str
) -> None:
    step = dispatched(database, ASKED, ASKED)
    with holding(url) as session:
        assert deny(session, step.calls[0]) is not None
        denied = meet(session, lambda: deny(database, step.calls[1]))
    assert denied is not None
    assert denied.settled.next_step == 2
    assert standing(database, step.run_id) == ("running", None, "ready")
    assert violations(database) == []


@pytest.mark.parametrize(
    ("statement", "old", "new", "scenario"),
    [
        (
            "INTENT",
            "c.approved_sha = c.args_sha AND c.approval_until > clock_timestamp()",
            "c.approved_sha = c.args_sha",
            test_an_approval_lapses_after_an_hour_by_the_databases_clock,
        ),
        (
            "START_READ",
            "c.approval_until > clock_timestamp()",
            "true",
            test_an_idempotent_call_needs_its_approval_too,
        ),
        (
            "GRANT",
            "AND c.args_sha = %(args_sha)s",
            "",
            lambda database: test_nobody_else_and_nothing_else_is_approved(
                database, {"args_sha": b""}
            ),
        ),
        (
            "GRANT",
            "AND r.owner = %(owner)s",
            "",
            lambda database: test_nobody_else_and_nothing_else_is_approved(
                database, {"principal": Principal(tenant=OWNER.tenant, user="else")}
            ),
        ),
        (
            "GRANT",
            "AND c.steer_rev = r.steer_rev",
            "",
            lambda database: test_what_has_moved_on_is_not_approved_any_more(database, "steer_rev"),
        ),
        (
            "GRANT",
            "open_approvals - 1",
            "open_approvals",
            test_what_was_granted_starts_once_and_the_run_goes_on,
        ),
        (
            "GRANT",
            "count(*) < coalesce",
            "count(*) < 9 + coalesce",
            test_what_is_granted_waits_for_its_place_among_the_parallel_calls,
        ),
        (
            "SETTLE_UNAPPROVED",
            "CASE x.state WHEN 'ready' THEN 'started' ELSE x.state END",
            "x.state",
            test_a_lapsed_approval_gives_its_place_to_the_next_call,
        ),
    ],
)
def test_a_fault_in_a_statement_is_noticed(
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    statement: str,
    old: str,
    new: str,
    scenario: Callable[[Database], None],
) -> None:
    place = hot_calls if hasattr(hot_calls, statement) else hot_approvals
    sql = getattr(place, statement)
    assert old in sql, f"the planted fault no longer fits {statement}: write it anew"
    monkeypatch.setattr(place, statement, sql.replace(old, new))
    with pytest.raises(Exception):  # noqa: B017, PT011 - a broken statement may fail in any way
        scenario(database)
