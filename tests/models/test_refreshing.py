"""Results that are read again before a step is asked: same step, no call counted, new evidence."""

from collections.abc import Sequence
from dataclasses import replace

from loop.outcome import Errored, Returned
from loop.request import ToolMessage
from loop.transcript import build_request
from models.approval_cards import find_card
from models.calls import load_call, settle
from models.database import Database
from models.evidence import ThreadEvidence
from models.owner import resume_run, steer_run, stop_run
from models.records import RunSpec, load_record, load_spec
from models.refreshing import begin_refresh, look, stay
from models.steps import Applied, Claim
from tasks.refreshing import plan_refreshes
from tests.factories import OWNER, RunWish, a_run, a_tool
from tests.models.source_story import (
    NOTES,
    PLAN,
    after_reading,
    notice,
    refreshes_of,
    returned,
    stale_claim,
)
from tests.models.story import (
    CHANGE,
    READ,
    Dispatched,
    attempts,
    call_row,
    change,
    claimed,
    dispatched,
    event_kinds,
    run_row,
    started,
)
from umbel.contracts import CallId, RunId

TOOLS = (a_tool("look"), a_tool("write", effect="mutation"))


def reader(database: Database, *, parallel: int = 8) -> Dispatched:
    """A run that has read NOTES in revision 1, with tools that it may use again."""
    run = a_run(database, RunWish(tools=TOOLS, policy={"parallel": parallel}))
    return after_reading(database, claim=claimed(database, run.run_id))


def begun(database: Database, run_id: RunId, step: int) -> tuple[Claim, Applied]:
    """The run with its refreshes; the claim that gave it to them."""
    claim = stale_claim(database, run_id, step)
    refreshes = plan_refreshes(look(database, claim), load_spec(database, run_id))
    applied = begin_refresh(database, claim, refreshes)
    assert applied is not None, "the claim did not hold"
    return claim, applied


def looked(database: Database, run_id: RunId, step: int) -> None:
    """The run may be asked again, for there is nothing to read."""
    claim = stale_claim(database, run_id, step)
    affected = look(database, claim)
    assert plan_refreshes(affected, load_spec(database, run_id)) == []
    assert stay(database, claim, waits=bool(affected)) is not None


def read_again(database: Database, applied: Applied, text: str, revision: str | None = "2") -> None:
    """Every refresh that is ready returns this text."""
    for ready in applied.ready_calls:
        returned(database, ready.call_id, {NOTES: revision}, text)


def shown(database: Database, run_id: RunId, step: int, source_rev: int) -> list[str]:
    """What the request of a step shows of the calls before it."""
    spec: RunSpec = load_spec(database, run_id)
    request = build_request(load_record(database, spec, step, source_rev=source_rev))
    return [m.text for m in request.messages if isinstance(m, ToolMessage)]


def rev(database: Database, run_id: RunId) -> int:
    number: int = run_row(database, run_id)["source_rev"]
    return number


def test_a_result_is_read_again_in_the_same_step_and_nothing_is_counted(database: Database) -> None:
    run = reader(database)
    before = run_row(database, run.run_id)
    notice(database)
    _, applied = begun(database, run.run_id, 2)
    [again] = refreshes_of(database, run.run_id)
    assert (again["refreshes"], again["step"], again["args_text"]) == (
        run.calls[0],
        2,
        READ.args_text,
    )
    assert run_row(database, run.run_id)["work"] == "calls"
    read_again(database, applied, '"v2"')
    after = run_row(database, run.run_id)
    assert (after["step"], after["work"], after["open_calls"]) == (2, "ready", 0)
    assert after["calls_used"] == before["calls_used"]
    assert attempts(database, run.run_id, 2) == [], "no model was asked"
    looked(database, run.run_id, 2)
    assert not claimed(database, run.run_id, step=2).is_stale


