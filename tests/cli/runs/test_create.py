import io
import json
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from models.database import Database
from tests.cli.test_umbel_run import clean_environment
from tests.factories import OWNER
from tests.models.story import beat, claimed, event_kinds, query, run_row
from tests.services import Place
from umbel.cli.runs_create import CreateOptions, create_command
from umbel.contracts import RunId
from umbel.errors import IdReused, InvalidInput, Misconfigured, NotFound
from umbel.service import Service

WAIT_SECONDS = 120.0
"""For a command to start and to end: on a busy machine alone its imports take half a minute."""


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, own_settings: None) -> None:
    monkeypatch.setenv("UMBEL_MODEL", "some-model")


pytestmark = pytest.mark.usefixtures("model")


def created(capsys: pytest.CaptureFixture[str], options: CreateOptions) -> list[dict[str, object]]:
    assert create_command(options, None, is_tailing=False, is_json=True) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_request_is_accepted_for_the_settings_owner_with_the_agents_permission(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *rest = created(capsys, CreateOptions("Say hello"))
    row = run_row(database, RunId(str(first["run_id"])))
    assert first["type"] == "run.accepted"
    assert (row["tenant"], row["owner"], row["work"]) == (OWNER.tenant, OWNER.user, "ready")
    [spec] = query(database, "SELECT model, workspace, policy FROM run_specs")
    assert (spec["model"], spec["workspace"]) == ("some-model", None)
    assert json.loads(spec["policy"])["permission_mode"] == "ask"
    said = {str(moment["topic"]): str(moment["text"]) for moment in rest}
    assert said["workspace"].startswith("none: file tools find no folder")
    assert said["look"] == f"umbel runs tail {first['run_id']}"


def test_without_workers_it_says_that_nobody_carries_the_run_out_and_how_to_start_them(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    create_command(CreateOptions("Say hello"), None, is_tailing=False, is_json=False)
    text = capsys.readouterr().out
    assert "no step worker is alive" in text
    assert "`umbel up`" in text
    beat(database)
    create_command(CreateOptions("Say hello"), None, is_tailing=False, is_json=False)
    text = capsys.readouterr().out
    assert "no step worker" not in text
    assert "no tool worker is alive" in text


def test_model_workspace_and_thread_of_the_command_line_are_frozen_into_the_run(
    database: Database, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    one = CreateOptions("One", model="other", workspace=tmp_path, thread="thr_mine")
    first, *_ = created(capsys, replace(one, makes_thread=True))
    second, *rest = created(capsys, CreateOptions("Two", thread="thr_mine"))
    assert (first["model"], first["workspace"]) == ("other", str(tmp_path))
    assert (first["thread_id"], second["thread_id"]) == ("thr_mine", "thr_mine")
    assert (first["is_queued"], second["is_queued"]) == (False, True)
    assert "its thread is busy: it waits for its turn" in [moment["text"] for moment in rest]


def test_a_thread_that_does_not_exist_is_refused_with_what_to_do_instead(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(NotFound, match=r"no thread 'thr_typo'\. Without --thread .* --new-thread"):
        created(capsys, CreateOptions("One", thread="thr_typo"))
    assert query(database, "SELECT 1 FROM threads") == []
    named = CreateOptions("One", thread="thr_typo", makes_thread=True)
    assert [created(capsys, named)[0]["thread_id"] for _ in range(2)] == ["thr_typo"] * 2


def test_the_same_id_again_is_the_same_run(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    options = CreateOptions("Send the report", run_id="run_report-2026-03")
    first, *_ = created(capsys, options)
    again, *rest = created(capsys, options)
    assert (first["run_id"], first["is_new"]) == ("run_report-2026-03", True)
    assert (again["run_id"], again["is_new"]) == ("run_report-2026-03", False)
    assert "this id was accepted before: it is the same run" in [m["text"] for m in rest]
    assert event_kinds(database, RunId("run_report-2026-03")) == ["run.accepted"]


FIRST = CreateOptions("Send the report", run_id="run_report")


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (replace(FIRST, request="Send the reports"), "its text differs from character 16 on"),
        (replace(FIRST, agent="other"), "agent was 'default' and is 'other' now"),
        (replace(FIRST, workspace=Path()), "workspace was none and is '/"),
        (replace(FIRST, model="m2"), "model was 'some-model' and is 'm2' now"),
        (replace(FIRST, thread="thr_other"), "thread was 'thr_"),
    ],
)
def test_a_known_id_with_another_request_is_refused_and_what_differs_is_named(
    database: Database,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    other: CreateOptions,
    said: str,
) -> None:
    (tmp_path / "umbel.toml").write_text("[agents.other]\n")
    created(capsys, FIRST)
    with pytest.raises(IdReused, match=said) as refused:
        create_command(other, None, is_tailing=False, is_json=False)
    assert "`umbel runs get run_report` shows it" in str(refused.value)
    assert "report," not in str(refused.value), "an error tells no content"
    assert len(query(database, "SELECT 1 FROM runs")) == 1


def test_a_repeated_request_is_the_same_run_though_its_agent_was_configured_otherwise_since(
    database: Database,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    created(capsys, FIRST)
    monkeypatch.setenv("UMBEL_MODEL", "newer-model")
    (tmp_path / "umbel.toml").write_text('[agents.default]\ninstructions = "Be brief."\n')
    first, *_ = created(capsys, FIRST)
    assert (first["is_new"], first["model"]) == (False, "some-model")


def test_a_policy_value_of_the_caller_belongs_to_the_request(
    database: Database, own_settings: None
) -> None:
    with Service() as service:
        for _ in range(2):
            service.enqueue("Hello", run_id="run_hello", policy={"parallel": 3})
        with pytest.raises(IdReused, match=r"policy\.parallel was 3 and is 4 now"):
            service.enqueue("Hello", run_id="run_hello", policy={"parallel": 4})


def test_a_dash_reads_the_request_from_standard_input(
    database: Database, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("Grüße\n".encode())))
    [first, *_] = created(capsys, CreateOptions("-"))
    assert first["input"] == "Grüße\n"


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        (CreateOptions("x", agent="nobody"), Misconfigured, "Agent 'nobody' is not configured"),
        (CreateOptions("x", workspace=Path("no-folder")), Misconfigured, "is not a folder here"),
        (CreateOptions("  "), InvalidInput, "input is empty"),
        (CreateOptions("x", run_id="mine"), InvalidInput, "is no id: write run_"),
        (CreateOptions("x", thread="mine"), InvalidInput, "is no id: write thr_"),
    ],
)
def test_what_cannot_be_accepted_is_refused_and_nothing_is_written(
    database: Database, options: CreateOptions, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        create_command(options, None, is_tailing=False, is_json=False)
    assert query(database, "SELECT 1 FROM runs") == []


@pytest.fixture
def environment(place: Place) -> dict[str, str]:
    return {
        **clean_environment(),
        "UMBEL_DATABASE_URL": place.database_url,
        "UMBEL_REDIS_URL": place.redis_url,
        "UMBEL_REDIS_PREFIX": place.redis_prefix,
        "UMBEL_TENANT": OWNER.tenant,
        "UMBEL_MODEL": "some-model",
        "PYTHONUNBUFFERED": "1",
    }


def command(environment: dict[str, str], folder: Path, *words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "umbel.cli", "runs", *words],
        env=environment,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def read_to(process: "subprocess.Popen[str]", seq: int) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line).get("seq") == seq:
            return
    raise AssertionError(f"event {seq} was not shown")


@pytest.mark.slow
def test_a_real_tail_that_is_interrupted_says_how_to_go_on_and_that_goes_on(
    database: Database, environment: dict[str, str], tmp_path: Path
) -> None:
    words = ("create", "Hello", "--run-id", "run_hello", "--tail", "--json")
    with command(environment, tmp_path, *words) as tail:
        read_to(tail, 1)
        claimed(database, RunId("run_hello"))
        read_to(tail, 2)
        tail.send_signal(signal.SIGINT)
        _, said = tail.communicate(timeout=WAIT_SECONDS)
    assert tail.returncode == 130
    # The signal may come before the command knows that its last line has been read.
    match = re.fullmatch(
        r"umbel: interrupted after event ([12]); `umbel (runs tail run_hello --from \1)` goes on\n",
        said,
    )
    assert match is not None, said
    words = (*match[2].split()[1:], "--no-follow", "--json")
    with command(environment, tmp_path, *words) as again:
        shown, _ = again.communicate(timeout=WAIT_SECONDS)
    first = int(match[1])
    assert [json.loads(line)["seq"] for line in shown.splitlines()] == [*range(first + 1, 3)]
