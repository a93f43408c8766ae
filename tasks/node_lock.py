"""Proof that no earlier life of this worker is alive: a file lock that dies with its processes.

It spares the term of the heartbeat: a worker that is restarted on the same machine frees at once
what its predecessor held.
"""

import fcntl
import hashlib
import os
import stat
import tempfile
from pathlib import Path
from typing import IO, Final

from umbel.contracts import new_id

_TRIES: Final = 5
"""Times a file may vanish between opening and locking it."""


class NodeLock:
    """Held by one process tree per node name; pool children inherit it.

    The identity carries the lock file's inode and the kernel's boot id, so that equal host names on
    two machines differ. Without the lock the identity is unique, and nobody is proved dead.
    """

    def __init__(self, name: str, database_url: str) -> None:
        digest = hashlib.sha256(f"{name} {database_url}".encode()).hexdigest()[:16]
        self._path = lock_directory() / f"{digest}.lock"
        self._file: IO[str] | None = None
        self.name = name
        self.is_exclusive = False

    def acquire(self) -> str:
        """Take the lock if it is free; the identity of this node."""
        for _ in range(_TRIES):
            self._file = self._open()
            if self._file is None or not _lock(self._file):
                break
            status = os.fstat(self._file.fileno())
            if _inode_of(self._path) == status.st_ino:
                self.is_exclusive = True
                return f"{self.name} {_boot_id()}:{status.st_dev}:{status.st_ino}"
            self._file.close()  # its holder removed the file at the same moment
        return f"{self.name} {new_id('boot')}"

    def release(self) -> None:
        """At a clean end, after the last pool child: leave no file behind."""
        if self.is_exclusive and self._file is not None:
            self._path.unlink(missing_ok=True)
            self._file.close()
            self.is_exclusive = False

    def _open(self) -> IO[str] | None:
        """The lock file in a folder that only this user can write to; None if there is none."""
        folder = self._path.parent
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            status = folder.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
                return None
            return self._path.open("a")
        except OSError:
            return None


def lock_directory() -> Path:
    """Where this user's lock files are."""
    return Path(tempfile.gettempdir()) / f"umbel-locks-{os.geteuid()}"


def _lock(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _inode_of(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
    except OSError:
        return "unknown"