def test_the_request_shows_the_new_text_and_an_old_request_the_old_one(database: Database) -> None:
    run = reader(database)
    notice(database)
    _, applied = begun(database, run.run_id, 2)
    read_again(database, applied, '"v2"')
    now = rev(database, run.run_id)
    assert shown(database, run.run_id, 2, now) == ['"v2"']
    assert shown(database, run.run_id, 2, 0) == ['"v1"']
    notice(database, "3")
    _, applied = begun(database, run.run_id, 2)
    read_again(database, applied, '"v3"', "3")
    assert shown(database, run.run_id, 2, rev(database, run.run_id)) == ['"v3"']
    assert shown(database, run.run_id, 2, now) == ['"v2"'], "it can be built as it was sent"


def test_the_old_evidence_stays(database: Database) -> None:
    run = reader(database)
    notice(database)
    _, applied = begun(database, run.run_id, 2)
    read_again(database, applied, '"v2"')
    kept = call_row(database, run.calls[0])
    assert kept["state"] == "returned"
    [again] = refreshes_of(database, run.run_id)
    assert (again["refreshes"], again["refresh_no"]) == (run.calls[0], 1)


def test_a_deleted_source_is_a_gap_and_nothing_is_read(database: Database) -> None:
    run = reader(database)
    notice(database, None, is_deleted=True, reason="withdrawn by its author")
    _, applied = begun(database, run.run_id, 2)
    assert applied.ready_calls == ()
    assert applied.next_step == 2
    [text] = shown(database, run.run_id, 2, rev(database, run.run_id))
    assert NOTES in text
    assert "withdrawn by its author" in text
    assert "v1" not in text
    looked(database, run.run_id, 2)


def test_a_source_that_is_there_again_is_read_again(database: Database) -> None:
    run = reader(database)
    notice(database, None, is_deleted=True)
    begun(database, run.run_id, 2)
    assert notice(database, "7") != []
    _, applied = begun(database, run.run_id, 2)
    read_again(database, applied, '"v7"', "7")
    assert shown(database, run.run_id, 2, rev(database, run.run_id)) == ['"v7"']


def test_a_read_that_fails_is_a_gap_and_fails_no_run(database: Database) -> None:
    run = reader(database)
    notice(database)
    _, applied = begun(database, run.run_id, 2)
    [ready] = applied.ready_calls
    failed = '{"error":{"code":"not_found","message":"There is no such file."}}'
    settle(database, started(database, ready.call_id), Errored(failed), failed)
    [text] = shown(database, run.run_id, 2, rev(database, run.run_id))
    assert "There is no such file." in text
    assert NOTES in text
    assert "v1" not in text
    looked(database, run.run_id, 2)
    assert run_row(database, run.run_id)["status"] == "running"


def test_a_change_is_never_made_again(database: Database) -> None:
    run = a_run(database, RunWish(tools=TOOLS))
    done = dispatched(database, CHANGE, claim=claimed(database, run.run_id))
    returned(database, done.calls[0], {NOTES: "1"}, '"written"')
    notice(database)
    _, applied = begun(database, run.run_id, 2)
    assert applied.ready_calls == ()
    [text] = shown(database, run.run_id, 2, rev(database, run.run_id))
    assert text.endswith('"written"'), "what was done is done"
    assert "changed by somebody else" in text
    [beside] = refreshes_of(database, run.run_id)
    assert (beside["effect"], beside["attempt"]) == ("read", 0)


def test_a_tool_that_the_run_may_not_use_is_a_gap(database: Database) -> None:
    run = after_reading(database)  # it was offered no tools
    notice(database)
    _, applied = begun(database, run.run_id, 2)
    assert applied.ready_calls == ()
    [text] = shown(database, run.run_id, 2, rev(database, run.run_id))
    assert "may not use the tool" in text


def three_times(database: Database, run_id: RunId) -> None:
    for number in range(2, 5):
        notice(database, str(number))
        _, applied = begun(database, run_id, 2)
        read_again(database, applied, f'"v{number}"', str(number))


