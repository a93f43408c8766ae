"""Carries one case from its request to the comparison with what it expects."""

import threading
import time
from dataclasses import dataclass
from typing import Final, Literal

from tests.cases.case_file import Case
from tests.cases.expectations import compare
from tests.cases.found import Found
from tests.cases.invariants import broken_invariants
from tests.cases.record import Record, read_record, read_status
from tests.cases.support import unsupported
from tests.cases.system import CaseSystem
from tests.cases.world import World, plain_case

SETTLED: Final = ("completed", "paused", "failed", "cancelled")
DEFAULT_SECONDS: Final = 60.0
QUIET_SECONDS: Final = 0.5
LATE_SECONDS: Final = 2.0
"""How long the world must be quiet after a frozen worker has woken up."""
_LOOK_SECONDS: Final = 0.02
_CALL_POINTS: Final = ("during_tool", "after_effect", "after_tool")

Outcome = Literal["passed", "failed", "unsupported"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a case."""

    case: Case
    outcome: Outcome
    problems: tuple[str, ...] = ()
    """What differs, or why the case cannot be run."""
    seconds: float = 0.0
    log: str = ""
    """What the workers wrote, if the case failed."""


def run_case(system: CaseSystem, case: Case) -> Verdict:
    """Run a case on a system that has its tools."""
    reason = unsupported(case)
    if reason is not None:
        return Verdict(case, "unsupported", (reason,))
    began = time.monotonic()
    try:
        _prepare_takeover(system, case)
        found = _play(system, case)
        problems = [*compare(found), *_missed(found.world, found.record)]
        problems += broken_invariants(system.stage.database, found.world.run_id)
    except Exception as error:  # noqa: BLE001 - one broken case must not end the others
        problems = [f"the harness failed: {error!r}"]
    finally:
        system.stage.workers.continue_all()
    if dead := system.stage.workers.died_unasked():
        problems.append(f"workers ended by themselves: {dead}")
    seconds = time.monotonic() - began
    if problems:
        return Verdict(case, "failed", tuple(problems), seconds, system.stage.workers.log())
    return Verdict(case, "passed", (), seconds)


def _play(system: CaseSystem, case: Case) -> Found:
    world = system.enter(case)
    bystander = None
    if case.expect.get("bystander_completes"):
        bystander = system.enter(plain_case(f"bystander-of-{case.title}"))
    try:
        world.happenings.reach("start")
        statuses = until_settled(system, world)
        status = None
        if bystander is not None:
            status = until_settled(system, bystander)[-1][0]
        _until_quiet(system, world)
    finally:
        world.model.is_over.set()
    record = read_record(system.stage.database, world.run_id)
    return Found(
        world,
        record,
        statuses,
        living_workers=not system.stage.workers.died_unasked(),
        bystander=status,
    )


def _prepare_takeover(system: CaseSystem, case: Case) -> None:
    """A case that freezes a worker needs a second one of its kind."""
    workers = system.stage.workers
    for event in case.events:
        if event["do"] == "freeze":
            role = "tool" if event["at"].partition(":")[0] in _CALL_POINTS else "step"
            known = workers.of_role("tool" if role == "tool" else "step")
            if len(known) < 2:
                workers.start(known[0].role, known[0].pool, concurrency=known[0].concurrency)
    workers.wait_ready()


def until_settled(system: CaseSystem, world: World) -> list[tuple[str, str | None]]:
    """Follow the run, with the events of its statuses, until nothing more is to come of it."""
    limit = float(world.case.expect.get("max_seconds", DEFAULT_SECONDS))
    deadline = time.monotonic() + limit
    seen: list[tuple[str, str | None]] = []
    pause = threading.Event()
    while time.monotonic() < deadline:
        now = read_status(system.stage.database, world.run_id)
        if not seen or seen[-1] != now:
            seen.append(now)
            if world.happenings.reach(f"status:{now[0]}"):
                continue  # an event may have moved it on
        elif now[0] in SETTLED:
            return seen
        pause.wait(_LOOK_SECONDS)
    return seen


def _until_quiet(system: CaseSystem, world: World) -> None:
    """Wake who was frozen, then wait until nobody does anything any more."""
    is_waking = system.stage.workers.has_frozen
    system.stage.workers.continue_all()
    wanted = LATE_SECONDS if is_waking else QUIET_SECONDS
    deadline = time.monotonic() + 30
    pause = threading.Event()
    last, since = _activity(system, world), time.monotonic()
    while time.monotonic() - since < wanted and time.monotonic() < deadline:
        pause.wait(_LOOK_SECONDS)
        now = _activity(system, world)
        if now != last:
            last, since = now, time.monotonic()


def _activity(system: CaseSystem, world: World) -> tuple[int, int, int]:
    query = "SELECT next_seq FROM runs WHERE id = %(run_id)s"
    [rows] = system.stage.database.run((query, {"run_id": world.run_id}))
    return rows[0]["next_seq"], len(world.model.requests), len(world.ledger.order)


def _missed(world: World, record: Record) -> list[str]:
    """Events that did not happen although their moment came: such a case proves nothing."""
    started = {line.partition(":")[2] for line in world.ledger.order}
    missed = []
    for event in world.happenings.unhandled():
        point, _, which = event["at"].partition(":")
        if point in _CALL_POINTS:
            came = which in started
        elif point in ("before_model", "during_model", "after_model"):
            came = world.model.turns_served >= int(which)
        else:
            came = point == "after_delivery" and len(record.deliveries) >= int(which)
        if came:
            missed.append(f"the event {event['do']!r} at {event['at']} did not happen")
    return missed
