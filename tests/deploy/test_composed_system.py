"""What docker-compose.yml starts carries a run, under the rights it gives, and drains."""

import json
import re
import subprocess
import urllib.error
import urllib.request
from base64 import b64encode
from typing import Any

import psycopg
import pytest
import redis
from sqlalchemy import make_url

from tests.deploy.composition import GIVEN, ROOT, compose_services
from tests.deploy.conftest import BIN, ComposedSystem
from tests.worker_processes import wait_until
from umbel.service import Service
from umbel.settings import load_settings

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

DENIED = ("FLUSHALL", "FLUSHDB", "CONFIG GET *", "KEYS *", "SCAN 0", "MONITOR", "ACL LOG", "SAVE")


def answer_of(
    system: ComposedSystem, name: str, argv: list[str]
) -> subprocess.CompletedProcess[str]:
    program, *rest = argv
    rest = [part.replace(":5555/", f":{system.flower_port}/") for part in rest]
    return subprocess.run(
        [str(BIN / program), *rest],
        env=system.environment(name),
        cwd=system.folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def flower_page(system: ComposedSystem, path: str) -> Any:
    request = urllib.request.Request(f"http://127.0.0.1:{system.flower_port}{path}")
    credentials = b64encode(GIVEN["UMBEL_FLOWER_AUTH"].encode()).decode()
    request.add_header("Authorization", f"Basic {credentials}")
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return json.load(response)
    except urllib.error.URLError:
        return {}  # it does not listen yet


def doctor(system: ComposedSystem) -> list[dict[str, Any]]:
    said = answer_of(system, "control", ["umbel", "doctor", "--json"])
    return [json.loads(line) for line in said.stdout.splitlines()]


def test_the_composed_processes_carry_a_run_under_the_rights_they_are_given(
    composed: ComposedSystem,
) -> None:
    with pytest.raises(redis.AuthenticationError):
        composed.redis("default", "").ping()
    migrated = answer_of(composed, "migrate", compose_services()["migrate"]["command"].split())
    assert migrated.returncode == 0, migrated.stderr
    absent = answer_of(composed, "step", ["python", "-m", "umbel.cli.alive", "step"])
    assert absent.returncode == 3
    assert absent.stderr.endswith("does not answer.\n")
    for name in ("step", "tool", "control", "flower"):
        composed.start(name)
    composed.start("beat", "beat.1")
    composed.start("beat", "beat.2")
    composed.wait_ready("step", "tool", "control", "beat.1", "beat.2", "flower")

    (composed.folder / "notes.md").write_text("A worker is dead after 15 s of silence.\n")
    settings = load_settings(composed.environment("control"))
    with Service(settings) as umbel:
        wait_until(
            lambda: len(flower_page(composed, "/api/workers?status=true")) >= 3, 60, "Flower hears"
        )
        run_id = umbel.enqueue("What does “silence” mean?", workspace=str(composed.folder))
        run = umbel.wait(run_id, timeout_seconds=60)
    assert run.status == "completed", composed.lines[-40:]
    wait_until(
        lambda: any(task.startswith(run_id) for task in flower_page(composed, "/api/tasks")),
        20,
        "Flower shows the steps",
    )
    for name in ("step", "tool", "control", "beat", "flower"):
        check = compose_services(composed.variables)[name]["healthcheck"]["test"][1:]
        healthy = answer_of(composed, name, check)
        assert healthy.returncode == 0, (name, healthy.stderr)
    parts = {part["part"]: part for part in doctor(composed)}
    for name in ("settings", "database", "migrations", "broker", "queues", "workers"):
        assert parts[name]["state"] == "ok", parts[name]
    assert parts["redis"]["state"] != "problem", parts["redis"]
    denied = [line for line in composed.lines if "permission" in line.lower() or "NOPERM" in line]
    assert denied == []


def test_retention_removes_old_threads_whole_and_nothing_else(composed: ComposedSystem) -> None:
    text = (ROOT / "docs" / "operations.md").read_text()
    found = re.search(r"```sql\n(BEGIN;.*?COMMIT;)\n```", text, re.DOTALL)
    assert found is not None
    url = make_url(composed.database_url).set(drivername="postgresql")
    with psycopg.connect(url.render_as_string(hide_password=False), autocommit=True) as connection:

        def kept() -> list[int]:
            tables = ("threads", "runs", "calls", "evidence", "events", "model_calls", "run_specs")
            counts = [f"(SELECT count(*) FROM {table})" for table in tables]
            row = connection.execute(f"SELECT {', '.join(counts)}".encode()).fetchone()
            return list(row or ())

        before = kept()
        assert min(before) > 0
        connection.execute(found[1].encode())
        assert kept() == before
        connection.execute("UPDATE runs SET settled_at = settled_at - interval '100 days'")
        connection.execute(found[1].encode())
        assert max(kept()) == 0


def test_health_is_only_asked_of_roles_that_there_are(composed: ComposedSystem) -> None:
    done = answer_of(composed, "tool", ["python", "-m", "umbel.cli.alive", "nobody"])
    assert (done.returncode, done.stderr) == (2, "umbel: Give one of step, tool, control, beat.\n")


@pytest.mark.parametrize("user", ["umbel", "flower"])
@pytest.mark.parametrize("command", DENIED)
def test_no_user_may_see_or_empty_the_server(
    composed: ComposedSystem, user: str, command: str
) -> None:
    passwords = {"umbel": "vksecret", "flower": "flsecret"}
    with (
        composed.redis(user, passwords[user]) as client,
        pytest.raises(redis.exceptions.NoPermissionError),
    ):
        client.execute_command(*command.split())


def test_a_worker_reaches_no_keys_but_its_own(composed: ComposedSystem) -> None:
    with composed.redis() as client:
        client.set("umbel:lock:test", "x", px=1000)
        for key in ("umbel", "other:key", "{other}:umbel.loop"):
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.set(key, "x")
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.publish("other", "x")


def test_flower_cannot_put_a_message_into_a_queue(composed: ComposedSystem) -> None:
    with composed.redis("flower", "flsecret") as client:
        assert client.llen("{umbel}:umbel.loop") == 0
        for command in ("LPUSH", "RPUSH"):
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(command, "{umbel}:umbel.loop", "{}")


def test_passwords_are_kept_as_hashes(composed: ComposedSystem) -> None:
    written = (composed.folder / "valkey" / "users.acl").read_text()
    assert "vksecret" not in written
    assert "flsecret" not in written
    assert written.startswith("user default off\n")
