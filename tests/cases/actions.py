"""What an event of a case does to the running system."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from models.calls import load_call
from models.database import Database
from tasks.ringing import Ringer
from tests.cases.commands import COMMANDS, Desk
from tests.cases.happenings import Event, Occurrence
from tests.cases.record import pids_at_work
from tests.cases.world import World
from tests.services import RedisKeys
from tests.worker_processes import WorkerProcesses
from umbel.contracts import CallId, RunId


@dataclass(frozen=True, slots=True)
class Stage:
    """The running system that events act upon."""

    database: Database
    workers: WorkerProcesses
    keys: RedisKeys
    redis_prefix: str
    ringer: Ringer
    """Publishes to the workers' queues, as the product itself does."""
    desk: Desk
    """Where people give their commands."""

    def perform(self, world: World, event: Event, occurrence: Occurrence) -> str | None:
        """Do one event; the result is what a command was answered, None for anything else."""
        return ACTIONS[event["do"]](self, world, event, occurrence)


Action = Callable[[Stage, World, Event, Occurrence], str | None]


def _kill(stage: Stage, world: World, _: Event, occurrence: Occurrence) -> None:
    for pid in _doers(stage, world, occurrence):
        stage.workers.kill_and_replace(pid)


def _freeze(stage: Stage, world: World, _: Event, occurrence: Occurrence) -> None:
    for pid in _doers(stage, world, occurrence):
        stage.workers.freeze(pid)


def _redeliver(stage: Stage, world: World, event: Event, occurrence: Occurrence) -> None:
    if event.get("message", "step") == "tool":
        known = {case_id: call_id for call_id, case_id in world.call_ids.items()}
        named = occurrence.facts.get("call_id") or known.get(event.get("call", ""))
        for call_id in [named] if named else list(world.call_ids):
            call = load_call(stage.database, CallId(call_id))
            assert call is not None, call_id
            stage.ringer.ring_call(call.call_id, call.tool)
        return
    [rows] = stage.database.run(
        ("SELECT step FROM runs WHERE id = %(run_id)s", {"run_id": world.run_id})
    )
    step = int(occurrence.facts.get("step") or rows[0]["step"])
    stage.ringer.ring_step(RunId(world.run_id), step)


def _broker_flush(stage: Stage, *_: object) -> None:
    stage.keys.wipe(stage.redis_prefix)


def _restart_beat(stage: Stage, *_: object) -> None:
    for beat in stage.workers.of_role("beat"):
        stage.workers.kill_and_replace(beat.pid)


def _doers(stage: Stage, world: World, occurrence: Occurrence) -> list[int]:
    """The process the event is about; without one, whoever works on the run; else every worker."""
    if occurrence.pid is not None:
        return [occurrence.pid]
    working = pids_at_work(stage.database, world.run_id)
    return working or [w.pid for w in stage.workers.workers if not w.has_ended.is_set()]


def _command(stage: Stage, world: World, event: Event, _: Occurrence) -> str:
    return stage.desk.command(world, event)


ACTIONS: Final[dict[str, Action]] = {
    **dict.fromkeys(COMMANDS, _command),
    "kill": _kill,
    "freeze": _freeze,
    "redeliver": _redeliver,
    "broker_flush": _broker_flush,
    "restart_beat": _restart_beat,
}
"""Events this version of the product can be put through; the others need later commands."""
