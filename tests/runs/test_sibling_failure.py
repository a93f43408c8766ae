"""Scenario 17: one of four calls that share a slot loses its connection, or its process."""

from typing import Final

import pytest

from tests.cases.happenings import Event, Occurrence
from tests.cases.system import CaseSystem, Cast
from tests.cases.world import World
from tests.invariants import violations
from tests.runs.conftest import MakeSystem
from tests.runs.scenes import a_case, asks, decided, follow, text
from tests.worker_processes import FAST_CLOCKS

pytestmark = pytest.mark.slow

FOUR: Final = asks(
    ("c1", "read_note"), ("c2", "send_mail"), ("c3", "read_note"), ("c4", "read_note")
)
_CUT: Final = """
SELECT count(pg_terminate_backend(pid)) AS cut FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'umbel-tool%%'
"""


@pytest.fixture
def system(make_system: MakeSystem) -> CaseSystem:
    """A tool worker with one slot."""
    made = make_system(Cast(tools=0, environment=FAST_CLOCKS))
    made.stage.workers.start("tool", "prefork", concurrency=1)
    made.stage.workers.wait_ready()
    return made


def test_a_call_that_loses_its_connection_or_process_leaves_its_siblings_whole(
    system: CaseSystem,
) -> None:
    cut: list[int] = []

    def lose_connection(*_: World | Event | Occurrence) -> None:
        [rows] = system.stage.database.run((_CUT, {}))
        cut.append(rows[0]["cut"])

    events = [{"at": "during_tool:c2", "do": "cut"}]
    world = system.enter(a_case("cut", [FOUR, text()], events=events), perform=lose_connection)
    record = follow(system, world)
    assert cut[0] > 0
    assert decided(record) == [(1, "dispatch"), (2, "answer")]
    assert [call["state"] for call in record.calls] == ["returned"] * 4
    assert [call["body"] for call in record.calls] == ['"ok"'] * 4
    assert record.calls[1]["outcome"] == "done"
    assert world.ledger.executions == world.ledger.starts == {"read_note": 3, "send_mail": 1}

    events = [{"at": "during_tool:c2", "do": "kill"}]
    world = system.enter(a_case("killed", [FOUR, text()], events=events))
    record = follow(system, world)
    assert (record.run["status"], record.run["reason"]) == ("paused", "unknown_outcome")
    assert decided(record) == [(1, "dispatch")]
    assert len(world.model.requests) == 1
    first, change, *others = [call["state"] for call in record.calls]
    assert (first, change) == ("returned", "unknown")
    # Until the loss is found the next child may start them; after it nobody does.
    assert set(others) <= {"returned", "skipped"}
    assert world.ledger.starts["send_mail"] == 1
    assert violations(system.stage.database) == []
