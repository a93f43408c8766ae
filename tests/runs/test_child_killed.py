"""A pool child is killed at work, with the clocks of a real installation: others go on at once."""

import time
from typing import Final

import pytest

from models.database import Database
from tests.cases.happenings import Event, Occurrence
from tests.cases.record import pids_at_work, read_record
from tests.cases.system import CaseSystem, Cast
from tests.cases.world import World
from tests.runs.conftest import MakeSystem
from tests.runs.drain_scene import slowness
from tests.runs.scenes import a_case, asks, decided, follow, reads, text
from tests.worker_processes import wait_until

pytestmark = pytest.mark.slow

DEFAULT_CLOCKS: Final = {
    "UMBEL_BEAT_SECONDS": "3",
    "UMBEL_DEAD_AFTER_SECONDS": "15",
    "UMBEL_SWEEP_SECONDS": "0.5",
    "UMBEL_RING_AFTER_SECONDS": "5",
}
TARGET_SECONDS: Final = 2.0
"""On an idle machine. Half as much again is let pass, and more on a machine that is slower now."""
_PAST_GRACE: Final = "SELECT 1 WHERE pg_postmaster_start_time() < now() - interval '20.5 seconds'"


@pytest.fixture
def system(make_system: MakeSystem) -> CaseSystem:
    """Prefork workers on a database that has been up for long enough to call anybody dead."""
    made = make_system(Cast(step_pool="prefork", environment=DEFAULT_CLOCKS))
    wait_until(lambda: is_past_grace(made.stage.database), 30, "PostgreSQL is up long enough")
    return made


def test_a_killed_child_costs_its_step_and_its_read_seconds_and_its_change_is_unknown(
    system: CaseSystem,
) -> None:
    killed_at: dict[str, float] = {}

    def kill(world: World, event: Event, occurrence: Occurrence) -> None:
        [pid] = [occurrence.pid] if occurrence.pid else pids_at_work(_database(), world.run_id)
        killed_at[world.run_id] = time.time()
        system.stage.workers.kill(pid)

    def _database() -> Database:
        return system.stage.database

    def enter(title: str, at: str, turns: list[dict[str, object]]) -> World:
        case = a_case(title, turns, events=[{"at": at, "do": "kill"}])
        return system.enter(case, perform=kill)

    longest = TARGET_SECONDS * 1.5 * slowness()
    step = enter("step-child", "during_model:1", [text()])
    read = enter("read-child", "during_tool:c1", [reads("c1"), text()])
    change = enter("change-child", "during_tool:c1", [asks(("c1", "send_mail")), text()])

    ended = follow(system, step)
    assert decided(ended) == [(1, "answer")]
    again = [row["opened_at"].timestamp() for row in ended.model_calls if row["attempt"] == 2]
    assert again[0] - killed_at[step.run_id] < longest

    follow(system, read)
    assert read.ledger.starts == {"read_note": 2}
    started_at = read_record(_database(), read.run_id).calls[0]["started_at"].timestamp()
    assert started_at - killed_at[read.run_id] < longest

    stopped = follow(system, change).run
    assert (stopped["status"], stopped["reason"]) == ("paused", "unknown_outcome")
    assert stopped["settled_at"].timestamp() - killed_at[change.run_id] < longest


def is_past_grace(database: Database) -> bool:
    """Whether PostgreSQL has been up for so long that anybody may be called dead."""
    [rows] = database.run((_PAST_GRACE, {}))
    return bool(rows)