def test_what_keeps_changing_is_shown_as_it_is_and_holds_nobody_up(database: Database) -> None:
    run = reader(database)
    three_times(database, run.run_id)
    assert notice(database, "5")[0].moves
    _, applied = begun(database, run.run_id, 2)
    assert applied.ready_calls == (), "three times are enough"
    [text] = shown(database, run.run_id, 2, rev(database, run.run_id))
    assert text.endswith('"v4"')
    assert "changes all the time" in text
    looked(database, run.run_id, 2)
    claim = claimed(database, run.run_id, step=2)
    assert not claim.is_stale
    [told] = notice(database, "6")
    assert not told.moves, "the step is decided all the same"
    assert rev(database, run.run_id) == claim.source_rev
    dispatched(database, READ, claim=claim)


def test_the_next_step_reads_what_kept_changing_again(database: Database) -> None:
    run = reader(database)
    three_times(database, run.run_id)
    notice(database, "5")
    begun(database, run.run_id, 2)
    looked(database, run.run_id, 2)
    done = dispatched(database, READ, claim=claimed(database, run.run_id, step=2))
    returned(database, done.calls[0], {PLAN: "1"})
    _, applied = begun(database, run.run_id, 3)
    assert len(applied.ready_calls) == 1, "without another notice"


def test_no_more_are_read_at_once_than_the_policy_says(database: Database) -> None:
    accepted = a_run(database, RunWish(tools=TOOLS, policy={"parallel": 1}))
    run = dispatched(database, READ, READ, claim=claimed(database, accepted.run_id))
    for call_id in run.calls:
        returned(database, call_id, {NOTES: "1"})
    notice(database)
    _, applied = begun(database, run.run_id, 2)
    assert [c["state"] for c in refreshes_of(database, run.run_id)] == ["ready", "planned"]
    read_again(database, applied, '"v2"')
    states = [c["state"] for c in refreshes_of(database, run.run_id)]
    assert states == ["returned", "ready"]


def test_a_source_that_changes_while_it_is_read_again_is_read_once_more(database: Database) -> None:
    run = reader(database)
    notice(database)
    _, applied = begun(database, run.run_id, 2)
    notice(database, "3")
    read_again(database, applied, '"v2"')
    _, again = begun(database, run.run_id, 2)
    read_again(database, again, '"v3"', "3")
    looked(database, run.run_id, 2)
    assert shown(database, run.run_id, 2, rev(database, run.run_id)) == ['"v3"']


def test_a_notice_between_look_and_begin_is_not_missed(database: Database) -> None:
    run = reader(database)
    notice(database)
    claim = stale_claim(database, run.run_id, 2)
    refreshes = plan_refreshes(look(database, claim), load_spec(database, run.run_id))
    notice(database, "3")
    assert begin_refresh(database, claim, refreshes) is None
    assert stay(database, claim, waits=False) is None


def test_only_the_holder_begins(database: Database) -> None:
    run = reader(database)
    notice(database)
    claim = stale_claim(database, run.run_id, 2)
    refreshes = plan_refreshes(look(database, claim), load_spec(database, run.run_id))
    assert begin_refresh(database, claim, refreshes) is not None
    assert begin_refresh(database, claim, refreshes) is None
    assert len(refreshes_of(database, run.run_id)) == 1


def unfinished(database: Database) -> tuple[RunId, Sequence[CallId]]:
    run = reader(database)
    notice(database)
    _, applied = begun(database, run.run_id, 2)
    return run.run_id, [ready.call_id for ready in applied.ready_calls]


def test_a_stop_ends_it_and_a_resumed_run_reads_again(database: Database) -> None:
    run_id, [call_id] = unfinished(database)
    stopped = stop_run(database, run_id, OWNER)
    assert stopped is not None
    assert stopped.is_over
    row = run_row(database, run_id)
    assert (row["status"], row["step"], row["open_calls"]) == ("cancelled", 2, 0)
    assert call_row(database, call_id)["state"] == "skipped"
    assert shown(database, run_id, 2, rev(database, run_id)) == ['"v1"']
    resume_run(database, run_id, OWNER)
    _, applied = begun(database, run_id, 2)
    assert len(applied.ready_calls) == 1


