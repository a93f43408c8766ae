"""`umbel up` as a real command: real servers, real workers, all of them killed in turn."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import psutil
import pytest

from models.database import Database
from tests.embedded.observing import eventually, processes_below
from tests.invariants import violations
from tests.worker_processes import FAST_CLOCKS, wait_until
from umbel.cli.running_system import find_running, settings_in_use
from umbel.contracts import RunId, new_id
from umbel.errors import Unavailable
from umbel.service import Service

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SECONDS: Final = 120.0
REQUEST: Final = 'Where does it say "worker dies"?'
FIRST_TO_END: Final = {"beat.1", "beat.2", "flower"}
WORKERS: Final = {"step", "tool", "control"}
SERVERS: Final = {"postgres", "valkey"}
VICTIMS: Final = ("step", "beat.1", "beat.2", "flower", "control", "tool", "valkey", "postgres")
"""PostgreSQL last: nobody is declared dead in its first seconds; that would only be waited for."""

IN_FLIGHT: Final = 3
KILL_SECONDS: Final = 20.0
"""After so many seconds `umbel up` kills what has not ended."""

T = TypeVar("T")


class Running:
    """A started `umbel up --json`, what it told collected."""

    def __init__(self, data: Path, environment: Mapping[str, str]) -> None:
        self.data = data
        self.process = subprocess.Popen(
            [sys.executable, "-m", "umbel.cli", "up", "--json", "--data", str(data)],
            env={**clean_environment(), **environment},
            cwd=data.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.told: list[dict[str, Any]] = []
        self._news = threading.Condition()
        threading.Thread(target=self._collect, daemon=True).start()

    def _collect(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout:
            for line in self.process.stdout:
                fact = json.loads(line) if line.startswith("{") else {"type": "?", "text": line}
                with self._news:
                    self.told.append(fact)
                    self._news.notify_all()

    def of_type(self, kind: str, process: str | None = None) -> list[dict[str, Any]]:
        return [
            fact
            for fact in list(self.told)
            if fact["type"] == kind and process in (None, fact.get("process"))
        ]

    def wait_for(self, kind: str, process: str | None = None, *, times: int = 1) -> dict[str, Any]:
        with self._news:
            seen = self._news.wait_for(lambda: len(self.of_type(kind, process)) >= times, SECONDS)
        assert seen, f"no {kind} of {process} within {SECONDS} s:\n{self.text()}"
        return self.of_type(kind, process)[times - 1]

    def pid(self, name: str) -> int:
        return int(self.of_type("process.started", name)[-1]["pid"])

    def text(self) -> str:
        return "\n".join(json.dumps(fact) for fact in list(self.told)[-80:])


def clean_environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith(("UMBEL_", "OPENAI_"))}


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@contextmanager
def up(
    data: Path, *, model: str, environment: Mapping[str, str] | None = None
) -> Generator[Running]:
    variables = {
        **FAST_CLOCKS,
        # Nobody takes over while PostgreSQL has been up for less than this and 5 s more.
        "UMBEL_DEAD_AFTER_SECONDS": "5",
        "UMBEL_MODEL": model,
        "UMBEL_TOOL_CONCURRENCY": "2",
        "UMBEL_METRICS_ADDRESS": free_address(),
        "UMBEL_FLOWER_ADDRESS": free_address(),
        **(environment or {}),
    }
    running = Running(data, variables)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.process.send_signal(signal.SIGTERM)
            running.process.wait(60)


def order_of_ends(running: Running) -> list[str]:
    """Names of the processes, in the order in which they disappear."""
    left = {name: psutil.Process(running.pid(name)) for name in FIRST_TO_END | WORKERS | SERVERS}
    ended: list[str] = []

    def all_gone() -> bool:
        for name, process in list(left.items()):
            if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
                ended.append(name)
                del left[name]
        return not left

    running.process.send_signal(signal.SIGTERM)
    wait_until(all_gone, 60, "every process has ended")
    return ended


class Runs:
    """Slow runs on a running system; whoever asks repeats while PostgreSQL is away."""

    def __init__(self, service: Service, workspace: Path, ids: Sequence[str] = ()) -> None:
        self.ids = [*ids]
        self._service = service
        self._workspace = str(workspace)

    def enqueue(self) -> None:
        run_id = RunId(new_id("run"))
        self.ids.append(run_id)
        patiently(lambda: self._service.enqueue(REQUEST, workspace=self._workspace, run_id=run_id))

    def statuses(self) -> list[str]:
        return [patiently(partial(self._service.get, run_id)).status for run_id in self.ids]

    def told(self, running: Running) -> str:
        runs = [str(patiently(partial(self._service.get, run_id))) for run_id in self.ids]
        return "\n".join([*runs, running.text()])


def patiently(ask: Callable[[], T]) -> T:
    found: list[T] = []

    def answers() -> bool:
        try:
            found.append(ask())
        except Unavailable:
            return False
        return True

    wait_until(answers, SECONDS, "PostgreSQL answers")
    return found[0]


def kill_each_in_turn(running: Running, runs: Runs) -> None:
    *others, last = VICTIMS
    for name in others:
        kill_one(running, runs, name)
    for name in others:
        running.wait_for("process.ready", name, times=2)
    kill_one(running, runs, last)
    running.wait_for("process.ready", last, times=2)


def kill_one(running: Running, runs: Runs, name: str) -> None:
    runs.enqueue()
    wait_until(lambda: "running" in runs.statuses(), SECONDS, "a run is in flight")
    os.kill(running.pid(name), signal.SIGKILL)
    ended = running.wait_for("process.ended", name)
    assert ended["exit_code"] == -signal.SIGKILL
    assert ended["how"] == "was ended by SIGKILL"
    running.wait_for("process.started", name, times=2)


def test_runs_survive_the_kill_of_every_process_and_everything_ends_in_order_with_its_data_kept(
    folder: Path,
) -> None:
    completed, cut = killed_and_ended(folder)
    assert_nothing_is_left(folder)
    assert not (folder / "data" / "system.json").exists()
    taken_up_and_killed(folder, completed, cut)
    assert find_running(folder / "data") is None


def killed_and_ended(folder: Path) -> tuple[list[str], list[str]]:
    """Kill every process in turn, then end all with runs in flight: completed runs, cut runs."""
    data = folder / "data"
    with up(data, model="demo:slow") as running:
        running.wait_for("system.ready")
        with Service(settings_in_use(data)) as service:
            runs = Runs(service, folder / "work")
            kill_each_in_turn(running, runs)
            done = ["completed"] * len(VICTIMS)
            assert eventually(lambda: runs.statuses() == done, SECONDS), runs.told(running)
            cut = Runs(service, folder / "work")
            for _ in range(IN_FLIGHT):
                cut.enqueue()
            wait_until(lambda: "running" in cut.statuses(), SECONDS, "runs are in flight")
        assert running.process.poll() is None
        ends = order_of_ends(running)
        assert running.process.wait(30) == 128 + signal.SIGTERM
    assert set(ends[:3]) == FIRST_TO_END
    assert set(ends[3:6]) == WORKERS
    assert set(ends[6:]) == SERVERS
    assert running.told[-1]["type"] == "system.stopped"
    assert running.told[-1]["seconds"] < KILL_SECONDS, "everything ended by itself"
    return runs.ids, cut.ids


def taken_up_and_killed(folder: Path, completed: list[str], cut: list[str]) -> None:
    """A second life has the old runs and completes the cut ones; then it is killed itself."""
    data = folder / "data"
    with up(data, model="demo:slow") as again:
        again.wait_for("process.ready", "step")
        with Service(settings_in_use(data)) as service:
            runs = Runs(service, folder / "work", [*completed, *cut])
            done = ["completed"] * len(runs.ids)
            assert runs.statuses()[: len(completed)] == done[: len(completed)]
            assert eventually(lambda: runs.statuses() == done, SECONDS), runs.told(again)
            assert broken_rules(data) == []
            in_flight = service.enqueue(REQUEST, workspace=str(folder / "work"))
            wait_until(lambda: service.get(in_flight).status == "running", SECONDS, "in flight")
        refused = second_up(data)
        assert refused.returncode == 2
        assert f"already: process {again.process.pid}, Flower at" in refused.stderr
        assert refused.stdout == ""
        again.process.kill()
        again.process.wait(10)
        assert eventually(lambda: processes_below(folder) == [], 30), processes_below(folder)


def broken_rules(data: Path) -> list[str]:
    database = Database(settings_in_use(data).database_url or "", role="test", pool_size=1)
    try:
        return violations(database)
    finally:
        database.close()


def second_up(data: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "umbel.cli", "up", "--data", str(data)],
        env={**clean_environment(), "UMBEL_MODEL": "demo"},
        cwd=data.parent,
        capture_output=True,
        text=True,
        timeout=60,
    )


def assert_nothing_is_left(folder: Path) -> None:
    assert processes_below(folder) == []
    assert [path for path in folder.rglob("*") if path.is_socket()] == []
