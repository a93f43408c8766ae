"""Children that die with their owner: PostgreSQL, Valkey and the workers never become orphans.

`PR_SET_PDEATHSIG` has to be set by the child itself, after its change of user, and Python code
between fork and exec (`preexec_fn`) can deadlock in a process with threads. So every child is
started through `child_launcher.py`, which sets everything and replaces itself by the program.
"""

import contextlib
import functools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_LAUNCHER: Final = Path(__file__).resolve().with_name("child_launcher.py")
_HELD: Final = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


@dataclass(frozen=True, slots=True)
class Account:
    """The operating system user a child runs as."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Launch:
    """What to start and how."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    """The child's whole environment; nothing is added to it."""
    output: int
    """Where stdout and stderr go: a file descriptor or `subprocess.PIPE`."""
    death_signal: signal.Signals = signal.SIGTERM
    """What the child gets when this process is gone, however it went."""
    account: Account | None = None
    """None: our own user."""
    cwd: Path | None = None
    kept_fds: tuple[int, ...] = ()
    """Descriptors the child inherits besides its output, such as a lock it must hold."""


@contextlib.contextmanager
def signals_held() -> Generator[None]:
    """Deliver Ctrl-C and SIGTERM only after the block.

    Wrap it round "start a child and remember to stop it": an interrupt between the two would leave
    a child nobody stops.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def spawn(launch: Launch) -> "subprocess.Popen[bytes]":
    """A child that leads its own session and gets `death_signal` when this process ends.

    Signals that are blocked or ignored here are neither in the child. A program that cannot be
    started ends with exit code 127 and one line of output.
    """
    if threading.current_thread() is threading.main_thread():
        return _spawn(launch)
    # The kernel means the *thread* that forked when it says "parent": a child started by a pool
    # thread would be ended with that thread. So one thread that lives as long as we do forks.
    return _spawner(os.getpid()).submit(_spawn, launch).result()


@functools.cache
def _spawner(_pid: int) -> ThreadPoolExecutor:
    """One per process: a forked copy of this process has the cache, but not the thread."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="umbel-spawn")


def _spawn(launch: Launch) -> "subprocess.Popen[bytes]":
    account = launch.account
    identity = (account.uid, account.gid) if account is not None else (-1, -1)
    command = [
        *(sys.executable, "-I", "-S", str(_LAUNCHER)),
        *map(str, (os.getpid(), int(launch.death_signal), *identity)),
        *launch.argv,
    ]
    return subprocess.Popen(  # noqa: S603 - the argument list comes from our own code, no shell
        command,
        env=launch.env,
        cwd=launch.cwd,
        stdin=subprocess.DEVNULL,
        stdout=launch.output,
        stderr=subprocess.STDOUT,
        pass_fds=launch.kept_fds,
        start_new_session=True,
    )


def stop_child(
    process: "subprocess.Popen[bytes]", steps: tuple[tuple[signal.Signals, float], ...]
) -> None:
    """End a child that `spawn` made; when this returns or raises, it is gone.

    Args:
        process: what `spawn` gave; one that has ended already is left alone.
        steps: signals in order, each with the seconds it may take; after them comes SIGKILL to the
            child's process group. An interrupt during a wait goes straight to SIGKILL.
    """
    try:
        for number, seconds in steps:
            process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
            if process.returncode is not None:
                return
    finally:
        # Not reaped yet, so its number and its group's number cannot belong to anybody else.
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
