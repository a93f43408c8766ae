"""A run that kills whoever carries it, in the middle of a gevent worker with twenty others."""

from pathlib import Path
from typing import Final

import pytest

from models.database import Database, Row
from tests.cases.system import Cast
from tests.runs import poison_hook
from tests.runs.conftest import MakeSystem
from tests.runs.scenes import a_case, follow, text
from tests.worker_processes import FAST_CLOCKS, wait_until

pytestmark = pytest.mark.slow

NEIGHBOURS: Final = 20
_LOSSES: Final = """
SELECT run_id, count(*)::int AS losses FROM events WHERE kind = 'run.taken_over' GROUP BY run_id
"""


@pytest.mark.parametrize("has_control_worker", [True, False])
def test_a_poison_run_hurts_its_neighbours_at_most_once(
    make_system: MakeSystem, tmp_path: Path, *, has_control_worker: bool
) -> None:
    environment = {
        **FAST_CLOCKS,
        "UMBEL_FAULTS": "model.in_flight:hook",
        "UMBEL_FAULT_HOOK": "tests.runs.poison_hook:strike",
        "UMBEL_STEP_CONCURRENCY": "40",
        poison_hook.FOLDER: str(tmp_path),
    }
    system = make_system(Cast(environment=environment, steps=0))
    workers, database = system.stage.workers, system.stage.database
    poison = system.enter(a_case("poison", [text()]), ring=False)
    others = [
        system.enter(a_case(f"neighbour-{n}", [text()]), ring=False) for n in range(NEIGHBOURS)
    ]
    (tmp_path / "poison").write_text(f"{poison.run_id} {NEIGHBOURS}")
    victims = [workers.start("step", "gevent", concurrency=40)]
    if has_control_worker:
        workers.start("control", concurrency=2)

    def has_settled() -> bool:
        if victims[-1].has_ended.is_set():
            victims.append(workers.start("step", "gevent", concurrency=40))
        return bool(_rows(database, "SELECT 1 FROM runs WHERE status = 'paused'"))

    wait_until(has_settled, 90, "the poison run is given up")
    for neighbour in others:
        assert follow(system, neighbour).run["status"] == "completed"
    ended = follow(system, poison).run

    assert (ended["status"], ended["reason"]) == ("paused", "lost_worker")
    losses = {row["run_id"]: row["losses"] for row in _rows(database, _LOSSES)}
    assert losses.pop(poison.run_id) == 3
    assert set(losses.values()) == {1}
    strikes = (tmp_path / "strikes").read_text().split()
    assert len(strikes) == 3
    assert len([v for v in victims if v.has_ended.is_set()]) == (1 if has_control_worker else 3)


def _rows(database: Database, sql: str) -> list[Row]:
    [rows] = database.run((sql, {}))
    return rows
