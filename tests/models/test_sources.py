"""Notices that sources have changed: what brings news, and what becomes of the runs."""

from dataclasses import replace

import pytest

from loop.decision import Answer
from loop.outcome import Returned
from models.approvals import grant_call
from models.calls import load_call, record_intent, settle
from models.database import Database, Row, Statement
from models.owner import resume_run, stop_run
from models.records import load_record, load_spec
from models.sources import Notice, record_notice, tell_runs, untold_notices
from models.steps import commit_answer
from tests.factories import OWNER, RunWish, a_run
from tests.models.source_story import (
    NOTES,
    PLAN,
    after_reading,
    is_news,
    notice,
    returned,
)
from tests.models.story import (
    CHANGE,
    ME,
    READ,
    an_exchange,
    attempts,
    call_ids,
    call_row,
    call_states,
    change,
    claimed,
    dispatched,
    event_kinds,
    query,
    run_row,
    started,
)
from tests.models.two_sessions import holding, meet
from umbel.contracts import CallId, Principal, RunId
from umbel.errors import InvalidInput


def stale_step(database: Database, run_id: RunId) -> int | None:
    step: int | None = run_row(database, run_id)["stale_step"]
    return step


@pytest.mark.parametrize(
    ("first", "second", "brings_news"),
    [
        ("5", "5", False),
        ("5", "4", False),
        ("5", "6", True),
        ("9", "10", True),  # numbers, not letters
        ("a1", "a1", False),
        ("a1", "a2", True),
        ("5", None, True),
        (None, None, True),  # who does not say which revision says that there is another one
    ],
)
def test_only_a_newer_or_another_revision_is_news(
    database: Database, first: str | None, second: str | None, *, brings_news: bool
) -> None:
    assert is_news(database, first)
    assert is_news(database, second) is brings_news


def test_a_deletion_is_news_once_and_an_older_edit_does_not_undo_it(database: Database) -> None:
    assert is_news(database, "5")
    assert is_news(database, None, is_deleted=True)
    assert not is_news(database, None, is_deleted=True)
    assert not is_news(database, "4")
    assert is_news(database, "6"), "what was made anew is there again"


@pytest.mark.parametrize(
    "source", ["notes.md", "File:/a", "file:", "file:a\nb", "file:" + "x" * 2000]
)
def test_what_names_no_source_is_refused(database: Database, source: str) -> None:
    with pytest.raises(InvalidInput):
        record_notice(database, OWNER.tenant, Notice(source))


def test_a_run_that_rests_on_the_source_has_to_look_and_no_other(database: Database) -> None:
    run = after_reading(database)
    other = after_reading(database, source=PLAN)
    assert [told.run_id for told in notice(database)] == [run.run_id]
    assert (stale_step(database, run.run_id), run_row(database, run.run_id)["source_rev"]) == (2, 1)
    assert (stale_step(database, other.run_id), run_row(database, other.run_id)["source_rev"]) == (
        None,
        0,
    )
    assert event_kinds(database, run.run_id)[-1] == "source.changed"


def test_another_tenant_is_not_told(database: Database) -> None:
    run = after_reading(database)
    _, untold = record_notice(database, "umbrella", Notice(NOTES, "2"))
    assert untold is not None
    assert list(tell_runs(database, untold)) == []
    assert stale_step(database, run.run_id) is None


@pytest.mark.parametrize("revision", ["1", "0"])
def test_an_older_or_the_same_revision_tells_nobody(database: Database, revision: str) -> None:
    run = after_reading(database)
    assert notice(database, revision) == []
    assert stale_step(database, run.run_id) is None


def test_the_same_notice_again_tells_nobody_twice(database: Database) -> None:
    run = after_reading(database)
    assert len(notice(database)) == 1
    assert notice(database) == []
    assert run_row(database, run.run_id)["source_rev"] == 1


def test_an_answer_from_the_old_state_is_not_accepted(database: Database) -> None:
    run = after_reading(database)
    claim = claimed(database, run.run_id, step=2)
    assert notice(database)[0].moves
    assert commit_answer(database, claim, an_exchange(), Answer("Ten.")) is None
    assert run_row(database, run.run_id)["status"] == "running"


def test_a_reply_that_waits_to_be_applied_is_discarded(database: Database) -> None:
    run = after_reading(database)
    claimed(database, run.run_id, step=2)
    change(
        database,
        "UPDATE model_calls SET state = 'closed', reply = '{}', closed_at = now() WHERE step = 2",
    )
    notice(database)
    assert attempts(database, run.run_id, 2) == [(1, "closed", "discard")]


