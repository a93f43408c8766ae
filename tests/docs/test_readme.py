"""What the README shows is run here, line by line."""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Condition, Event, Thread
from typing import IO, Final

import pytest

ROOT: Final = Path(__file__).parents[2]
README: Final = (ROOT / "README.md").read_text()
BIN: Final = Path(sys.executable).parent
WAIT_SECONDS: Final = 120.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def commands() -> list[str]:
    """Every shown command, without its comment."""
    shown = [line for block in blocks("console") for line in block.splitlines()]
    return [line[2:].split("  #")[0].strip() for line in shown if line.startswith("$ ")]


def test_every_shown_command_is_known_here() -> None:
    assert [shlex.split(command)[:2] for command in commands()] == [
        ["pip", "install"],  # tests/wheel installs it
        ["umbel", "run"],
        ["umbel", "up"],
        ["umbel", "runs"],
        ["umbel", "doctor"],
    ]
    assert len(blocks("python")) == 1


def test_the_first_sixty_lines_tell_the_whole_story() -> None:
    beginning = "\n".join(README.splitlines()[:60])
    for what in ("umbel run", "umbel up", "enqueue(", "Flower", "When a worker dies", "──ring──▶"):
        assert what in beginning


def test_the_shown_run_completes_and_quotes_the_file_that_answers(tmp_path: Path) -> None:
    command = next(command for command in commands() if command.startswith("umbel run"))
    done = subprocess.run(
        [str(BIN / "umbel"), *shlex.split(command)[1:], "--model", "demo"],
        cwd=ROOT,
        env=environment({}),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "architecture.md" in done.stdout


def test_the_system_is_started_used_and_examined_as_the_readme_says(state: Path) -> None:
    (state / "plan-a.md").write_text("Plan A compares well.\n")
    up, create, doctor = (shlex.split(command) for command in commands()[2:])
    flower, metrics = (f"127.0.0.1:{free_port()}" for _ in range(2))
    settings = {
        "XDG_STATE_HOME": str(state),
        "UMBEL_MODEL": "demo",
        "UMBEL_TOOL_CONCURRENCY": "2",
        "UMBEL_FLOWER_ADDRESS": flower,
        "UMBEL_METRICS_ADDRESS": metrics,
    }
    with running(up, settings) as told:
        told.wait_for("ready: all")
        created = run(create, settings)
        assert created.returncode == 0, created.stdout + created.stderr
        assert "architecture.md" in created.stdout
        examined = run(doctor, settings)
        assert examined.returncode == 0, examined.stdout
        exported = dict(
            word.split("=", 1)
            for line in told.lines
            if "export UMBEL_" in line
            for word in shlex.split(line.split("export", 1)[1])
        )
        snippet = blocks("python")[0].replace("/srv/plans", str(state))
        done = run([sys.executable, "-c", snippet], settings | exported)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("completed I am the demo model")
        assert first_answer(f"http://{flower}/") == 401, "Flower asks for the password"
        [address] = [line for line in told.lines if "Flower    http" in line]
        password = address.rpartition("password ")[2].strip()
        page = urllib.request.Request(f"http://{flower}/api/tasks")
        page.add_header(
            "Authorization", f"Basic {b64encode(f'umbel:{password}'.encode()).decode()}"
        )
        with urllib.request.urlopen(page, timeout=WAIT_SECONDS) as answer:
            assert "umbel.loop.step" in answer.read().decode()


@pytest.fixture
def state() -> Iterator[Path]:
    """A folder that the account of the servers can reach."""
    path = Path(tempfile.mkdtemp(prefix="umbelreadme-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


class Told:
    """What a running command says, as it says it."""

    def __init__(self, output: IO[str]) -> None:
        self.lines: list[str] = []
        self._news = Condition()
        Thread(target=self._collect, args=(output,), daemon=True).start()

    def wait_for(self, words: str) -> None:
        with self._news:
            found = self._news.wait_for(lambda: any(words in x for x in self.lines), WAIT_SECONDS)
        assert found, f"{words!r} was not said:\n" + "".join(self.lines)

    def _collect(self, output: IO[str]) -> None:
        for line in output:
            with self._news:
                self.lines.append(line)
                self._news.notify_all()


def run(command: list[str], settings: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(BIN / command[0]), *command[1:]],
        cwd=ROOT,
        env=environment(settings),
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
    )


def environment(settings: Mapping[str, str]) -> dict[str, str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("UMBEL_", "OPENAI_"))}
    return {**inherited, **settings, "PATH": f"{BIN}:{inherited.get('PATH', '')}"}


@contextmanager
def running(command: list[str], settings: Mapping[str, str]) -> Iterator[Told]:
    process = subprocess.Popen(
        [BIN / command[0], *command[1:]],
        env=environment(settings),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield Told(process.stdout)
    finally:
        process.terminate()
        process.wait(timeout=60)
        process.stdout.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def first_answer(address: str) -> int | None:
    """The status of the first answer; None if there is none in time."""
    end = time.monotonic() + WAIT_SECONDS
    while (status := answered(address)) is None and time.monotonic() < end:
        Event().wait(0.2)
    return status


def answered(address: str) -> int | None:
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    except OSError:
        return None
