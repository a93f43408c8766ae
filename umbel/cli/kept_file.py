"""Small private texts in a data directory, kept between starts."""

import os
from pathlib import Path
from typing import Final

# Whoever owns the directory could put a link here: follow none.
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def read_kept(path: Path) -> str | None:
    """The text without the white space around it; None where there is no such file.

    Raises:
        OSError: it cannot be read, or is a link.
    """
    try:
        descriptor = os.open(path, _READ)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, encoding="utf-8", errors="replace") as file:
        return file.read().strip()


def write_kept(path: Path, text: str) -> None:
    """Replace the text whole, readable by this user alone; the caller holds the directory's lock.

    Raises:
        OSError: it cannot be written.
    """
    written = path.with_name(f"{path.name}.new")
    written.unlink(missing_ok=True)
    with os.fdopen(os.open(written, _WRITE, 0o600), "w", encoding="utf-8") as file:
        file.write(f"{text}\n")
    written.replace(path)
