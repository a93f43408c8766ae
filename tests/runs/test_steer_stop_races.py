"""Steer and stop at every fault point, in real workers and whatever else comes there.

Each point is raced by one of the commands, given while the process stands there. UMBEL_RACES=1
gives each of them everywhere; UMBEL_RACES=50 fifty times, while the process goes on.
"""

import os
from dataclasses import replace

import pytest

from tests.cases.happenings import Occurrence
from tests.cases.record import read_record
from tests.cases.run_case import until_settled
from tests.cases.system import CaseSystem, Cast
from tests.cases.world import World
from tests.chaos.points_commands import COMMANDS
from tests.chaos.points_matrix import RACES, run_matrix
from tests.chaos.points_ways import Hurt, hurts
from tests.runs.conftest import MakeSystem
from tests.runs.scenes import a_case, text
from tests.services import Services
from tests.worker_processes import PATIENT_CLOCKS, wait_until
from umbel.faults import POINTS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

ROUNDS = int(os.environ.get("UMBEL_RACES", "0"))
LONG_BEFORE_SECONDS = 30.0
"""Half of the time between two looks; on an idle machine it takes milliseconds."""


def is_chosen(hurt: Hurt) -> bool:
    """Without UMBEL_RACES the commands take turns at the points."""
    order = hurt.orders[0]
    number = sorted(POINTS).index(order.point)
    return ROUNDS > 0 or COMMANDS[number % len(COMMANDS)] == order.action


def test_nothing_starts_after_a_stop_and_no_correction_is_lost(services: Services) -> None:
    phase = replace(RACES, is_loose=ROUNDS > 1)
    table = run_matrix(services, repeat=max(ROUNDS, 1), phases=[phase], choose=is_chosen)
    assert not table.violations, "\n".join(table.violations)
    assert not table.missed, table.missed


def test_every_point_is_raced() -> None:
    assert {hurt.orders[0].point for hurt in hurts(COMMANDS) if is_chosen(hurt)} == set(POINTS)


@pytest.mark.parametrize("verb", ["stop", "steer"])
def test_a_wake_up_ends_a_stream_long_before_the_record_is_looked_at(
    make_system: MakeSystem, verb: str
) -> None:
    # Beats, and with them the looks into the record, are a minute apart.
    clocks = {**PATIENT_CLOCKS, "UMBEL_BEAT_SECONDS": "60", "UMBEL_DEAD_AFTER_SECONDS": "300"}
    system = make_system(Cast(environment=clocks))
    stall = {"stall": {"after_chunks": 1, "chunks": ["Let me "]}}
    world = system.enter(a_case(f"woken-{verb}", [stall, text()]))
    try:
        wait_until(lambda: world.model.turns_served == 1, 60, "the model speaks")
        event = {"do": verb, "by": "owner", "text": "In French, please."}
        assert system.stage.perform(world, event, Occurrence()) == "accepted"
        wait_until(lambda: _ended(system, world), 40, "the stream has ended")
        until_settled(system, world)
    finally:
        world.model.is_over.set()
    record = read_record(system.stage.database, world.run_id)
    assert record.run["status"] == ("cancelled" if verb == "stop" else "completed")
    kind = "run.stopping" if verb == "stop" else "run.steered"
    [said] = [event["at"] for event in record.events if event["kind"] == kind]
    assert (record.model_calls[0]["closed_at"] - said).total_seconds() < LONG_BEFORE_SECONDS


def _ended(system: CaseSystem, world: World) -> bool:
    return read_record(system.stage.database, world.run_id).model_calls[0]["closed_at"] is not None
