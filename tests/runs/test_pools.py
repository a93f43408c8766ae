"""The same code carries a run on every Celery pool."""

import pytest

from tests.cases.system import CaseSystem
from tests.runs.scenes import a_case, asks, decided, follow, reads, text
from tests.worker_processes import Pool


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["gevent", "prefork", "threads"])
def test_step_worker_of_each_pool_carries_a_run(calm_system: CaseSystem, pool: Pool) -> None:
    workers = calm_system.stage.workers
    for worker in workers.of_role("step"):
        workers.kill(worker.pid)
    carrier = workers.start("step", pool)
    workers.wait_ready()
    turns = [reads("c1", "c2"), asks(("c3", "send_mail")), text("Sent.")]
    world = calm_system.enter(a_case(f"pool-{pool}", turns))
    record = follow(calm_system, world)

    assert (record.run["status"], record.run["answer"]) == ("completed", "Sent.")
    assert decided(record) == [(1, "dispatch"), (2, "dispatch"), (3, "answer")]
    assert world.ledger.executions == {"read_note": 2, "send_mail": 1}
    query = "SELECT DISTINCT pool FROM workers WHERE role = %(role)s"
    [rows] = calm_system.stage.database.run((query, {"role": carrier.name}))
    assert [row["pool"] for row in rows] == [pool]
