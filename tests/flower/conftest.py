"""One run full of secrets on real workers, with a real Flower and an ear on all events."""

import contextlib
import os
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
import redis
from celery import Celery
from sqlalchemy import make_url

from tests.broker import publisher
from tests.cases.case_file import Case
from tests.cases.system import CaseSystem, Cast, case_system
from tests.cases.world import World
from tests.flower import leaking
from tests.runs.scenes import USAGE, a_case, follow, text, write_tools
from tests.services import Databases, Place, RedisKeys, Services
from tests.worker_processes import PATIENT_CLOCKS, wait_until
from umbel.embedded import embedded_servers
from umbel.server_processes import ProcessSpec, ServerProcesses

WORDS: Final = (
    *("prompt", "said", "argument", "result", "tool_error", "provider_error", "answer"),
    *("body_error", "api_key", "database", "redis", "flower"),
)
SECRETS: Final = {word: f"xq-{word.replace('_', '-')}-7d41c9" for word in WORDS}
"""Planted where they may be written, and looked for everywhere else."""
AUTH: Final = ("ann", SECRETS["flower"])


@dataclass(frozen=True, slots=True)
class Watched:
    """A system after its runs, as Flower and the event stream tell of it."""

    system: CaseSystem
    place: Place
    answered: World
    """The run that came to an answer, after errors of several kinds."""
    broken: World
    """The run whose record was said to be corrupt."""
    flower: httpx2.Client
    flower_pid: int
    flower_lines: list[str]
    events: list[dict[str, Any]]
    app: Celery
    """Somebody else's application at the same broker."""

    def tasks(self) -> dict[str, dict[str, Any]]:
        """What Flower's API tells of every task, by Celery id."""
        told: dict[str, dict[str, Any]] = self.flower.get("/api/tasks").json()
        return told

    def tasks_of(self, world: World) -> dict[str, dict[str, Any]]:
        """The steps of one run."""
        return {key: task for key, task in self.tasks().items() if key.startswith(world.run_id)}


@pytest.fixture(scope="module")
def watched(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """Both runs are over, and Flower has heard of it."""
    with contextlib.ExitStack() as stack:
        closed = stack.enter_context(_with_passwords(services))
        tools = write_tools(tmp_path_factory.mktemp("tools"))
        cast = Cast(environment=_secrets_of_workers(tmp_path_factory.mktemp("seen")))
        system = stack.enter_context(case_system(closed, [tools], cast))
        place = Place("", closed.redis_url, system.stage.redis_prefix)
        app = publisher(place)
        stack.callback(app.close)
        events = stack.enter_context(_all_events(app))
        lines: list[str] = []
        processes = stack.enter_context(
            ServerProcesses(on_line=lambda _name, line: lines.append(line))
        )
        spec = flower_spec(place, tmp_path_factory.mktemp("elsewhere"))
        pid = processes.start(spec)
        flower = stack.enter_context(client_of(spec))
        wait_until(lambda: is_there(flower), 60, "Flower answers")
        answered = system.enter(_secretive_case())
        follow(system, answered)
        broken = system.enter(a_case("broken", [text()]))
        follow(system, broken)
        seen = Watched(system, place, answered, broken, flower, pid, lines, events, app)
        wait_until(lambda: _has_heard(seen), 30, "Flower has heard of the end of both")
        yield seen


def flower_spec(place: Place, folder: Path, **more: str) -> ProcessSpec:
    """`umbel flower` in a folder of traps, with neither the model's key nor the database."""
    for trap in ("flowerconfig.py", "redis.py", "tasks.py"):
        (folder / trap).write_text("raise SystemExit('not to be imported')")
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONUNBUFFERED": "1",
        "UMBEL_REDIS_URL": place.redis_url,
        "UMBEL_REDIS_PREFIX": place.redis_prefix,
        "UMBEL_FLOWER_ADDRESS": f"127.0.0.1:{_unused_port()}",
        "UMBEL_FLOWER_AUTH": ":".join(AUTH),
        **more,
    }
    argv = (sys.executable, "-P", "-m", "umbel.cli", "flower")
    return ProcessSpec("flower", argv, environment, cwd=folder)


def client_of(spec: ProcessSpec) -> httpx2.Client:
    """Somebody who knows the password."""
    port = spec.env["UMBEL_FLOWER_ADDRESS"].rpartition(":")[2]
    return httpx2.Client(
        base_url=f"http://127.0.0.1:{port}", auth=AUTH, trust_env=False, timeout=20
    )


def is_there(flower: httpx2.Client) -> bool:
    """Whether it answers."""
    try:
        return flower.get("/healthcheck").status_code == 200
    except httpx2.TransportError:
        return False


def _secretive_case() -> Case:
    """A provider's error, two reads of which one fails, an answer; every text holds a secret."""
    calls = [
        {"id": name, "name": "read_note", "arguments": {"id": f"{name} {SECRETS['argument']}"}}
        for name in ("good", "bad")
    ]
    turns: list[dict[str, Any]] = [
        {"error": {"status": 503, "code": "busy", "message": SECRETS["provider_error"]}},
        {"text": SECRETS["said"], "tool_calls": calls, "usage": USAGE},
        text(SECRETS["answer"]),
    ]
    behaviour = {
        "by_call": {
            "good": {"result": {"note": SECRETS["result"]}},
            "bad": {"raise": {"type": "ValueError", "message": SECRETS["tool_error"]}},
        }
    }
    return a_case("secretive", turns, behaviour=behaviour, input=f"Find {SECRETS['prompt']}.")


def _secrets_of_workers(seen: Path) -> dict[str, str]:
    return {
        **PATIENT_CLOCKS,
        "UMBEL_API_KEY": SECRETS["api_key"],
        "UMBEL_FAULTS": f"{leaking.POINT}:hook",
        "UMBEL_FAULT_HOOK": "tests.flower.leaking:raise_once",
        leaking.SEEN: str(seen),
        leaking.WORD: SECRETS["body_error"],
    }


@contextlib.contextmanager
def _with_passwords(services: Services) -> Iterator[Services]:
    """The same PostgreSQL and a Valkey of our own, both addressed with a password."""
    server = make_url(services.databases.server_url).set(password=SECRETS["database"])
    databases = Databases(
        server.render_as_string(hide_password=False), f"umbel_flower_{os.getpid()}"
    )
    with embedded_servers(database=False) as embedded:
        with redis.Redis.from_url(embedded.redis_url) as client:
            client.config_set("requirepass", SECRETS["redis"])
        url = embedded.redis_url.replace("unix://", f"unix://:{SECRETS['redis']}@")
        try:
            yield Services(databases, RedisKeys(url, is_ours=True))
        finally:
            databases.close()


@contextlib.contextmanager
def _all_events(app: Celery) -> Iterator[list[dict[str, Any]]]:
    """Every event that anybody at the broker can read during the block."""
    heard: list[dict[str, Any]] = []
    with app.connection_for_read() as connection:
        receiver = app.events.Receiver(connection, handlers={"*": heard.append})
        ear = threading.Thread(target=lambda: receiver.capture(wakeup=False))
        ear.start()
        try:
            yield heard
        finally:
            receiver.should_stop = True
            ear.join()


def _has_heard(watched: Watched) -> bool:
    ended = watched.tasks_of(watched.answered).values()
    failed = watched.tasks_of(watched.broken).values()
    return any("answer" in str(task["result"]) for task in ended) and any(
        task["state"] == "FAILURE" for task in failed
    )


def _unused_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return int(unused.getsockname()[1])
