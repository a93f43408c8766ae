"""Waits for a server by trying to use it, and tells why it did not start when it did not."""

import contextlib
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from umbel.errors import Unavailable

_ATTEMPT_EVERY_SECONDS: Final = 0.01
_LAST_LINES: Final = 5


def await_ready(
    process: "subprocess.Popen[bytes]", probe: Callable[[], bool], log: Path, seconds: float
) -> None:
    """Return when `probe` has succeeded.

    Raises:
        Unavailable: the server ended, or the time is over; with the end of its log.
    """
    deadline = time.monotonic() + seconds
    while not probe():
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_ATTEMPT_EVERY_SECONDS)
        if process.returncode is not None:
            raise Unavailable(
                f"{log.stem!r} ended with code {process.returncode} while starting.{log_end(log)}"
            )
        if time.monotonic() >= deadline:
            raise Unavailable(f"{log.stem!r} did not answer in {seconds:.0f} s.{log_end(log)}")


def log_end(log: Path) -> str:
    """Where the whole log is, and its last lines, as the end of an error message."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:]
    return "\n".join([f" Read the log {str(log)!r}; it ends with:", *lines])
