"""The broker is killed with a call running: workers live on, and nothing but time is lost."""

import pytest

from tests.cases.system import Cast
from tests.runs.conftest import MakeSystem
from tests.runs.private_broker import Broker
from tests.runs.scenes import a_case, follow, reads, text
from tests.worker_processes import PATIENT_CLOCKS, Pool, wait_until

pytestmark = pytest.mark.slow


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
