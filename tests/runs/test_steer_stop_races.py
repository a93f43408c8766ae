"""Steer and stop at every point of a step and a call, in real workers.

Each point once, the command committed while the worker stands there. With UMBEL_RACES=50 each fifty
times, the command sent while the worker goes on.
"""

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Event as Pause
from threading import Thread

import pytest

from tests.cases.happenings import Event, Occurrence
from tests.cases.record import read_record
from tests.cases.run_case import until_settled
from tests.cases.system import CaseSystem, Cast, case_system
from tests.cases.world import World
from tests.invariants import violations
from tests.runs.conftest import MakeSystem
from tests.runs.scenes import a_case, asks, text, write_tools
from tests.services import Services
from tests.worker_processes import PATIENT_CLOCKS, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROUNDS = int(os.environ.get("UMBEL_RACES", "1"))
POINTS = (
    "step.claimed",
    "model.in_flight",
    "model.answered",
    "decide.pre_commit",
    "decide.post_commit",
    "call.pre_intent",
    "call.intent_saved",
    "call.started",
    "call.effect_done",
    "call.receipt_pre",
    "call.receipt_post",
)
LATEST_SECONDS = 0.03
LONG_BEFORE_SECONDS = 30.0
"""Half of the time between two looks; on an idle machine it takes milliseconds."""
_OPENED_LATER = """
SELECT m.step FROM model_calls m JOIN runs r ON r.id = m.run_id
WHERE r.id = %(run_id)s AND m.opened_at > r.stop_at
"""


@dataclass
class Racing:
    """A run, and the command that races with it."""

    world: World
    verb: str
    commands: list[Thread]

    def answer(self) -> str | None:
        """How the command was answered, once it is."""
        for command in self.commands:
            command.join()
        return self.world.happenings.results[0]


@pytest.fixture(scope="module")
def armed_system(
    services: Services, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CaseSystem]:
    faults = {"UMBEL_FAULTS": ",".join(f"{point}:hook" for point in POINTS)}
    cast = Cast(environment={**PATIENT_CLOCKS, **faults})
    tools = write_tools(tmp_path_factory.mktemp("races"))
    with case_system(services, [tools], cast) as system:
        yield system


def entered(system: CaseSystem, point: str, verb: str) -> Racing:
    """A run with a read and a change, and a command at its first arrival at the point."""
    commands: list[Thread] = []
    chance = random.Random()

    def perform(world: World, event: Event, occurrence: Occurrence) -> str | None:
        if ROUNDS == 1:
            return system.stage.perform(world, event, occurrence)

        def later() -> None:
            Pause().wait(chance.uniform(0, LATEST_SECONDS))
            world.happenings.results[0] = system.stage.perform(world, event, occurrence)

        commands.append(Thread(target=later))
        commands[-1].start()
        return None

    event = {"at": f"point:{point}", "do": verb, "by": "owner", "text": "Leave the mails."}
    turns = [asks(("c1", "read_note"), ("c2", "send_mail")), *[text() for _ in range(4)]]
    case = a_case(f"{verb}-{point}", turns, events=[event])
    return Racing(system.enter(case, perform=perform), verb, commands)


@pytest.mark.parametrize("number", range(ROUNDS))
def test_nothing_starts_after_a_stop_and_no_correction_is_lost(
    armed_system: CaseSystem, number: int
) -> None:
    system = armed_system
    racing = [entered(system, point, verb) for point in POINTS for verb in ("stop", "steer")]
    try:
        for race in racing:
            _judge(system, race)
    finally:
        for race in racing:
            race.world.model.is_over.set()
    assert violations(system.stage.database) == []


def _judge(system: CaseSystem, race: Racing) -> None:
    title = race.world.case.title
    until_settled(system, race.world)
    answer = race.answer()
    until_settled(system, race.world)
    record = read_record(system.stage.database, race.world.run_id)
    assert record.run["settled_at"] is not None, f"{title}: {record.run}"
    assert race.world.ledger.executions.get("send_mail", 0) <= 1, title
    assert answer is not None, f"{title}: the command was not given"
    if ROUNDS == 1:
        assert answer == "accepted", title
    states = [steer["state"] for steer in record.steers]
    if race.verb == "steer":
        assert record.run["status"] == "completed", f"{title}: {record.run}"
        assert states == (["applied"] if answer == "accepted" else []), title
    else:
        wanted = "cancelled" if answer == "accepted" else "completed"
        assert record.run["status"] == wanted, f"{title}: {record.run}"
        [later] = system.stage.database.run((_OPENED_LATER, {"run_id": race.world.run_id}))
        assert later == [], f"{title}: the model was asked after the stop"


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
