"""One run kills every process that carries it, once enough neighbours are in the same process."""

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

FOLDER: Final = "POISON_FOLDER"
_PATIENCE_SECONDS: Final = 30.0


def strike(_point: str, facts: Mapping[str, str]) -> None:
    """Called in the worker when a step's request is about to be sent."""
    folder, run_id = Path(os.environ[FOLDER]), facts["run_id"]
    poison, neighbours = (folder / "poison").read_text().split()
    if run_id != poison:
        (folder / f"at-{run_id}").touch()
        _wait_for(lambda: (folder / "struck").exists())
        return
    _wait_for(lambda: len(list(folder.glob("at-*"))) >= int(neighbours))
    (folder / "struck").touch()
    with (folder / "strikes").open("a") as strikes:
        strikes.write(f"{os.getpid()}\n")
    os.kill(os.getpid(), signal.SIGKILL)


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline, pause = time.monotonic() + _PATIENCE_SECONDS, threading.Event()
    while not condition() and time.monotonic() < deadline:
        pause.wait(0.02)
