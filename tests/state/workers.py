"""What the two processes do: whatever their memory says comes next."""

from collections.abc import Iterator

from tests.state.call_moves import carry_call, hear_call
from tests.state.moves import Move
from tests.state.record import Worker
from tests.state.step_moves import (
    decide_step,
    give_up_stream,
    hear_step,
    leave_step,
    release_step,
)
from tests.state.system import Scenario, System
from tests.state.world import IDLE, Moment


def work_moves(moment: Moment, scenario: Scenario, system: System) -> Iterator[Move]:
    """Everything that workers may do now."""
    for slot in (0, 1):
        mind = moment.minds[slot]
        match mind.at:
            case "idle":
                if not (slot == 1 and moment.minds[0] == IDLE):  # one of two idle ones is enough
                    yield from _hear(moment, slot, system)
            case "claimed" | "unheard" | "saved":
                yield from decide_step(moment, slot, scenario, system)
                yield from give_up_stream(moment, slot, system)
            case "stale" | "unapplied" | "back":
                yield from leave_step(moment, slot, system)
            case "unsure" if mind.claim is not None:
                yield from release_step(moment, slot, system)
            case "ringing":
                yield from _ring(moment, slot)
            case _:
                yield from carry_call(moment, slot, system)


def _hear(moment: Moment, slot: Worker, system: System) -> Iterator[Move]:
    for message in dict.fromkeys(moment.mail):
        mail = list(moment.mail)
        mail.remove(message)
        heard = moment._replace(mail=tuple(mail))
        if message[1] == 0:
            yield from hear_step(heard, slot, message[0], system)
        else:
            yield from hear_call(heard, slot, message, system)


def _ring(moment: Moment, slot: Worker) -> Iterator[Move]:
    bells = moment.minds[slot].bells
    after = moment.with_mail(*bells)
    if after.lock == slot:
        after = after._replace(lock=None)
    yield Move(f"leaves and rings for {list(bells)}", slot, after.thinking(slot, IDLE))
