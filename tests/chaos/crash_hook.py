"""The function behind the fault points in crash tests: carries out an order, once.

An order is a file `POINT@RUN` in the folder named by `CRASH_ORDERS`; `POINT@any` hits the
first run that gets there.
"""

import os
import signal
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from umbel.faults import FaultInjected

ORDERS: Final = "CRASH_ORDERS"
ANY: Final = "any"
_HOLD: Final = "hold"
_HOLD_SECONDS: Final = 30.0


def hold(folder: Path) -> None:
    """Make every worker wait at its next point, until `release`."""
    (folder / _HOLD).touch()


def release(folder: Path) -> None:
    """Let the workers go on: all orders are written."""
    (folder / _HOLD).unlink()


def give_order(folder: Path, point: str, run_id: str, action: str) -> None:
    """Hurt the first process that comes to `point` with this run."""
    (folder / f"{point}@{run_id}").write_text(action)


def carried_out(folder: Path) -> set[str]:
    """The orders that were taken, as `POINT@RUN`."""
    return {path.stem for path in folder.glob("*.taken")}


def crash(point: str, facts: Mapping[str, str]) -> None:
    """Called by the product at every armed point."""
    folder = Path(os.environ[ORDERS])
    deadline, pause = time.monotonic() + _HOLD_SECONDS, threading.Event()
    while (folder / _HOLD).exists() and time.monotonic() < deadline:
        pause.wait(0.02)
    for who in (facts.get("run_id", ANY), ANY):
        order = folder / f"{point}@{who}"
        taken = order.with_name(f"{order.name}.taken")
        try:
            order.rename(taken)  # for one process only, however many come here
        except FileNotFoundError:
            continue
        if taken.read_text() == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise FaultInjected(point)
