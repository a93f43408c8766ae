"""Looks at the operating system from outside: which processes there are, who may enter what."""

import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil

PATIENCE_SECONDS = 60.0
"""On a busy machine PostgreSQL alone takes half a minute to end in order."""


def processes_below(folder: Path) -> list[psutil.Process]:
    """Every living process that works in `folder` or names it in its command line."""
    return [process for process in psutil.process_iter() if _is_below(process, folder)]


def _is_below(process: psutil.Process, folder: Path) -> bool:
    try:
        if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
            return False
        texts = [process.cwd(), *process.cmdline()]
    except psutil.Error:
        return False
    return any(str(folder) in text for text in texts)


def eventually(is_true: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> bool:
    """Whether it becomes true in time."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not is_true():
        if time.monotonic() > deadline:
            return False
        pause.wait(0.02)
    return True


def rights(path: Path) -> dict[str, tuple[int, int, int]]:
    """Mode, owner and group of a path and of each folder above it."""
    facts = {str(each): each.stat() for each in (path, *path.parents)}
    return {name: (fact.st_mode, fact.st_uid, fact.st_gid) for name, fact in facts.items()}


def start_python(
    program: str, *arguments: str, env: dict[str, str] | None = None
) -> "subprocess.Popen[str]":
    """A Python process with its output on a pipe."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | (env or {}),
    )


HOLD = """
    import sys
    from pathlib import Path
    from umbel.embedded import embedded_servers

    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    with embedded_servers(folder, on_progress=lambda line: print(line, flush=True)) as servers:
        print("ready", servers.directory, flush=True)
        sys.stdin.read()
"""
"""Runs servers until its standard input ends."""
