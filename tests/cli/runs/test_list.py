import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import redis

from locks.ownership import OwnershipLocks
from models.database import Database
from tests.cli.stories import a_completed_run, a_run_with_an_unknown_change
from tests.factories import OWNER, RunWish, a_run
from tests.models.story import ME, READ, beat, claimed, dispatched
from umbel.cli.runs_commands import get_command
from umbel.cli.runs_list import ListOptions, list_command
from umbel.contracts import Principal
from umbel.errors import InvalidInput, Misconfigured

own_settings = pytest.mark.usefixtures("own_settings")


@own_settings
def test_the_list_shows_status_agent_step_and_request_newest_first(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    completed = a_completed_run(database, "Count the\nfiles \x1b[31mnow")
    paused = a_run_with_an_unknown_change(database)
    assert list_command(ListOptions(), None, is_json=False) == 0
    header, first, second = capsys.readouterr().out.splitlines()
    assert header.split() == ["run", "status", "agent", "step", "held", "by", "age", "request"]
    assert first.startswith(paused)
    assert "paused: unknown_outcome" in first
    assert second.startswith(completed)
    assert "Count the files \\x1b[31mnow" in second


@own_settings
def test_a_run_that_nobody_has_taken_yet_waits_for_a_worker(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = a_run(database, RunWish()).run_id
    list_command(ListOptions(), None, is_json=False)
    assert "waiting for a worker" in capsys.readouterr().out
    get_command(run_id, None, is_json=False)
    assert "held by    waiting for a worker" in capsys.readouterr().out


@own_settings
def test_a_run_whose_calls_are_ready_waits_for_them(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    beat(database)
    run_id = dispatched(database, READ).run_id
    list_command(ListOptions(), None, is_json=False)
    assert "its tool calls" in capsys.readouterr().out
    get_command(run_id, None, is_json=False)
    assert "held by    its tool calls" in capsys.readouterr().out


@own_settings
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
    list_command(ListOptions(), None, is_json=True)
    [line] = capsys.readouterr().out.splitlines()
    run = json.loads(line)
    assert run["run_id"] == run_id
    assert run["holder"] == "step@here pid 1"
    assert run["lock"] == f"{ME} {run_id}"


@own_settings
def test_the_list_is_filtered_limited_and_closed_over_the_tenant(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    completed = a_completed_run(database)
    a_run_with_an_unknown_change(database)
    a_run(database, RunWish(principal=Principal(tenant="other", user="eve")))
    list_command(ListOptions(statuses=("completed",)), None, is_json=True)
    assert [json.loads(line)["run_id"] for line in capsys.readouterr().out.splitlines()] == [
        completed
    ]
    list_command(ListOptions(limit=1), None, is_json=True)
    assert len(capsys.readouterr().out.splitlines()) == 1
    list_command(ListOptions(), None, is_json=True)
    assert len(capsys.readouterr().out.splitlines()) == 2


@own_settings
def test_an_empty_list_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    list_command(ListOptions(), None, is_json=False)
    assert capsys.readouterr().out == "no runs\n"


@own_settings
def test_more_runs_than_asked_for_are_announced_with_the_way_to_them(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    older, newer = (a_run(database).run_id for _ in range(2))
    list_command(ListOptions(limit=1), None, is_json=True)
    shown = capsys.readouterr()
    assert shown.err == f"umbel: there are more; add --after {newer} for the next ones\n"
    list_command(ListOptions(limit=1, after=newer), None, is_json=True)
    shown = capsys.readouterr()
    assert json.loads(shown.out)["run_id"] == older
    assert shown.err == ""


@own_settings
def test_options_of_the_list_reach_the_record(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    paused = a_run_with_an_unknown_change(database)
    options = ListOptions(
        statuses=("paused",),
        reasons=("unknown_outcome",),
        agent="default",
        owner=OWNER.user,
        age="2h",
        until="2999-01-01",
        text="in FOLDER",
    )
    list_command(options, None, is_json=True)
    assert json.loads(capsys.readouterr().out)["run_id"] == paused
    for other in (
        replace(options, agent="x"),
        replace(options, owner="x"),
        replace(options, thread="thr_x"),
        replace(options, until="2020-01-01"),
        replace(options, age=None, since="2999-01-01T00:00+02:00", until=None),
        replace(options, text="zebra"),
    ):
        list_command(other, None, is_json=True)
        assert capsys.readouterr().out == "", other


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (ListOptions(statuses=("done",)), "'done' is none of queued, running"),
        (ListOptions(statuses=("Complete",)), "Did you mean completed?"),
        (ListOptions(reasons=("tired",)), "'tired' is none of approval_required"),
        (ListOptions(age="2"), "such as 90s, 2h or 3d"),
        (ListOptions(age="0h"), "such as 90s, 2h or 3d"),
        (ListOptions(age="9999999w"), "such as 90s, 2h or 3d"),
        (ListOptions(since="yesterday"), "--since 'yesterday' is no time; write 2026-03-01"),
        (ListOptions(until="2026-13-01"), "--until '2026-13-01' is no time"),
        (ListOptions(since="2026-02-01", until="2026-01-01"), "--since is not before --until"),
        (ListOptions(since="2026-02-01", age="2h"), "give one of them"),
        (ListOptions(text="  "), "--text takes 1 to 20 words"),
        (ListOptions(text="a " * 21), "--text takes 1 to 20 words"),
    ],
)
def test_a_value_that_is_none_is_refused_with_those_that_are_before_any_server_is_asked(
    options: ListOptions, said: str
) -> None:
    with pytest.raises(InvalidInput, match=re.escape(said)):
        list_command(options, None, is_json=False)


def test_a_folder_that_holds_no_data_is_refused_and_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    with pytest.raises(Misconfigured, match="holds no data of Umbel"):
        list_command(ListOptions(), folder, is_json=False)
    assert list(folder.iterdir()) == []
