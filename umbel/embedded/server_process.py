"""One embedded server as a process: started, watched, started again in its place, and ended."""

import os
import signal
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import ClassVar, Final

from umbel.child_process import Launch, signals_held, spawn, stop_child
from umbel.embedded.directory import ServerDirectory
from umbel.embedded.environment import server_environment
from umbel.embedded.readiness import await_ready
from umbel.errors import Unavailable

_READY_SECONDS: Final = 120.0

EndSteps = tuple[tuple[signal.Signals, float], ...]


class EmbeddedServer(ABC):
    """A server on a prepared directory. It comes back on the same data and the same socket."""

    name: ClassVar[str]
    """`postgres` or `valkey`."""
    end_steps: ClassVar[EndSteps]
    """Signals that end it in order, each with the seconds it may take; then comes SIGKILL."""
    death_signal: ClassVar[signal.Signals] = signal.SIGTERM
    """What it gets when this process is gone."""

    def __init__(self, site: ServerDirectory, program: Path, stack: ExitStack) -> None:
        """Start without waiting; the server ends with `stack`."""
        self._site = site
        self._program = program
        with signals_held():
            self._process = self._spawn()
            stack.callback(self._stop)

    @property
    def pid(self) -> int:
        """The number of the present process."""
        return self._process.pid

    @property
    @abstractmethod
    def url(self) -> str:
        """Where it is reached."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether it can be used now."""

    def wait(self) -> str:
        """The URL, once the server can be used.

        Raises:
            Unavailable: it ended or does not answer; with the end of its log.
        """
        await_ready(self._process, self.is_ready, self._log, _READY_SECONDS)
        return self.url

    def watch(self, on_end: Callable[[int], None]) -> None:
        """Have `on_end` called once, from a thread, when the present process has ended.

        It gets the exit code; negative: the number of the signal that ended it. The thread also
        calls it at an end that was asked for.
        """
        process = self._process

        def wait() -> None:
            on_end(_exit_code(process))

        threading.Thread(target=wait, name=f"umbel-watch-{self.name}", daemon=True).start()

    def restart(self) -> int:
        """Start it again after its end and return the new process's number; does not wait.

        A server whose last processes are still about may end at once: try again.

        Raises:
            Unavailable: the present process has not ended, or somebody else uses the data.
        """
        if self._process.poll() is None:
            raise Unavailable(f"{self.name!r} still runs (process {self.pid}); end it first.")
        self._make_way()
        with signals_held():
            self._process = self._spawn()
        return self.pid

    @property
    def _log(self) -> Path:
        return self._site.path / f"{self.name}.log"

    @abstractmethod
    def _arguments(self) -> list[str]:
        """What follows the program on its command line."""

    @abstractmethod
    def _make_way(self) -> None:
        """Remove what an earlier process left that would stop the next one."""

    @property
    def _data(self) -> Path:
        return self._site.path / self.name

    def _spawn(self) -> "subprocess.Popen[bytes]":
        with self._site.log(self._log.name) as log:
            return spawn(
                Launch(
                    argv=(str(self._program), *self._arguments()),
                    env=server_environment(),
                    output=log,
                    death_signal=self.death_signal,
                    account=self._site.account,
                    cwd=self._data,
                    kept_fds=(self._site.servers_lock,),
                )
            )

    def _stop(self) -> None:
        stop_child(self._process, self.end_steps)


def _exit_code(process: "subprocess.Popen[bytes]") -> int:
    """Wait for the end without reaping: whoever ends the process must find its number its own."""
    try:
        ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:  # reaped already
        return process.wait()
    if ended is None:  # only with WNOHANG
        return process.wait()
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
