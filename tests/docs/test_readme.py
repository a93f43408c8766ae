"""What the README shows is run here, line by line."""

import os
import re
import shlex
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Final

import pytest

from providers.demo import DemoServer
from tests.services import Place

ROOT: Final = Path(__file__).parents[2]
README: Final = (ROOT / "README.md").read_text()
BIN: Final = Path(sys.executable).parent
WAIT_SECONDS: Final = 60.0

pytestmark = pytest.mark.slow


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
        ["umbel", "db"],
        ["export", "UMBEL_FLOWER_AUTH=me:secret"],
        ["honcho", "start"],
    ]
    assert len(blocks("python")) == 1


def test_the_first_sixty_lines_tell_the_whole_story() -> None:
    beginning = "\n".join(README.splitlines()[:60])
    for what in ("umbel run", "enqueue(", "flower", "When a worker dies", "──ring──▶"):
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


def test_a_service_enqueues_and_flower_shows_it_as_the_readme_says(
    place: Place, empty_database_url: str, tmp_path: Path
) -> None:
    (tmp_path / "plan-a.md").write_text("Plan A compares well.\n")
    with DemoServer() as demo:
        settings = {
            "UMBEL_DATABASE_URL": empty_database_url,
            "UMBEL_REDIS_URL": place.redis_url,
            "UMBEL_REDIS_PREFIX": place.redis_prefix,
            "UMBEL_MODEL_BASE_URL": demo.base_url,
            "UMBEL_MODEL": "demo",
            "UMBEL_TOOL_CONCURRENCY": "2",
        }
        migrate, export, start = (shlex.split(command) for command in commands()[2:])
        name, _, auth = export[1].partition("=")
        port = free_port()
        settings |= {name: auth, "UMBEL_FLOWER_ADDRESS": f"127.0.0.1:{port}"}
        subprocess.run(
            [BIN / migrate[0], *migrate[1:]], env=environment(settings), check=True, cwd=ROOT
        )
        with running(start, settings):
            snippet = blocks("python")[0].replace("/srv/plans", str(tmp_path))
            done = subprocess.run(
                [sys.executable, "-c", snippet],
                env=environment(settings),
                capture_output=True,
                text=True,
                timeout=WAIT_SECONDS,
            )
            assert done.returncode == 0, done.stderr
            assert done.stdout.startswith("completed I am the demo model")
            assert first_answer(f"http://127.0.0.1:{port}/") == 401, "Flower asks for the password"


def environment(settings: Mapping[str, str]) -> dict[str, str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("UMBEL_", "OPENAI_"))}
    return {**inherited, **settings, "PATH": f"{BIN}:{inherited.get('PATH', '')}"}


@contextmanager
def running(command: list[str], settings: Mapping[str, str]) -> Iterator[None]:
    process = subprocess.Popen(
        [BIN / command[0], *command[1:]],
        env=environment(settings),
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=30)


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
