"""Planted faults in the product's own SQL: the tests beside this one must notice each of them.

A test that cannot fail is worth nothing, and these statements look right with many things missing.
"""

from collections.abc import Callable
from typing import Any

import pytest

from loop.decision import Answer
from models import hot, hot_calls, hot_settle, hot_sweep
from models.database import Database
from models.steps import commit_answer, hand_back
from tests.models import (
    test_changes,
    test_claim,
    test_decision,
    test_lost_changes,
    test_reads,
    test_sweeping,
    test_threads,
)
from tests.models.capture_mutants import CAPTURE_MUTANTS
from tests.models.source_mutants import SOURCE_MUTANTS
from tests.models.story import an_exchange, claimed

Scenario = Callable[[Database, str], object]


def an_older_claim_of_the_same_worker_decides(database: Database, url: str) -> None:
    claim = claimed(database)
    hand_back(database, claim, wait_seconds=0, detail="drain", is_failure=False)
    claimed(database, claim.run_id)
    assert commit_answer(database, claim, an_exchange(), Answer("Hello.")) is None


def a_change_is_intended_beside_an_unknown_one(database: Database, url: str) -> None:
    test_changes.test_nothing_is_sent_once_the_run_has_moved_on(database, "unknowns = 1")


def a_change_is_intended_after_a_stop(database: Database, url: str) -> None:
    test_changes.test_nothing_is_sent_when_the_run_moves_on_while_the_intent_waits(
        database, url, "stop_at = now(), status = 'cancelling'"
    )


def a_correction_meets_a_decision(database: Database, url: str) -> None:
    test_decision.test_a_correction_that_commits_while_the_decision_waits_makes_it_void(
        database, url, test_decision.answer, "steer_rev = steer_rev + 1"
    )


NO_OPEN_SIBLING = (
    "NOT EXISTS (SELECT 1 FROM calls y WHERE y.run_id = q.id AND y.id <> %(call_id)s"
    " AND y.state IN ('planned', 'ready', 'started'))"
)

MUTANTS: list[tuple[str, Any, str, list[tuple[str, str]], Scenario]] = [
    (
        "claim without work = 'ready'",
        hot,
        "CLAIM",
        [("AND work = 'ready' AND stop_at IS NULL", "AND stop_at IS NULL")],
        test_claim.test_of_two_claims_that_meet_one_wins,
    ),
    (
        "claim of any step",
        hot,
        "CLAIM",
        [("AND step = %(step)s", "")],
        lambda database, _: test_claim.test_a_message_of_another_step_claims_nothing(database),
    ),
    (
        "decision without the fence",
        hot,
        "DECIDE_ANSWER",
        [("AND fence = %(fence)s", "")],
        an_older_claim_of_the_same_worker_decides,
    ),
    (
        "decision without the steering revision",
        hot,
        "DECIDE_ANSWER",
        [("AND steer_rev = %(steer_rev)s", "")],
        a_correction_meets_a_decision,
    ),
    (
        "intent without unknowns = 0",
        hot_calls,
        "INTENT",
        [("AND unknowns = 0", "")],
        a_change_is_intended_beside_an_unknown_one,
    ),
    (
        "intent without the stop",
        hot_calls,
        "INTENT",
        [
            ("(status = 'running' OR reason = 'approval_required')", "true"),
            ("AND stop_at IS NULL", ""),
        ],
        a_change_is_intended_after_a_stop,
    ),
    (
        "intent that does not lock the run",
        hot,
        "LOCK_RUN",
        [("FOR UPDATE", "")],
        a_change_is_intended_after_a_stop,
    ),
    (
        "join by the snapshot, not by the locked counter",
        hot,
        "LOCK_RUN",
        [("FOR UPDATE", "")],
        test_reads.test_the_last_two_results_that_meet_join_exactly_once,
    ),
    (
        "parallel gate by the snapshot",
        hot,
        "LOCK_RUN",
        [("FOR UPDATE", "")],
        test_reads.test_two_results_that_meet_ready_exactly_two_planned_calls,
    ),
    (
        "join by NOT EXISTS that forgets the running siblings",
        hot_settle,
        "SETTLE_READ",
        [("q.open_calls = n.closed", NO_OPEN_SIBLING.replace(", 'started'", ""))],
        test_reads.test_the_last_two_results_that_meet_join_exactly_once,
    ),
    (
        "result without its attempt",
        hot_settle,
        "SETTLE_READ",
        [("AND attempt = %(attempt)s", "")],
        lambda database, _: (
            test_reads.test_a_late_result_does_not_settle_a_second_attempt_of_the_same_worker(
                database
            )
        ),
    ),
    (
        "sweeper's unknown without a second look",
        hot_settle,
        "SETTLE_CHANGE",
        [("AND (NOT %(only_if_lost)s OR", "AND (%(only_if_lost)s OR NOT %(only_if_lost)s OR")],
        test_lost_changes.test_progress_that_commits_while_the_sweeper_waits_saves_the_change,
    ),
    (
        "takeover without a new fence",
        hot_sweep,
        "TAKE_OVER",
        [("SET fence = fence + 1,", "SET")],
        lambda database, _: (
            test_sweeping.test_a_run_of_a_dead_worker_is_ready_again_behind_a_new_fence(database)
        ),
    ),
    (
        "decision that does not lock the thread",
        hot,
        "LOCK_THREAD",
        [("FOR UPDATE OF t", "")],
        test_threads.test_a_run_accepted_while_the_one_before_it_ends_is_not_forgotten,
    ),
    *SOURCE_MUTANTS,
    *CAPTURE_MUTANTS,
]


@pytest.mark.parametrize(
    ("place", "statement", "changes", "scenario"),
    [mutant[1:] for mutant in MUTANTS],
    ids=[mutant[0] for mutant in MUTANTS],
)
def test_the_tests_notice(
    database: Database,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    place: Any,
    statement: str,
    changes: list[tuple[str, str]],
    scenario: Scenario,
) -> None:
    mutated = getattr(place, statement)
    for old, new in changes:
        assert old in mutated, f"the mutant no longer fits {statement}: write it anew"
        mutated = mutated.replace(old, new)
    monkeypatch.setattr(place, statement, mutated)
    assert is_noticed(scenario, database, url), "this fault goes unnoticed"


@pytest.mark.parametrize("scenario", dict.fromkeys(mutant[4] for mutant in MUTANTS))
def test_the_product_passes(database: Database, url: str, scenario: Scenario) -> None:
    assert not is_noticed(scenario, database, url)


def is_noticed(scenario: Scenario, database: Database, url: str) -> bool:
    """Whether the scenario fails, by an assertion or because PostgreSQL refuses."""
    try:
        scenario(database, url)
    except (Exception, pytest.fail.Exception):  # noqa: BLE001 - a broken one may fail in any way
        return True
    return False
