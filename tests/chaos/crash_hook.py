"""The function behind the fault points in crash tests: carries out orders, each once.

An order is a file `POINT@WHO#N` in the folder named by `CRASH_ORDERS`; its text is the action. WHO
is a run, `beat` for a process of that role, or `any` for whoever comes first. N counts from 0; the
next number counts once the one before it is taken.
"""

import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from tasks.drain_reads import ReadInterrupted
from tasks.streaming import StreamGivenUp
from tests.chaos.points_commands import COMMANDS, Command, command
from umbel.errors import ContractMismatch, InvariantBroken
from umbel.faults import FaultInjected

Hurting = Literal["kill", "pause", "raise", "delay", "cut", "break", "change", "refuse", "drain"]
Action = Hurting | Command
"""`pause` asks the outside to stop the whole worker; `cut` ends a read as a drain does, `drain` a
stream; `break` finds a corrupt record, `change` one that contradicts its hash; `refuse` is a broker
that takes no message; a command is given by the run's owner."""

ORDERS: Final = "CRASH_ORDERS"
ANY: Final = "any"
BEAT: Final = "beat"
DELAY_SECONDS: Final = 0.2
_PAUSED: Final = ".paused"
_ERRORS: Final[Mapping[str, Callable[[str], BaseException]]] = {
    "cut": ReadInterrupted,
    "drain": lambda _: StreamGivenUp("drain"),
    "break": InvariantBroken,
    "change": ContractMismatch,
    "refuse": ConnectionError,
}
_LONGEST_PAUSE_SECONDS: Final = 120.0


@dataclass(slots=True)
class Orders:
    """The test's side of the folder."""

    folder: Path
    _given: dict[str, int] = field(default_factory=dict)

    def give(self, point: str, who: str, action: Action, run_id: str) -> str:
        """Hurt the first process that comes to `point` with `who`; the order's name.

        A command is about `run_id`, whoever comes.
        """
        place = f"{point}@{who}"
        number = self._given.get(place, 0)
        self._given[place] = number + 1
        name = f"{place}#{number}"
        unready = self.folder / f"{name}.new"
        unready.write_text(f"{action} {run_id}" if action in COMMANDS else action)
        unready.rename(self.folder / name)
        return name

    def is_taken(self, name: str) -> bool:
        """Whether somebody has carried the order out, or is about to."""
        return (self.folder / f"{name}.taken").exists()

    def answer(self, name: str) -> str | None:
        """How the command of an order was answered, once it is."""
        answer = self.folder / f"{name}.answer"
        return answer.read_text() if answer.exists() else None

    def paused(self) -> list[int]:
        """The processes that wait to be stopped."""
        return [int(path.stem) for path in self.folder.glob(f"*{_PAUSED}")]

    def let_go(self, pid: int) -> None:
        """Let a process that was continued leave its point."""
        (self.folder / f"{pid}{_PAUSED}").unlink(missing_ok=True)


def crash(point: str, facts: Mapping[str, str]) -> None:
    """Called by the product at every armed point."""
    folder = Path(os.environ[ORDERS])
    for who in _names(facts):
        taken = _take(folder, f"{point}@{who}")
        if taken is not None:
            _carry_out(taken, point)
            return


def _names(facts: Mapping[str, str]) -> Iterator[str]:
    if "run_id" in facts:
        yield facts["run_id"]
    if "beat" in sys.argv:
        yield BEAT
    yield ANY


def _take(folder: Path, place: str) -> Path | None:
    """The next order for this place; one process gets it, however many come here."""
    for number in itertools.count():
        order = folder / f"{place}#{number}"
        taken = order.with_name(f"{order.name}.taken")
        if taken.exists():
            continue
        try:
            order.rename(taken)
        except FileNotFoundError:
            if taken.exists():
                continue  # somebody else was faster
            return None
        return taken
    return None


def _carry_out(taken: Path, point: str) -> None:
    folder, action = taken.parent, taken.read_text()
    match action:
        case _ if action.partition(" ")[0] in COMMANDS:
            command(action, taken.with_suffix(".answer"))
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "pause":
            _wait_to_be_stopped(folder / f"{os.getpid()}{_PAUSED}")
        case "delay":
            threading.Event().wait(DELAY_SECONDS)
        case _:
            raise _ERRORS.get(action, FaultInjected)(point)


def _wait_to_be_stopped(mark: Path) -> None:
    mark.touch()
    deadline, pause = time.monotonic() + _LONGEST_PAUSE_SECONDS, threading.Event()
    while mark.exists() and time.monotonic() < deadline:
        pause.wait(0.01)
