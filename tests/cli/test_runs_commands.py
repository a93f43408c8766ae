import json
from pathlib import Path

import pytest
import redis

from locks.ownership import OwnershipLocks
from models.database import Database
from tests.cli.stories import a_completed_run, a_run_with_an_unknown_change
from tests.factories import OWNER, RunWish, a_run
from tests.models.story import ME, beat, claimed
from umbel.cli.runs_commands import get_command, list_command, steps_command
from umbel.contracts import Principal
from umbel.errors import InvalidInput, Misconfigured, NotFound


@pytest.fixture(autouse=True)
def settings(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    database_url: str,
    redis_url: str,
    redis_prefix: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UMBEL_DATABASE_URL", database_url)
    monkeypatch.setenv("UMBEL_REDIS_URL", redis_url)
    monkeypatch.setenv("UMBEL_REDIS_PREFIX", redis_prefix)
    monkeypatch.setenv("UMBEL_TENANT", OWNER.tenant)


def test_the_list_shows_status_agent_step_and_request_newest_first(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    completed = a_completed_run(database, "Count the\nfiles \x1b[31mnow")
    paused = a_run_with_an_unknown_change(database)
    assert list_command((), 20, None, is_json=False) == 0
    header, first, second = capsys.readouterr().out.splitlines()
    assert header.split() == ["run", "status", "agent", "step", "held", "by", "age", "request"]
    assert first.startswith(paused)
    assert "paused: unknown_outcome" in first
    assert second.startswith(completed)
    assert "Count the files \\x1b[31mnow" in second


def test_a_run_that_nobody_has_taken_yet_waits_for_a_worker(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = a_run(database, RunWish()).run_id
    list_command((), 20, None, is_json=False)
    assert "waiting for a worker" in capsys.readouterr().out
    get_command(run_id, None, is_json=False)
    assert "held by    waiting for a worker" in capsys.readouterr().out


def test_the_list_names_the_holder_and_the_lock_of_a_running_run(
    database: Database,
    capsys: pytest.CaptureFixture[str],
    redis_url: str,
    redis_prefix: str,
) -> None:
    beat(database)
    run_id = claimed(database).run_id
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        locks = OwnershipLocks(client, prefix=redis_prefix, ttl_seconds=30)
        locks.acquire(run_id, f"{ME} {run_id}")
    list_command((), 20, None, is_json=True)
    [line] = capsys.readouterr().out.splitlines()
    run = json.loads(line)
    assert run["run_id"] == run_id
    assert run["holder"] == "step@here pid 1"
    assert run["lock"] == f"{ME} {run_id}"


def test_the_list_is_filtered_limited_and_closed_over_the_tenant(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    completed = a_completed_run(database)
    a_run_with_an_unknown_change(database)
    a_run(database, RunWish(principal=Principal(tenant="other", user="eve")))
    list_command(("completed",), 20, None, is_json=True)
    assert [json.loads(line)["run_id"] for line in capsys.readouterr().out.splitlines()] == [
        completed
    ]
    list_command((), 1, None, is_json=True)
    assert len(capsys.readouterr().out.splitlines()) == 1
    list_command((), 20, None, is_json=True)
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_an_empty_list_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    list_command((), 20, None, is_json=False)
    assert capsys.readouterr().out == "no runs\n"


def test_an_unknown_status_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="'done' is none of queued, running"):
        list_command(("done",), 20, None, is_json=False)


def test_one_run_shows_exact_arguments_receipt_and_what_to_do(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = a_run_with_an_unknown_change(database)
    get_command(run_id, None, is_json=False)
    text = capsys.readouterr().out
    assert 'pay {"cents":900719925474099312,"to":"ann"}' in text
    assert "mutation, unknown, attempt 1, receipt unknown" in text
    assert "status     paused: unknown_outcome" in text
    assert "to do      Look at the outside system" in text


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


def test_steps_show_every_model_attempt_and_call(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = a_completed_run(database)
    steps_command(run_id, None, is_json=False)
    text = capsys.readouterr().out
    assert "step 1     model call 1: dispatch, 10 in, 5 out" in text
    assert "call 1.2   look" in text
    assert "step 2     model call 1: answer" in text
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


def test_a_folder_that_holds_no_data_is_refused_and_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    with pytest.raises(Misconfigured, match="holds no data of Umbel"):
        list_command((), 20, folder, is_json=False)
    assert list(folder.iterdir()) == []
