"""Who listens on a port of this machine, as far as its `/proc` tells."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTENING: Final = "0A"
_LOCAL, _STATE, _INODE = 1, 3, 9
"""Columns of those tables."""


def holder_of(port: int) -> str | None:
    """`process 4711 (python)`; None: nobody, or somebody else's process, or no such system."""
    sockets = {f"socket:[{inode}]" for inode in _listening(port)}
    if not sockets:
        return None
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if any(str(entry.readlink()) in sockets for entry in (process / "fd").iterdir()):
                return f"process {process.name} ({(process / 'comm').read_text().strip()})"
        except OSError:  # it ended, or is not ours to look into
            continue
    return None


def _listening(port: int) -> Iterator[str]:
    for table in _TABLES:
        try:
            _, *rows = table.read_text().splitlines()
        except OSError:
            continue
        for row in rows:
            columns = row.split()
            is_it = columns[_LOCAL].endswith(f":{port:04X}")
            if is_it and columns[_STATE] == _LISTENING:
                yield columns[_INODE]
