"""What judges the matrix: each of its rules must be able to fail."""

from typing import Any

import pytest

from tests.cases.record import Record
from tests.cases.world import World
from tests.chaos.points_oracle import differences, problems_of
from tests.chaos.points_scene import a_run_with, a_world
from tests.chaos.points_table import Table
from tests.chaos.points_ways import MAIL, SENT, Ends, Hurt, Order

KILLED = Hurt(MAIL, (Order("call.effect_done", "kill"),), Ends())


def a_record(
    status: str = "completed", reason: str | None = None, *, outcome: str = "done", **call: Any
) -> Record:
    """A run of two steps with one change."""
    row = {"state": "returned", "outcome": outcome, "has_receipt": True, "is_late": False, **call}
    attempts = [{"decision": "dispatch"}, {"decision": "answer"}]
    run = {"status": status, "reason": reason}
    return Record(run, attempts, [row], [], [], [], [])


def a_world_with(changes: int = 1, asked: int = 2) -> World:
    """The outside of such a run."""
    world = a_world(a_run_with("send_mail", "judged"))
    world.ledger.executions["send_mail"] = changes
    for _ in range(asked):
        world.model.answer(b'{"messages":[]}', "main")
    return world


def test_a_run_that_went_well_breaks_nothing() -> None:
    assert problems_of(KILLED, a_world_with(), a_record(), taken=1) == []
    assert list(differences(Ends(), a_world_with(), a_record())) == []


@pytest.mark.parametrize(
    ("changes", "asked", "record", "broken"),
    [
        (2, 2, a_record(), "made 2 times"),
        (0, 2, a_record(), "a receipt says done"),
        (1, 2, a_record(outcome="not_done"), "its receipts say"),
        (1, 2, a_record("paused", "unknown_outcome"), "ended as paused"),
        (1, 2, a_record("failed", "corrupt_record"), "ended as failed"),
        (1, 2, a_record(state="unknown", outcome="unknown"), "ended as completed"),
        (1, 4, a_record(), "4 requests for 2 decisions"),
    ],
)
def test_a_broken_rule_is_named(changes: int, asked: int, record: Record, broken: str) -> None:
    problems = problems_of(KILLED, a_world_with(changes, asked), record, taken=1)
    assert any(broken in problem for problem in problems), problems


def test_a_run_that_ended_well_but_otherwise_than_it_must_is_noticed() -> None:
    assert len(list(differences(SENT, a_world_with(changes=0), a_record()))) == 3


def test_a_loss_by_others_excuses_one_request_and_nothing_else() -> None:
    others = list(differences(SENT, a_world_with(changes=0), a_record(), losses=1))
    assert len(others) == 2, "status and work are as exact as ever"
    dearer = Ends(asked=Ends().asked - 1)
    assert len(list(differences(dearer, a_world_with(), a_record()))) == 1
    assert list(differences(dearer, a_world_with(), a_record(), losses=1)) == []


def test_the_table_names_what_was_hit_too_rarely_and_what_was_broken() -> None:
    table = Table(wanted=2)
    table.expect([KILLED])
    table.count(KILLED)
    table.note(KILLED, ["the change was made 2 times"])

    assert table.missed == ["call.effect_done kill: 1 of 2 hits"]
    assert table.violations == ["kill call.effect_done: the change was made 2 times"]
    assert "| point | kill |" in table.text()
    assert "| `call.effect_done` | 1 (1 broken) |" in table.text()
