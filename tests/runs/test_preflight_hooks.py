"""Scenario 16: an operator's check that denies, asks or breaks, in real workers."""

import pytest

from tests.cases.happenings import Occurrence
from tests.cases.system import Cast
from tests.invariants import violations
from tests.runs.conftest import MakeSystem
from tests.runs.scenes import a_case, asks, decided, follow, text
from tests.worker_processes import PATIENT_CLOCKS, wait_until

pytestmark = pytest.mark.slow


def test_a_check_that_denies_or_breaks_lets_nothing_start_that_it_was_asked_about(
    make_system: MakeSystem,
) -> None:
    hook = {"UMBEL_PREFLIGHT": "tests.runs.preflight_hooks:by_id"}
    system = make_system(Cast(environment={**PATIENT_CLOCKS, **hook}))
    mails = asks(*((i, "send_mail") for i in ("denied", "raises", "free")))
    record = follow(system, world := system.enter(a_case("checked", [mails, text()])))
    assert decided(record) == [(1, "dispatch"), (2, "answer")]
    assert [call["state"] for call in record.calls] == ["refused", "refused", "returned"]
    denied, broken, _ = [str(call["body"]) for call in record.calls]
    assert "at_night" in denied
    assert "the check is broken" in broken
    assert world.ledger.starts == {"send_mail": 1}

    world = system.enter(a_case("asked", [asks(("asked", "send_mail")), text()]))
    find = "SELECT status, reason FROM runs WHERE id = %(id)s"

    def waits() -> bool:
        [[run]] = system.stage.database.run((find, {"id": world.run_id}))
        return (run["status"], run["reason"]) == ("waiting", "approval_required")

    wait_until(waits, 60, "its owner is asked, in full access too")
    assert world.ledger.starts == {}
    event = {"do": "stop", "by": "owner"}
    assert system.stage.perform(world, event, Occurrence()) == "accepted"
    record = follow(system, world)
    assert [call["state"] for call in record.calls] == ["skipped"]
    assert violations(system.stage.database) == []
