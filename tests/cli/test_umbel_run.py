"""`umbel run` as a person starts it: a real command, real servers, real worker processes."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Final, Self

import psutil
import pytest

from tests.services import Place

REQUEST: Final = 'Where does it say "worker dies"?'
FIRST_LINE_SECONDS: Final = 10.0
"""Generous: the target of 1.5 s is for a machine that does nothing else."""
EVERYTHING_SECONDS: Final = 120.0


@dataclass(slots=True)
class Running:
    """A started `umbel run`, its output collected by line."""

    process: "subprocess.Popen[str]"
    lines: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    news: threading.Condition = field(default_factory=threading.Condition)

    @classmethod
    def start(cls, *options: str, environment: Mapping[str, str], folder: Path) -> Self:
        process = subprocess.Popen(
            [sys.executable, "-m", "umbel.cli", "run", REQUEST, "--model", "demo", *options],
            env={**clean_environment(), "TMPDIR": str(folder / "tmp"), **environment},
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        running = cls(process)
        threading.Thread(target=running.collect, daemon=True).start()
        return running

    def collect(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout:
            for line in self.process.stdout:
                with self.news:
                    self.lines.append(line.rstrip("\n"))
                    self.news.notify_all()

    def wait_for(self, words: str, seconds: float = EVERYTHING_SECONDS) -> float:
        """Seconds from the start until a line held these words."""
        with self.news:
            seen = self.news.wait_for(lambda: any(words in x for x in self.lines), seconds)
        assert seen, f"no {words!r} within {seconds} s:\n{self.text()}"
        return time.monotonic() - self.began

    def end(self) -> int:
        return self.process.wait(EVERYTHING_SECONDS)

    def descendants(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def text(self) -> str:
        return "\n".join(self.lines)


def clean_environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith(("UMBEL_", "OPENAI_"))}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A workspace with one file, outside pytest's own folders: those are closed to other users."""
    with tempfile.TemporaryDirectory(prefix="umbeltest-") as name:
        path = Path(name)
        path.chmod(0o755)
        (path / "tmp").mkdir(mode=0o777)
        (path / "work").mkdir()
        (path / "work" / "guide.md").write_text("When a worker dies, another one goes on.\n")
        yield path


@pytest.fixture
def own_servers(place: Place) -> dict[str, str]:
    return {
        "UMBEL_DATABASE_URL": place.database_url,
        "UMBEL_REDIS_URL": place.redis_url,
        "UMBEL_REDIS_PREFIX": place.redis_prefix,
        "UMBEL_TOOL_CONCURRENCY": "2",
    }


@contextmanager
def running(*options: str, environment: Mapping[str, str], folder: Path) -> Generator[Running]:
    command = Running.start(*options, environment=environment, folder=folder)
    try:
        yield command
    finally:
        if command.process.poll() is None:
            command.process.send_signal(signal.SIGTERM)
            command.process.wait(30)


@pytest.mark.slow
def test_on_nothing_but_the_package_a_request_is_answered_and_nothing_stays(folder: Path) -> None:
    with running("--workspace", "work", environment={}, folder=folder) as command:
        assert command.wait_for("request") < FIRST_LINE_SECONDS
        command.wait_for("accepted for agent 'default'")
        command.wait_for("step 1     asks the model")
        processes = command.descendants()
        assert command.end() == 0, command.text()
    text = command.text()
    assert "\x1b" not in text
    assert "demo, a script and no AI" in text
    assert 'search_files {"query":"worker dies"}' in text
    assert "When a worker dies, another one goes on." in text
    assert "completed" in text
    assert len(processes) > 3
    assert not [process for process in processes if process.is_running()]
    # What stays are empty lock files, by which a worker proves that its predecessor is dead.
    stays = [p.name for p in (folder / "tmp").iterdir() if not p.name.startswith("umbel-locks-")]
    assert stays == []


@pytest.mark.slow
def test_on_own_servers_json_tells_every_step_and_the_run_can_be_read_later(
    folder: Path, own_servers: dict[str, str]
) -> None:
    with running(
        "--workspace", "work", "--json", environment=own_servers, folder=folder
    ) as command:
        assert command.end() == 0, command.text()
    told = [json.loads(line) for line in command.lines]
    types = [line["type"] for line in told]
    assert types.index("run.accepted") < types.index("step.started")
    assert types.index("model.text") < types.index("step.decided")
    assert types.index("step.decided") < types.index("call.asked") < types.index("call.settled")
    assert types[-2:] == ["run.settled", "progress"]
    settled, stopping = told[-2:]
    assert (stopping["topic"], stopping["text"]) == ("stopping", "workers")
    assert settled["status"] == "completed"
    assert "When a worker dies" in settled["answer"]
    assert settled["spending"]["input_tokens"] > 0
    assert settled["spending"]["cost_usd"] is None
    later = umbel("runs", "get", settled["run_id"], environment=own_servers, folder=folder)
    assert later.returncode == 0, later.stderr
    assert settled["answer"] in later.stdout