def test_changes_that_have_not_started_are_skipped_and_reads_go_on(database: Database) -> None:
    first = after_reading(database)
    claim = claimed(database, first.run_id, step=2)
    run = dispatched(database, READ, CHANGE, READ, claim=claim)
    running = started(database, run.calls[0])
    [told] = notice(database)
    assert call_states(database, run.run_id, 2) == ["started", "skipped", "ready"]
    assert told.next_step is None
    assert running.attempt == 1
    row = run_row(database, run.run_id)
    assert (row["status"], row["work"], row["open_calls"], row["calls_used"]) == (
        "running",
        "calls",
        2,
        4,
    )


def test_a_change_that_was_sent_is_left_alone(database: Database) -> None:
    first = after_reading(database)
    run = dispatched(database, CHANGE, claim=claimed(database, first.run_id, step=2))
    started(database, run.calls[0])
    notice(database)
    assert call_states(database, run.run_id, 2) == ["started"]


def test_a_read_takes_the_place_of_a_change_that_is_skipped(database: Database) -> None:
    first = after_reading(database)
    planned = replace(READ, state="planned")
    claim = claimed(database, first.run_id, step=2)
    run = dispatched(database, CHANGE, planned, planned, claim=claim)
    notice(database)
    assert call_states(database, run.run_id, 2) == ["skipped", "ready", "planned"]


def test_the_step_ends_with_the_change_that_was_its_only_call(database: Database) -> None:
    first = after_reading(database)
    dispatched(database, CHANGE, claim=claimed(database, first.run_id, step=2))
    [told] = notice(database)
    assert told.next_step == 3
    assert run_row(database, first.run_id)["work"] == "ready"


ASKED = replace(CHANGE, state="awaiting_approval")


def approving(database: Database) -> CallId:
    """A change that waits for its owner in a run that has read NOTES."""
    first = after_reading(database)
    run = dispatched(database, ASKED, claim=claimed(database, first.run_id, step=2))
    return run.calls[0]


def grant(database: Database, call_id: CallId, who: Principal = OWNER) -> bool:
    sha = bytes(call_row(database, call_id)["args_sha"])
    return grant_call(database, call_id, who, sha) is not None


def test_an_open_approval_ends_and_cannot_be_given_any_more(database: Database) -> None:
    call_id = approving(database)
    run_id = RunId(call_row(database, call_id)["run_id"])
    [told] = notice(database)
    assert told.next_step == 3
    assert not grant(database, call_id)
    row = run_row(database, run_id)
    assert (row["status"], row["reason"], row["open_approvals"]) == ("running", None, 0)
    assert event_kinds(database, run_id)[-2:] == ["source.changed", "call.skipped"]


def test_a_granted_approval_of_what_has_not_started_ends(database: Database) -> None:
    call_id = approving(database)
    assert grant(database, call_id)
    call = load_call(database, call_id)
    assert call is not None
    notice(database)
    assert record_intent(database, call, ME) is None
    assert call_row(database, call_id)["state"] == "skipped"
    assert query(database, "SELECT * FROM receipts") == []


def test_what_a_read_brings_after_the_notice_is_looked_at(database: Database) -> None:
    run = dispatched(database, READ)
    assert notice(database) == [], "nothing rests on it yet"
    returned(database, run.calls[0], {NOTES: "1"})
    assert stale_step(database, run.run_id) == 2


def test_a_notice_waits_for_results_that_have_not_heard_of_it(database: Database, url: str) -> None:
    run = dispatched(database, READ)
    mine = started(database, run.calls[0])
    with holding(url) as first:
        assert settle(first, mine, Returned('"v1"'), '"v1"', sources={NOTES: "1"}) is not None
        told = meet(first, lambda: notice(database))
    assert [one.run_id for one in told] == [run.run_id]


def test_what_a_read_brings_of_the_new_state_needs_no_look(database: Database) -> None:
    run = dispatched(database, READ)
    notice(database)
    returned(database, run.calls[0], {NOTES: "2"})
    assert stale_step(database, run.run_id) is None


@pytest.mark.parametrize("named", ["3", None])
def test_word_of_a_run_s_own_change_is_no_news_to_it(database: Database, named: str | None) -> None:
    first = after_reading(database)
    run = dispatched(database, CHANGE, claim=claimed(database, first.run_id, step=2))
    returned(database, run.calls[0], {NOTES: named})
    assert notice(database, named, is_deleted=named is None) == []
    assert notice(database, "4") != [], "the next change is somebody else's"


