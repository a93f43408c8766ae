"""File locks that say whether a directory is in use, by whoever holds them being alive.

There are two. Our own process holds `owner.lock` alone. `servers.lock` is handed down to PostgreSQL
and Valkey, and through them to each of their processes: it is free exactly when none of them is
left, which no process number in a file could promise.
"""

import fcntl
import os
import threading
import time
from pathlib import Path
from typing import Final

OWNER_LOCK: Final = "owner.lock"
SERVERS_LOCK: Final = "servers.lock"
_POLL_SECONDS: Final = 0.02


def try_lock(path: Path) -> int | None:
    """A descriptor that holds the lock until it is closed everywhere, or None: it is taken."""
    # A directory's owner could put a link here and have root create a file elsewhere.
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def wait_lock(path: Path, seconds: float) -> int | None:
    """As `try_lock`, trying again for some seconds while the lock is taken."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while (descriptor := try_lock(path)) is None:
        if time.monotonic() >= deadline:
            return None
        pause.wait(_POLL_SECONDS)
    return descriptor
