"""Where there is a Docker engine: builds the image, starts everything, carries one request."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.deploy.composition import GIVEN, ROOT
from tests.worker_processes import wait_until

PROJECT: Final = "umbel-test"
DEMO: Final = """
from umbel.server_path import bind_server_packages
bind_server_packages()
from providers import demo
stock = demo._QuietServer
demo._QuietServer = lambda address, handler: stock((address[0], 8099), handler)
demo.main()
"""
"""The demo model on a known port, in the step worker's network: loopback is all it serves."""


def is_here(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=30).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        not (is_here("docker", "info") and is_here("docker", "compose", "version")),
        reason="no Docker engine answers here, or it has no `docker compose`",
    ),
]


@pytest.fixture
def compose(tmp_path: Path) -> Iterator[list[str]]:
    """The beginning of a docker compose command for a project of this test's own."""
    variables = GIVEN | {"UMBEL_MODEL": "demo", "UMBEL_MODEL_BASE_URL": "http://127.0.0.1:8099/v1"}
    (tmp_path / "env").write_text("".join(f"{k}={v}\n" for k, v in variables.items()))
    demo = {
        "image": "umbel:0.1.0",
        "command": ["python", "-c", DEMO],
        "network_mode": "service:step",
    }
    (tmp_path / "demo.json").write_text(json.dumps({"services": {"demo": demo}}))
    files = ["--file", str(ROOT / "docker-compose.yml"), "--file", str(tmp_path / "demo.json")]
    command = ["docker", "compose", "--project-name", PROJECT, *files]
    command += ["--project-directory", str(ROOT), "--env-file", str(tmp_path / "env")]
    yield command
    subprocess.run([*command, "down", "--volumes"], check=False, capture_output=True)


def test_the_whole_system_starts_healthy_and_carries_a_request(compose: list[str]) -> None:
    started = subprocess.run(
        [*compose, "up", "--detach", "--build", "--wait"], capture_output=True, text=True
    )
    assert started.returncode == 0, started.stderr

    def umbel(*words: str) -> str:
        command = [*compose, "exec", "-T", "control", "umbel", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    umbel("runs", "create", "Say what a worker is.")
    wait_until(lambda: "completed" in umbel("runs", "list"), 120, "the run completes")