@pytest.mark.slow
def test_kept_data_can_be_read_after_the_servers_are_gone(folder: Path) -> None:
    kept = {"XDG_STATE_HOME": str(folder / "tmp")}
    with running(
        "--workspace", "work", "--keep", "--json", environment=kept, folder=folder
    ) as command:
        assert command.end() == 0, command.text()
    [settled] = [x for x in map(json.loads, command.lines) if x["type"] == "run.settled"]
    look = settled["look"].split()
    assert look[:3] == ["umbel", "runs", "get"]
    directory = Path(look[-1])
    shown = umbel(*look[1:], environment={}, folder=folder)
    assert shown.returncode == 0, shown.stderr
    assert "When a worker dies" in shown.stdout
    assert directory.is_relative_to(folder)
    assert directory.stat().st_mode & 0o777 == 0o700


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "sigterm"]
)
def test_an_interrupt_ends_everything_and_says_so(
    folder: Path, number: signal.Signals, code: int
) -> None:
    # A model that never gets to its answer: the run cannot be over before the signal is heard.
    silent = ("--workspace", "work", "--model", "demo:silence")
    with running(*silent, environment={}, folder=folder) as command:
        command.wait_for("workers")
        processes = command.descendants()
        command.process.send_signal(number)
        assert command.end() == code
    assert "stopping   workers and servers" in command.text()
    assert "interrupted" in command.text()
    assert "is not finished" in command.text()
    assert "Traceback" not in command.text()
    assert not [process for process in processes if process.is_running()]


@pytest.mark.slow
def test_a_worker_that_dies_is_said_with_its_last_words(
    folder: Path, own_servers: dict[str, str]
) -> None:
    with running("--workspace", "work", environment=own_servers, folder=folder) as command:
        command.wait_for("workers")
        beat = next(p for p in command.descendants() if "beat" in p.cmdline())
        beat.kill()
        assert command.end() == 3
    assert "The beat process was ended by signal 9." in command.text()
    assert "is not finished; umbel runs get run_" in command.text()


@pytest.mark.slow
def test_a_key_that_is_refused_pauses_the_run_with_what_to_do(
    folder: Path, own_servers: dict[str, str]
) -> None:
    with refusing_endpoint() as url:
        environment = {
            **own_servers,
            "UMBEL_MODEL_BASE_URL": url,
            "OPENAI_API_KEY": "sk-wrong-0123456789",
        }
        with running(
            "--workspace", "work", "--model", "m", environment=environment, folder=folder
        ) as command:
            assert command.end() == 1, command.text()
    text = command.text()
    assert "paused     credentials" in text
    assert "OPENAI_API_KEY or UMBEL_API_KEY" in text
    assert "sk-wrong-0123456789" not in text
    assert f"m at {url}" in text


def test_an_outdated_database_is_refused_before_anything_is_accepted(
    folder: Path, own_servers: dict[str, str], empty_database_url: str
) -> None:
    environment = {**own_servers, "UMBEL_DATABASE_URL": empty_database_url}
    with running("--workspace", "work", environment=environment, folder=folder) as command:
        assert command.end() == 2
    assert "Run `umbel db migrate`." in command.text()


def test_a_redis_that_is_away_is_said_at_once(folder: Path, own_servers: dict[str, str]) -> None:
    environment = {**own_servers, "UMBEL_REDIS_URL": "redis://:hunter2@127.0.0.1:1/0"}
    with running("--workspace", "work", environment=environment, folder=folder) as command:
        assert command.end() == 3
    assert "Redis at redis://:***@127.0.0.1:1/0 does not answer" in command.text()


def test_a_workspace_that_is_not_there_is_a_usage_error(folder: Path) -> None:
    with running("--workspace", "nowhere", environment={}, folder=folder) as command:
        assert command.end() == 2
    assert "The workspace 'nowhere' is not a folder" in command.text()


def umbel(
    *arguments: str, environment: Mapping[str, str], folder: Path
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "umbel.cli", *arguments],
        env={**clean_environment(), **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=EVERYTHING_SECONDS,
        check=False,
    )


class _Refusing(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.dumps({"error": {"message": "Incorrect API key", "type": "auth"}}).encode()
        self.send_response(401)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def refusing_endpoint() -> Generator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Refusing)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