def test_a_correction_ends_it_and_the_step_reads_again_before_it_asks(database: Database) -> None:
    run_id, [call_id] = unfinished(database)
    steered = steer_run(database, run_id, OWNER, "Shorter.", "redirect")
    assert steered is not None
    assert steered.next_step == 2
    assert call_row(database, call_id)["state"] == "skipped"
    row = run_row(database, run_id)
    assert (row["step"], row["work"]) == (2, "ready")
    _, applied = begun(database, run_id, 2)
    read_again(database, applied, '"v2"')
    looked(database, run_id, 2)


def test_a_follow_up_shows_what_the_run_before_it_read_again(database: Database) -> None:
    run = reader(database)
    notice(database)
    _, applied = begun(database, run.run_id, 2)
    read_again(database, applied, '"v2"')
    looked(database, run.run_id, 2)
    stop_run(database, run.run_id, OWNER)
    second = a_run(database, RunWish(thread_id=run.claim.thread_id, tools=TOOLS))
    looked(database, second.run_id, 1)
    claimed(database, second.run_id)
    assert shown(database, second.run_id, 1, 0) == ['"v2"']


def test_a_follow_up_reads_again_what_has_changed_in_between(database: Database) -> None:
    run = reader(database)
    stop_run(database, run.run_id, OWNER)
    assert notice(database) == []
    second = a_run(database, RunWish(thread_id=run.claim.thread_id, tools=TOOLS))
    _, applied = begun(database, second.run_id, 1)
    read_again(database, applied, '"v2"')
    looked(database, second.run_id, 1)
    claim = claimed(database, second.run_id)
    assert shown(database, second.run_id, 1, claim.source_rev) == ['"v2"']


def test_a_page_of_the_old_handle_is_one_of_the_newest_evidence(database: Database) -> None:
    run = reader(database)
    evidence = ThreadEvidence(database, run.claim.thread_id, OWNER.tenant)
    assert evidence.read(run.calls[0], 0, 9).text == '"v1"'
    notice(database, None, is_deleted=True)
    begun(database, run.run_id, 2)
    page = ThreadEvidence(database, run.claim.thread_id, OWNER.tenant).read(run.calls[0], 0, 900)
    assert "v1" not in page.text
    assert NOTES in page.text


def test_its_events_tell_of_it(database: Database) -> None:
    run = reader(database)
    notice(database)
    _, applied = begun(database, run.run_id, 2)
    read_again(database, applied, '"v2"')
    assert event_kinds(database, run.run_id)[-4:] == [
        "source.changed",
        "step.claimed",
        "evidence.refreshing",
        "call.returned",
    ]


def test_a_worker_that_dies_between_claim_and_begin_is_followed_by_another(
    database: Database,
) -> None:
    run = reader(database)
    notice(database)
    stale_claim(database, run.run_id, 2)
    change(database, "UPDATE runs SET work = 'ready', holder = NULL, fence = fence + 1")
    _, applied = begun(database, run.run_id, 2)
    assert len(applied.ready_calls) == 1


def test_a_refresh_that_lost_its_worker_runs_again(database: Database) -> None:
    _, [call_id] = unfinished(database)
    call = load_call(database, call_id)
    assert call is not None
    started(database, call_id)
    change(database, "UPDATE calls SET state = 'ready' WHERE id = %(id)s", id=call_id)
    again = started(database, call_id)
    assert again.attempt == 2
    assert settle(database, again, Returned('"v2"'), '"v2"', sources={NOTES: "2"}) is not None


def test_a_card_names_what_was_read_again_for_its_step(database: Database) -> None:
    run = reader(database)
    notice(database)
    _, applied = begun(database, run.run_id, 2)
    read_again(database, applied, '"v2"')
    looked(database, run.run_id, 2)
    asked = replace(CHANGE, state="awaiting_approval")
    done = dispatched(database, asked, claim=claimed(database, run.run_id, step=2))
    card = find_card(database, done.calls[0], tenant=None)
    assert card is not None
    assert [origin.source for origin in card.origins] == [
        run.calls[0],
        applied.ready_calls[0].call_id,
    ]
