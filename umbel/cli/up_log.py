"""The log file of `umbel up`: every line of every process with its time, in bounded space."""

import contextlib
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from umbel.cli.up_happenings import Addresses, Happening
from umbel.cli.up_wording import NAME_WIDTH, lines_of, teller_of
from umbel.safe_text import one_line

_LIMIT_BYTES: Final = 10_000_000
_KEPT_FILES: Final = 3


class BoundedLog:
    """Appends what is told to a file; a full one becomes `.1`, that one `.2`, and so on.

    Args:
        path: the file that is written now.
        limit_bytes: when it counts as full.
        kept_files: how many full ones stay.
    """

    def __init__(
        self, path: Path, *, limit_bytes: int = _LIMIT_BYTES, kept_files: int = _KEPT_FILES
    ) -> None:
        self._path = path
        self._limit_bytes = limit_bytes
        self._kept_files = kept_files
        self._lock = threading.Lock()
        self._file = _open(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._lock:
            file, self._file = self._file, -1
            if file >= 0:
                os.close(file)

    def write(self, happening: Happening) -> None:
        """Append its lines, from whatever thread; nothing once the log is closed."""
        data = "".join(_lines(happening)).encode("utf-8", "backslashreplace")
        # A full disk must not end the system whose log it holds.
        with self._lock, contextlib.suppress(OSError):
            if self._file >= 0:
                os.write(self._file, data)
                if os.fstat(self._file).st_size >= self._limit_bytes:
                    self._turn()

    def _turn(self) -> None:
        file, self._file = self._file, -1
        os.close(file)
        for number in range(self._kept_files, 0, -1):
            older = self._numbered(number)
            newer = self._numbered(number - 1)
            if newer.exists():
                newer.replace(older)
        self._file = _open(self._path)

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path


def _lines(happening: Happening) -> Iterator[str]:
    """Each with time and name, and no password in any."""
    if isinstance(happening, Addresses):
        happening = replace(happening, flower_password=None)
    start = f"{one_line(happening.at)} {teller_of(happening):<{NAME_WIDTH}}| "
    for line in lines_of(happening):
        yield f"{start}{line}\n"


def _open(path: Path) -> int:
    # The owner of the directory may be an account with fewer rights than ours: follow no link.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, 0o600)
