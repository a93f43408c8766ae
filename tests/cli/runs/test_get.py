import json
import re
from pathlib import Path

import pytest

from loop.decision import Pause, Retry
from loop.outcome import Returned, Unknown
from models.calls import settle
from models.database import Database
from models.happenings import read_happenings
from models.owner import resume_run
from models.steps import commit_pause, commit_retry
from models.sweeping import take_over_runs
from tests.cli.stories import a_completed_run, a_run_with_an_unknown_change
from tests.factories import OWNER, RunWish, a_run
from tests.models.story import (
    CHANGE,
    DEAD_AFTER,
    ME,
    OTHER,
    READ,
    an_exchange,
    beat,
    change,
    claimed,
    dispatched,
    event_kinds,
    fall_silent,
    started,
)
from umbel.cli.runs_commands import get_command, steps_command
from umbel.contracts import Principal
from umbel.errors import NotFound

pytestmark = pytest.mark.usefixtures("own_settings")


def test_one_run_shows_exact_arguments_receipt_and_what_to_do(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = a_run_with_an_unknown_change(database)
    get_command(run_id, None, is_json=False)
    text = capsys.readouterr().out
    assert 'pay {"cents":900719925474099312,"to":"ann"} (a change, call_' in text
    assert "pay: nobody knows whether this change happened (call_" in text
    assert "status     paused: unknown_outcome" in text
    assert "to do      Look at the outside system" in text
    steps_command(run_id, None, is_json=False)
    assert "mutation, unknown, attempt 1, receipt unknown" in capsys.readouterr().out


def test_one_run_shows_its_answer_and_is_found_by_the_beginning_of_its_id(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = a_completed_run(database)
    get_command(run_id[:-2], None, is_json=False)
    assert capsys.readouterr().out.endswith("\n\nThree files.\n")
    get_command(run_id[:-2], None, is_json=True)
    facts = json.loads(capsys.readouterr().out)
    assert facts["run_id"] == run_id
    assert facts["answer"] == "Three files."
    assert [call["args_text"] for call in facts["calls_made"]] == ['{"path":"."}'] * 2


def test_a_beginning_of_several_ids_is_refused_with_the_ids(database: Database) -> None:
    ids = sorted(a_run(database).run_id for _ in range(7))
    with pytest.raises(NotFound) as refused:
        get_command("run_0", None, is_json=False)
    assert all(run_id in str(refused.value) for run_id in ids[:5])
    assert ids[5] not in str(refused.value)
    assert "and others" in str(refused.value)


@pytest.mark.parametrize("run", ["run_", "run_0unheard"])
def test_an_unknown_id_is_refused_with_where_ids_are_shown(database: Database, run: str) -> None:
    a_run(database)
    with pytest.raises(NotFound, match=r"no run .* `umbel runs list` shows the ids"):
        get_command(run, None, is_json=False)


def test_steps_show_every_model_attempt_and_call(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = a_completed_run(database)
    steps_command(run_id, None, is_json=False)
    text = capsys.readouterr().out
    assert "step 1     tokens 10 in, 5 out; cost unknown: no price for 'scripted'" in text
    assert "           model call 1: dispatch, 10 in, 5 out" in text
    assert "call 1.2   look" in text
    assert "           model call 1: answer" in text
    assert "in all     tokens 20 in, 10 out" in text
    steps_command(run_id, None, is_json=True)
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert [call["state"] for call in first["calls"]] == ["returned", "returned"]
    assert second["attempts"][0]["decision"] == "answer"


@pytest.mark.parametrize("run", ["run_nothing", "run_", ""])
def test_a_run_that_is_not_there_or_not_the_only_one_is_not_found(
    database: Database, run: str
) -> None:
    a_completed_run(database)
    a_completed_run(database)
    with pytest.raises(NotFound, match="umbel runs list"):
        get_command(run, None, is_json=False)


def test_a_run_of_another_tenant_is_not_found(database: Database) -> None:
    run_id = a_run(database, RunWish(principal=Principal(tenant="other", user="eve"))).run_id
    with pytest.raises(NotFound):
        get_command(run_id, None, is_json=False)


def test_the_story_tells_every_event_in_order_with_who_did_it_and_when(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    beat(database)
    run_id = a_completed_run(database)
    get_command(run_id, None, is_json=True)
    story = json.loads(capsys.readouterr().out)["story"]
    assert [told["kind"] for told in story] == event_kinds(database, run_id)
    assert [told["seq"] for told in story] == list(range(1, len(story) + 1))
    assert [told["seconds"] for told in story] == sorted(told["seconds"] for told in story)
    get_command(run_id, None, is_json=False)
    text = capsys.readouterr().out
    for words in (
        "accepted   ann asks agent 'default' (model scripted): What is in the folder?",
        "step 1     step@here pid 1 claims it (claim 1) and asks the model",
        "step 1     model call 1 dispatch, 10 in, 5 out, cost unknown, ",
        'call 1.2   look {"path":"."}',
        "call 1.2   look → (11 characters, ",
        "delivered  the answer is in the inbox of ann",
        "completed  the answer is recorded",
    ):
        assert words in text
    assert re.search(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +\+\d", text, re.MULTILINE)


def test_the_story_of_a_pause_and_a_resume_names_the_person_and_what_to_do(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    claim = claimed(database)
    pause = Pause("provider_error", "unreachable: nobody listens")
    commit_pause(database, claim, an_exchange(), pause)
    assert resume_run(database, claim.run_id, OWNER) == 1
    get_command(claim.run_id, None, is_json=False)
    paused, resumed = capsys.readouterr().out.splitlines()[-2:]
    assert "paused     provider_error: unreachable: nobody listens (model call 1 pause, " in paused
    assert "To do: No model server could be reached at" in paused
    assert resumed.endswith("resumed    ann lets it go on at step 1")


def test_a_worker_is_shown_without_the_mark_of_its_lock_file(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    beat(database, node="step@here 1e406eb0:65024:77")
    claim = claimed(database)
    get_command(claim.run_id, None, is_json=False)
    told = capsys.readouterr().out
    assert re.search(r"^held by +step@here pid 1$", told, re.MULTILINE)
    assert "step@here pid 1 claims it" in told
    assert "1e406eb0" not in told


def test_a_pause_at_a_limit_tells_what_the_model_call_cost_and_how_to_go_on(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    claim = claimed(database)
    pause = Pause("tool_call_limit", "The model asks for call 6; the limit is 5.", keeps_reply=True)
    commit_pause(database, claim, an_exchange(), pause)
    get_command(claim.run_id, None, is_json=False)
    paused = capsys.readouterr().out.splitlines()[-1]
    assert "the limit is 5. (model call 1, " in paused
    assert re.search(r"model call 1, .*, cost unknown, ", paused)
    assert "`umbel runs resume RUN --limit tool_call_limit=N`" in paused


def test_the_story_tells_of_retries_takeovers_and_late_outcomes(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    claim = claimed(database)
    retry = Retry("provider", 0.0, "rate_limit: slow down")
    commit_retry(database, claim, an_exchange(), retry)
    beat(database)
    lost = claimed(database, claim.run_id)
    fall_silent(database)
    take_over_runs(database, dead_after_seconds=DEAD_AFTER, limit=10)
    again = claimed(database, claim.run_id, worker=OTHER)
    step = dispatched(database, CHANGE, claim=again)
    proof = started(database, step.calls[0], OTHER)
    settle(database, proof, Unknown("gone"), "")
    settle(database, proof, Returned("{}"), "{}")
    assert lost.run_id == claim.run_id
    get_command(claim.run_id, None, is_json=False)
    text = capsys.readouterr().out
    for words in (
        "model call 1 retry, 10 in, 5 out, cost unknown, ",
        "rate_limit: slow down; asks again in 0 ms",
        "taken over step@here pid 1 is gone in step 1 (loss 1)",
        "call 1.1   write: wrk_other writes down that it sends this change now",
        "call 1.1   write: nobody knows whether this change happened",
        "call 1.1   write →, late",
    ):
        assert words in text


def test_the_story_names_its_workers_after_all_of_them_are_forgotten(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    beat(database)
    run_id = claimed(database).run_id
    fall_silent(database)
    take_over_runs(database, dead_after_seconds=DEAD_AFTER, limit=10)
    beat(database, OTHER, "other@there")
    claim = claimed(database, run_id, worker=OTHER)
    step = dispatched(database, READ, CHANGE, claim=claim)
    read, sent = (started(database, call_id, OTHER) for call_id in step.calls)
    settle(database, read, Returned("{}"), "{}")
    change(database, "DELETE FROM workers")
    settle(database, sent, Unknown("gone"), "")
    get_command(run_id, None, is_json=True)
    facts = [told["facts"] for told in json.loads(capsys.readouterr().out)["story"]]
    assert [fact["worker"] for fact in facts if "worker" in fact] == [
        "step@here pid 1",  # claims it
        "step@here pid 1",  # is gone
        "other@there pid 1",
        "other@there pid 1",  # writes down that it sends the change
        "other@there pid 1",
        "other@there pid 1",
    ]
    with database.begin() as connection:
        taken_over = read_happenings(connection, run_id, after=2)[0]
    assert (taken_over.event.kind, taken_over.worker) == ("run.taken_over", "step@here pid 1")


def test_events_of_a_version_that_named_no_node_show_the_worker_as_far_as_it_is_known(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    beat(database)
    run_id = a_completed_run(database)
    change(database, "UPDATE events SET data = data - '{node,pid}'::text[]")
    change(database, "UPDATE events SET data = data - 'worker' WHERE kind LIKE 'call.%%'")
    get_command(run_id, None, is_json=False)
    told = capsys.readouterr().out
    assert told.count("step@here pid 1") == 4, "two claims, two results"
    change(database, "DELETE FROM workers")
    get_command(run_id, None, is_json=False)
    assert capsys.readouterr().out == told.replace("step@here pid 1", ME)


def test_money_is_added_up_per_step_and_in_all_and_the_unknown_stays_unknown(
    database: Database, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    prices = "price_input_per_million = 1000.0\nprice_output_per_million = 2000.0\n"
    (tmp_path / "umbel.toml").write_text(f"[models.scripted]\n{prices}")
    run_id = a_completed_run(database)
    get_command(run_id, None, is_json=True)
    facts = json.loads(capsys.readouterr().out)
    assert facts["spending"]["cost_usd"] == pytest.approx(0.04)
    assert [step["spending"]["cost_usd"] for step in facts["steps"]] == pytest.approx([0.02, 0.02])
    get_command(run_id, None, is_json=False)
    assert "model call 1 answer, 10 in, 5 out, $0.0200, " in capsys.readouterr().out
    steps_command(run_id, None, is_json=False)
    assert "in all     tokens 20 in, 10 out; cost $0.0400" in capsys.readouterr().out


def test_an_event_that_these_words_do_not_know_is_told_by_its_own_data(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = a_run(database).run_id
    change(
        database,
        "INSERT INTO events (run_id, seq, kind, data, fence)"
        " VALUES (%(id)s, 2, 'run.renamed', jsonb_build_object('to', E'x\\u001b[2J'), 0)",
        id=run_id,
    )
    get_command(run_id, None, is_json=False)
    assert capsys.readouterr().out.splitlines()[-1].endswith("renamed    to=x\\x1b[2J")
