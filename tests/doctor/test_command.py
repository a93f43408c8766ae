"""The command as people and programs meet it."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from providers.demo import MODEL, DemoServer
from tests.cli.announcing import running_system
from tests.doctor.looking import BY_PART
from tests.services import Place
from tests.worker_processes import PATIENT_CLOCKS, WorkerProcesses, wait_until
from umbel.cli import exits
from umbel.cli.doctor.context import Context
from umbel.cli.doctor.parts import CHECKS
from umbel.cli.doctor.running import LIMIT_SECONDS, run_checks
from umbel.names import CONTROL_QUEUE, LOOP_QUEUE, TOOLS_QUEUE
from umbel.server_processes import ProcessSpec, ServerProcesses
from umbel.settings import load_settings

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text()
PASSWORD = "marker-of-a-password"
ORDER = [check.part for check in CHECKS]


def doctor(
    environment: dict[str, str], *options: str, cwd: Path
) -> "subprocess.CompletedProcess[str]":
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("UMBEL_", "OPENAI_", "XDG_"))}
    return subprocess.run(
        [sys.executable, "-m", "umbel.cli", "doctor", *options],
        env={**kept, "XDG_STATE_HOME": str(cwd), **environment},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def objects(text: str) -> dict[str, dict[str, Any]]:
    found = [json.loads(line) for line in text.splitlines()]
    return {each["part"]: each for each in found}


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=50) as server:
        yield server.getsockname()[1]


def test_when_everything_is_silent_the_command_still_ends_and_says_what_to_start(
    silent_port: int, tmp_path: Path
) -> None:
    address = f"127.0.0.1:{silent_port}"
    environment = {
        "UMBEL_DATABASE_URL": f"postgresql://ann:{PASSWORD}@{address}/umbel",
        "UMBEL_REDIS_URL": f"redis://:{PASSWORD}@{address}/0",
        "UMBEL_MODEL_BASE_URL": f"http://{address}/v1",
        "UMBEL_API_KEY": PASSWORD,
        "UMBEL_FLOWER_ADDRESS": address,
        "UMBEL_FLOWER_AUTH": f"ann:{PASSWORD}",
    }
    ended = doctor(environment, "--json", cwd=tmp_path)
    found = objects(ended.stdout)
    assert list(found) == ORDER
    assert {part for part in ORDER if found[part]["state"] == "problem"} == {
        "database",
        "redis",
        "model",
    }
    skipped = {
        part: found[part]["depends_on"] for part in ORDER if found[part]["state"] == "skipped"
    }
    assert skipped == {
        **dict.fromkeys(("migrations", "workers", "clock", "work", "unknown"), "database"),
        **dict.fromkeys(("broker", "queues", "beat"), "redis"),
    }
    assert found["database"]["remedy"].startswith("Start PostgreSQL")
    assert found["redis"]["remedy"].startswith("Start it")
    assert ended.returncode == exits.NOT_COMPLETED
    assert PASSWORD not in ended.stdout + ended.stderr
    began = time.monotonic()  # without the interpreter's start, which a busy machine draws out
    settings = load_settings({"UMBEL_CONFIG": "", **environment})
    assert len(list(run_checks(CHECKS, Context(settings)))) == len(ORDER)
    assert time.monotonic() - began < LIMIT_SECONDS + 1


def test_every_setting_is_shown_with_its_origin_and_no_secret(tmp_path: Path) -> None:
    environment = {"UMBEL_API_KEY": PASSWORD, "UMBEL_FLOWER_ADDRESS": "off", "UMBEL_TENANT": "acme"}
    (tmp_path / "umbel.toml").write_text("beat_seconds = 2.0\n")
    text = doctor(environment, "--verbose", cwd=tmp_path).stdout
    assert "tenant = acme  (UMBEL_TENANT)" in text
    assert "beat_seconds = 2.0  (beat_seconds in umbel.toml)" in text
    assert "dead_after_seconds = 15.0  (default)" in text
    assert "4 of " in text.splitlines()[0]
    assert PASSWORD not in text


def test_a_wrong_setting_is_the_one_problem_and_the_rest_is_skipped(tmp_path: Path) -> None:
    ended = doctor({"UMBEL_BEAT_SECONDS": "soon"}, "--json", cwd=tmp_path)
    found = objects(ended.stdout)
    assert list(found) == ORDER
    assert "UMBEL_BEAT_SECONDS is 'soon'" in found["settings"]["found"]
    assert {found[part]["state"] for part in ORDER[1:]} == {"skipped"}
    assert ended.returncode == exits.NOT_COMPLETED


def test_a_directory_on_which_nothing_runs_is_said_so(tmp_path: Path) -> None:
    ended = doctor({}, "--json", "--data", str(tmp_path), cwd=tmp_path)
    finding = objects(ended.stdout)["settings"]
    assert "No system runs on" in finding["found"]
    assert finding["remedy"].startswith(f"Start it with `umbel up --data {tmp_path}`")


def test_a_running_system_is_looked_at_through_its_directory(place: Place, tmp_path: Path) -> None:
    with running_system(
        tmp_path,
        database_url=place.database_url,
        redis_url=place.redis_url,
        redis_prefix=place.redis_prefix,
        model=MODEL,
        model_base_url="http://127.0.0.1:1/v1",
    ):
        ended = doctor({}, "--json", "--data", str(tmp_path), cwd=tmp_path)
    found = objects(ended.stdout)
    assert {found[part]["state"] for part in ("settings", "migrations", "broker")} == {"ok"}
    origins = {each["name"]: each["origin"] for each in found["settings"]["settings"]}
    assert origins["tenant"] == "the system that runs here"
    assert origins["tools"] == "default"
    assert found["flower"]["found"].startswith("off")


def test_every_part_is_documented() -> None:
    section = DOCUMENT.partition("## umbel doctor")[2].partition("\n## ")[0]
    for part in BY_PART:
        assert f"\n| `{part}` |" in section, part
    for name in ("part", "state", "found", "remedy", "depends_on"):
        assert f"`{name}`" in section


@pytest.mark.slow
@pytest.mark.timeout(500)
def test_a_healthy_system_is_well_in_every_part(own_place: Place, tmp_path: Path) -> None:
    with ExitStack() as stack:
        demo = stack.enter_context(DemoServer())
        port = unused_port()
        environment = {
            "UMBEL_MODEL_BASE_URL": demo.base_url,
            "UMBEL_MODEL": MODEL,
            "UMBEL_TOOL_CONCURRENCY": "2",
            "UMBEL_FLOWER_ADDRESS": f"127.0.0.1:{port}",
            "UMBEL_DEAD_AFTER_SECONDS": PATIENT_CLOCKS["UMBEL_DEAD_AFTER_SECONDS"],
        }
        workers = stack.enter_context(WorkerProcesses(own_place, {**PATIENT_CLOCKS, **environment}))
        flower = stack.enter_context(ServerProcesses())
        flower.start(flower_spec(workers.environment, port))
        workers.start("step", "gevent", concurrency=4)
        workers.start("tool", "prefork", concurrency=1)
        workers.start("control", "prefork", concurrency=1)
        workers.start("beat")
        workers.start("beat")
        workers.wait_ready()
        system = {k: v for k, v in workers.environment.items() if k.startswith("UMBEL_")}

        looks = [doctor(system, "--json", "--invariants", cwd=tmp_path)]

        def is_well() -> bool:
            if looks[-1].returncode == exits.COMPLETED and not ill(looks[-1].stdout):
                return True
            looks.append(doctor(system, "--json", "--invariants", cwd=tmp_path))
            return False

        try:
            wait_until(is_well, 240, "every part is well")
        except AssertionError as error:
            raise AssertionError(
                f"{error}; after {len(looks)} looks {ill(looks[-1].stdout)}"
            ) from None
    found = objects(looks[-1].stdout)
    assert list(found) == [*ORDER, "invariants"]
    assert set(found["queues"]["consumers"]) >= {LOOP_QUEUE, TOOLS_QUEUE, CONTROL_QUEUE}
    assert len(found["beat"]["beats"]) == 2


def ill(text: str) -> list[str]:
    """What `--json` says of parts that are not well."""
    return [
        f"{each['part']} is {each['state']}: {each['found']}"
        for each in objects(text).values()
        if each["state"] != "ok"
    ]


def unused_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return int(unused.getsockname()[1])


def flower_spec(environment: dict[str, str], port: int) -> ProcessSpec:
    command = (sys.executable, "-m", "celery", "-A", "umbel.server", "flower")
    options = ("--address=127.0.0.1", f"--port={port}", "--basic-auth=ann:secret-of-flower")
    return ProcessSpec("flower", (*command, *options), environment)
