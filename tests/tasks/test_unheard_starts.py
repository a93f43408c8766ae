"""Code that is ended after its call was started and before it knows of it."""

import pytest

from models.database import Database
from tasks import tool_call
from tests.factories import a_tool
from tests.models.story import call_row, receipt_row, run_row
from tests.tasks.test_tool_call import prepared
from umbel.faults import FaultInjected


@pytest.fixture(autouse=True)
def _ended_between(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(point: str, **_: str) -> None:
        if point == "call.start_committed":
            raise FaultInjected(point)

    monkeypatch.setattr(tool_call, "fault", end)


def test_a_read_that_nobody_knows_was_started_is_ready_at_once(database: Database) -> None:
    process, [call_id] = prepared(database, a_tool("look"))
    with pytest.raises(FaultInjected):
        process.call(call_id)
    assert call_row(database, call_id)["state"] == "ready"


def test_a_change_that_nobody_knows_was_intended_is_unknown_at_once(database: Database) -> None:
    process, [call_id] = prepared(database, a_tool("send", effect="mutation"))
    with pytest.raises(FaultInjected):
        process.call(call_id)
    run = run_row(database, call_row(database, call_id)["run_id"])
    assert receipt_row(database, call_id)["outcome"] == "unknown"
    assert (run["status"], run["reason"]) == ("paused", "unknown_outcome")
