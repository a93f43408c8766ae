"""Planted faults about sources; test_mutants.py asks the tests beside it for each of them."""

from collections.abc import Callable
from typing import Any, Final

from models import hot, hot_refresh, hot_settle, hot_sources
from models.database import Database
from models.steps import book_reply
from tests.models import test_refreshing, test_sources
from tests.models.source_story import after_reading, notice
from tests.models.story import an_exchange, attempts, claimed

Scenario = Callable[[Database, str], object]


def a_reply_from_the_old_state_is_booked_alone(database: Database, _: str) -> None:
    run = after_reading(database)
    claim = claimed(database, run.run_id, step=2)
    notice(database)
    book_reply(database, claim, an_exchange(), discard=False)
    assert attempts(database, run.run_id, 2) == [(1, "closed", "discard")]


def of_refreshing(name: str) -> Scenario:
    """A test of test_refreshing.py."""
    test = getattr(test_refreshing, name)
    return lambda database, _: test(database)


def of_sources(name: str, **more: Any) -> Scenario:
    """A test of test_sources.py."""
    test = getattr(test_sources, name)
    return lambda database, _: test(database, **more)


AGAIN: Final = of_refreshing("test_a_result_is_read_again_in_the_same_step_and_nothing_is_counted")
OLD_ANSWER: Final = of_sources("test_an_answer_from_the_old_state_is_not_accepted")
OLDER: Final = of_sources(
    "test_only_a_newer_or_another_revision_is_news", first="5", second="4", brings_news=False
)
APPROVAL: Final = of_sources("test_an_open_approval_ends_and_cannot_be_given_any_more")
CHANGE: Final = of_refreshing("test_a_change_is_never_made_again")
VOLATILE: Final = of_refreshing("test_what_keeps_changing_is_shown_as_it_is_and_holds_nobody_up")
OLD_REQUEST: Final = of_refreshing(
    "test_the_request_shows_the_new_text_and_an_old_request_the_old_one"
)

SOURCE_MUTANTS: Final[list[tuple[str, Any, str, list[tuple[str, str]], Scenario]]] = [
    (
        "an older revision is news",
        hot_sources,
        "CHANGE",
        [("(excluded.revision::numeric, excluded.is_deleted) >", "true OR (9, true) >")],
        OLDER,
    ),
    (
        "a refresh is a step",
        hot_settle,
        "SETTLE_READ",
        [("step + n.steps", "step + 1")],
        AGAIN,
    ),
    (
        "a refresh is counted as a call",
        hot_refresh,
        "BEGIN",
        [("attempts = attempts - 1,", "attempts = attempts - 1, calls_used = calls_used + 1,")],
        AGAIN,
    ),
    (
        "a refresh opens an attempt",
        hot,
        "CLAIM",
        [("NOT r.is_stale AND", "")],
        AGAIN,
    ),
    (
        "a change is made again",
        hot_sources,
        "LOOK",
        [("o.effect,", "'read' AS effect,")],
        CHANGE,
    ),
    (
        "a notice does not wait for results that have not heard of it",
        hot_sources,
        "LOCK_ALONE",
        [("pg_advisory_xact_lock(", "pg_try_advisory_xact_lock(")],
        test_sources.test_a_notice_waits_for_results_that_have_not_heard_of_it,
    ),
    (
        "an approval survives",
        hot_sources,
        "TELL",
        [("AND (s.effect <> 'read' OR s.needs_approval)", "AND false")],
        APPROVAL,
    ),
    (
        "an answer from the old state is accepted",
        hot,
        "DECIDE_ANSWER",
        [("AND source_rev = %(source_rev)s", "")],
        OLD_ANSWER,
    ),
    (
        "a reply from the old state is kept",
        hot,
        "BOOK_REPLY",
        [("OR q.source_rev <> %(source_rev)s", "")],
        a_reply_from_the_old_state_is_booked_alone,
    ),
    (
        "what keeps changing moves the run for ever",
        hot_sources,
        "TELL",
        [("+ t.moves::int", "+ 1")],
        VOLATILE,
    ),
    (
        "a request shows what was read after it",
        hot_refresh,
        "SHOWN",
        [("f.source_rev <= %(source_rev)s", "true")],
        OLD_REQUEST,
    ),
]
