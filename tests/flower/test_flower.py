"""A real Flower over real workers: legible, closed, read-only, and no secret on any page."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from flower.urls import handlers  # type: ignore[import-untyped]
from tornado.routing import URLSpec
from tornado.web import RequestHandler

from tests.flower.conftest import (
    AUTH,
    SECRETS,
    Watched,
    client_of,
    flower_spec,
    is_there,
)
from tests.worker_processes import wait_until
from umbel.flower import HIDDEN
from umbel.flower_server import OPEN_PATHS
from umbel.names import CALL, LOOP_QUEUE, STEP
from umbel.server_processes import ServerProcesses

pytestmark = pytest.mark.slow

TABLE: Final[dict[str, str | int]] = {
    "draw": 1,
    "start": 0,
    "length": 100,
    "order[0][column]": 0,
    "columns[0][data]": "name",
}


def test_pages_and_api_show_no_secret(watched: Watched) -> None:
    for path, body in _everything(watched):
        assert not _leaks(body), path


def test_events_tell_no_secret(watched: Watched) -> None:
    assert {event["type"] for event in watched.events} >= {
        *("task-sent", "task-received", "task-started", "task-succeeded", "task-failed"),
        "worker-heartbeat",
    }
    for event in watched.events:
        assert not _leaks(json.dumps(event)), event["type"]


def test_inspecting_workers_tells_no_secret(watched: Watched) -> None:
    inspect = watched.app.control.inspect(timeout=2.0)
    for ask in ("conf", "stats", "active", "reserved", "registered", "report"):
        answer = getattr(inspect, ask)()
        assert answer
        assert not _leaks(json.dumps(answer)), ask


def test_flower_itself_says_no_secret(watched: Watched) -> None:
    assert not _leaks("\n".join(watched.flower_lines))
    assert not _leaks(Path(f"/proc/{watched.flower_pid}/cmdline").read_text())


def test_list_and_detail_show_ids_and_one_line_results(watched: Watched) -> None:
    run_id = watched.answered.run_id
    listed = {row["uuid"]: row for row in _table(watched, run_id)}
    steps = {row["args"]: row for row in listed.values() if row["name"] == STEP}
    assert f"{run_id} step 1" in steps
    assert steps[f"{run_id} step 2"]["result"] == "answer, 110 tok"
    lines = {row["result"] for row in listed.values()}
    assert lines >= {"dispatch 2, 110 tok", "answer, 110 tok"}
    assert HIDDEN not in lines
    page = watched.flower.get(f"/task/{steps[f'{run_id} step 2']['uuid']}").text
    for shown in (STEP, f"{run_id}:s2", f"{run_id} step 2", "answer, 110 tok"):
        assert shown in page


def test_calls_are_shown_by_tool_and_id(watched: Watched) -> None:
    calls = {key: task for key, task in watched.tasks().items() if task["name"] == CALL}
    assert {call.partition(":")[0] for call in calls} == set(watched.answered.call_ids)
    done = [task for task in calls.values() if task["result"] == "returned, recorded"]
    failed = [task for task in calls.values() if task["result"] == "errored, recorded"]
    assert done
    assert failed
    for task in (*done, *failed):
        assert re.fullmatch(r"read_note call_\w+", task["args"])
        assert task["args"].endswith(task["uuid"].partition(":")[0])


def test_failures_are_shown_as_the_name_of_a_type(watched: Watched) -> None:
    told = [
        {task["exception"] for task in watched.tasks_of(world).values() if task["exception"]}
        for world in (watched.answered, watched.broken)
    ]
    assert told == [{"ValueError"}, {"InvariantBroken"}]
    assert not any(task["traceback"] for task in watched.tasks().values())


def test_what_others_put_into_the_queues_is_hidden(watched: Watched) -> None:
    secret = SECRETS["prompt"]
    send = watched.app.send_task
    send(STEP, args=[secret, 1], kwargs={"word": secret}, task_id="foreign-1")
    send("somebody.else", args=[secret], queue=LOOP_QUEUE, task_id="foreign-2")
    wait_until(
        lambda: (
            {"foreign-1", "foreign-2"} <= watched.tasks().keys()
            and watched.tasks()["foreign-1"]["state"] == "FAILURE"
        ),
        30,
        "Flower has heard of the foreign tasks",
    )
    told = watched.tasks()["foreign-1"]
    assert (told["args"], told["kwargs"], told["exception"]) == (HIDDEN, HIDDEN, "TypeError")
    assert not _table(watched, secret)
    for path, body in _everything(watched):
        assert not _leaks(body), path


@pytest.mark.parametrize("method", ["GET", "POST", "HEAD", "OPTIONS"])
def test_every_path_but_two_asks_for_the_password(watched: Watched, method: str) -> None:
    paths = {path for path, _ in _routes()}
    assert len(paths) > 30
    for path in paths:
        for auth in (None, ("ann", "wrong"), ("ann", "gehe\N{LATIN SMALL LETTER Y WITH ACUTE}m")):
            answer = watched.flower.request(method, path, auth=auth)
            if path in OPEN_PATHS:
                assert answer.status_code != 401, path
            else:
                assert answer.status_code == 401, path
                assert "flower" in answer.headers["WWW-Authenticate"]


def test_no_viewer_can_change_anything(watched: Watched) -> None:
    names = sorted(watched.flower.get("/api/workers?status=1").json())
    changing = [path for path, handler in _routes() if handler.post is not RequestHandler.post]
    assert len(changing) > 12
    for path in changing:
        answer = watched.flower.post(path.replace("/x", f"/{names[0]}"))
        is_harmless = path in ("/tasks/datatable", "/x")
        assert answer.status_code in ((400, 404) if is_harmless else (403,)), path
    assert not watched.system.stage.workers.died_unasked()


@pytest.mark.parametrize(
    "foreign", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://elsewhere.example"}]
)
def test_a_page_of_somebody_else_cannot_post(watched: Watched, foreign: dict[str, str]) -> None:
    own = watched.flower.post("/tasks/datatable", params=TABLE)
    assert own.status_code == 200
    answer = watched.flower.post("/tasks/datatable", params=TABLE, headers=foreign)
    assert answer.status_code == 403


def test_an_open_address_is_warned_of(watched: Watched, tmp_path: Path) -> None:
    spec = flower_spec(watched.place, tmp_path)
    port = spec.env["UMBEL_FLOWER_ADDRESS"].rpartition(":")[2]
    everywhere = flower_spec(watched.place, tmp_path, UMBEL_FLOWER_ADDRESS=f"0.0.0.0:{port}")
    lines: list[str] = []
    with ServerProcesses(on_line=lambda _name, line: lines.append(line)) as processes:
        processes.start(everywhere)
        with client_of(everywhere) as client:
            wait_until(lambda: is_there(client), 60, "Flower answers")
            assert client.get("/", auth=AUTH).status_code == 200
    [warned] = [line for line in lines if "other machines" in line]
    assert "TLS" in warned
    assert "/metrics and /healthcheck" in warned


def test_celerys_own_flower_is_refused_without_a_password(watched: Watched) -> None:
    command = [sys.executable, "-m", "celery", "-A", "umbel.server", "flower"]
    environment = watched.system.stage.workers.environment
    ended = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.returncode == 2
    assert "--address=127.0.0.1" in ended.stderr
    assert "UMBEL_FLOWER_AUTH=user:password" in ended.stderr


def _everything(watched: Watched) -> Iterator[tuple[str, str]]:
    """Every page and answer that a viewer can have, with its text."""
    flower = watched.flower
    names = sorted(flower.get("/api/workers?status=1").json())
    assert len(names) >= 2
    ids = watched.tasks()
    assert len(ids) >= 5
    paths = [
        *("/", "/workers", "/workers?json=1", "/tasks", "/broker", *OPEN_PATHS),
        *("/api/workers?refresh=1", "/api/workers", "/api/tasks", "/api/task/types"),
        *("/api/queues/length",),
        *(f"/worker/{name}" for name in names),
        *(f"/api/workers?refresh=1&workername={name}" for name in names),
        *(f"{page}/{key}" for key in ids for page in ("/task", "/api/task/info")),
    ]
    for path in paths:
        answer = flower.get(path)
        assert answer.status_code == 200, path
        yield path, answer.text
    yield "/tasks/datatable", flower.get("/tasks/datatable", params=TABLE).text


def _table(watched: Watched, search: str) -> list[dict[str, str]]:
    answer = watched.flower.get("/tasks/datatable", params=TABLE | {"search[value]": search})
    rows: list[dict[str, str]] = answer.json()["data"]
    return rows


def _routes() -> Iterator[tuple[str, type[RequestHandler]]]:
    """Flower's own table, with a path for each entry."""
    for entry in handlers:
        spec = entry if isinstance(entry, URLSpec) else URLSpec(*entry[:2])
        path = re.sub(r"\([^()]*\)|\.\*", "x", spec.regex.pattern.rstrip("$")).removesuffix("/?")
        yield path if path.startswith("/") else f"/{path}", spec.handler_class


def _leaks(text: str) -> list[str]:
    return [word for word, secret in SECRETS.items() if secret in text]
