"""An end for children whose owner was killed and that do not end by themselves.

The kernel asks them with SIGTERM (`umbel.child_process`). A worker that hands its work back waits
for PostgreSQL as long as it takes, and that may have ended with the owner: nobody would be left to
kill it. A small process of its own, the warden, is: it notices by its end of a pipe.
"""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

_PROGRAM: Final = Path(__file__).resolve().with_name("child_warden.py")


class Warden:
    """Kills the groups it guards, so many seconds after this process has died; `close` ends it."""

    def __init__(self, seconds: float) -> None:
        self._lock = threading.Lock()
        self._process = None
        if sys.platform == "linux":  # elsewhere there are no descriptors of processes
            self._process = subprocess.Popen(  # noqa: S603 - our own program, no shell
                [sys.executable, "-I", "-S", str(_PROGRAM), str(seconds)],
                env={},
                cwd="/",
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def guard(self, leader: int) -> None:
        """Guard the group of a living child of ours."""
        self._tell(f"+{leader}\n")

    def forget(self, leader: int) -> None:
        """Guard it no longer; call it before the child is reaped."""
        self._tell(f"-{leader}\n")

    def close(self) -> None:
        """End the warden; what it guards is killed in its time."""
        if self._process is None or self._process.stdin is None:
            return
        with self._lock:
            self._process.stdin.close()
        self._process.wait()

    def _tell(self, line: str) -> None:
        if self._process is None or self._process.stdin is None:
            return
        with self._lock:
            try:
                os.write(self._process.stdin.fileno(), line.encode())
            except (BrokenPipeError, ValueError):  # somebody killed it, or it is closed
                return