def test_what_others_changed_before_is_no_excuse(database: Database) -> None:
    first = dispatched(database, CHANGE)
    returned(database, first.calls[0], {NOTES: None})
    after_reading(database, "5", claim=claimed(database, first.run_id, step=2))
    assert len(notice(database, None, is_deleted=True)) == 1


def test_a_stopped_run_and_one_at_its_end_are_not_told(database: Database) -> None:
    done = after_reading(database)
    commit_answer(database, claimed(database, done.run_id, step=2), an_exchange(), Answer("Ten."))
    stopped = after_reading(database)
    change(database, "UPDATE runs SET stop_at = now() WHERE id = %(id)s", id=stopped.run_id)
    assert notice(database) == []


def test_a_notice_whose_teller_died_is_found_again(database: Database) -> None:
    run = after_reading(database)
    record_notice(database, OWNER.tenant, Notice(NOTES, "2"))
    assert untold_notices(database, after_seconds=60, limit=10) == []
    [untold] = untold_notices(database, after_seconds=0, limit=10)
    assert [told.run_id for told in tell_runs(database, untold)] == [run.run_id]
    assert untold_notices(database, after_seconds=0, limit=10) == []


def test_a_teller_goes_on_where_another_one_died(database: Database) -> None:
    runs = sorted(after_reading(database).run_id for _ in range(3))
    _, untold = record_notice(database, OWNER.tenant, Notice(NOTES, "2"))
    assert untold is not None
    change(database, "UPDATE sources SET told_run = %(id)s", id=runs[1])
    assert [told.run_id for told in tell_runs(database, untold)] == runs[2:]


def test_a_further_run_of_the_thread_looks_before_it_asks(database: Database) -> None:
    begun = claimed(database)
    after_reading(database, claim=begun)
    stop_run(database, begun.run_id, OWNER)
    second = a_run(database, RunWish(thread_id=begun.thread_id))
    assert stale_step(database, second.run_id) == 1
    claim = claimed(database, second.run_id)
    assert claim.is_stale
    assert attempts(database, second.run_id) == [], "nobody is asked under this claim"


def test_a_run_that_was_queued_before_anything_was_read_looks_before_it_asks(
    database: Database,
) -> None:
    begun = claimed(database)
    queued = a_run(database, RunWish(thread_id=begun.thread_id))
    after_reading(database, claim=begun)
    assert stale_step(database, queued.run_id) is None
    stop_run(database, begun.run_id, OWNER)
    assert stale_step(database, queued.run_id) == 1


def test_a_resumed_run_looks_before_it_asks(database: Database) -> None:
    run = after_reading(database)
    stop_run(database, run.run_id, OWNER)
    notice(database)
    assert stale_step(database, run.run_id) is None, "nobody tells a run that is over"
    resume_run(database, run.run_id, OWNER)
    assert stale_step(database, run.run_id) == 2


def test_sources_of_an_outcome_that_was_not_stored_are_not_kept(database: Database) -> None:
    run = dispatched(database, READ)
    mine = started(database, run.calls[0])
    change(database, "UPDATE calls SET holder = 'wrk_other'")
    assert settle(database, mine, Returned("1"), "1", sources={NOTES: "1"}) is None
    assert query(database, "SELECT * FROM evidence_sources") == []
    assert call_ids(database, run.run_id) == [run.calls[0]]


class Counting(Database):
    """Counts what each transaction sends; each is one round trip."""

    def __init__(self, url: str) -> None:
        super().__init__(url, role="counting", pool_size=1)
        self.sent: list[int] = []

    def run(self, *statements: Statement) -> list[list[Row]]:
        """As `Database.run`."""
        self.sent.append(len(statements))
        return super().run(*statements)


@pytest.mark.parametrize(("sources", "statements"), [({}, 2), ({NOTES: "1"}, 4)])
def test_a_run_without_sources_pays_for_none(
    database: Database, url: str, sources: dict[str, str | None], statements: int
) -> None:
    """A claim is three statements, a result two; sources cost a result two more. One round trip."""
    counting = Counting(url)
    try:
        claim = claimed(counting, a_run(database).run_id)
        assert counting.sent == [3]
        run = dispatched(database, READ, claim=claim)
        mine = started(database, run.calls[0])
        counting.sent.clear()
        settle(counting, mine, Returned("1"), "1", sources=sources)
        assert counting.sent == [statements]
        if not sources:
            spec = load_spec(database, run.run_id)
            counting.sent.clear()
            load_record(counting, spec, 2)
            assert counting.sent == [5]
    finally:
        counting.close()
