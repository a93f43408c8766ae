"""Disks: PostgreSQL stops when its own is full, workers when the temporary one is."""

import os
import tempfile
from pathlib import Path
from typing import Final

from models.diagnosis import data_directory, looking
from umbel.cli.doctor.context import Context
from umbel.cli.doctor.finding import Finding, problem, warning, worst
from umbel.cli.running_system import default_data_directory

_FULL_SHARE: Final = 0.01
_FULL_BYTES: Final = 64 * 1024 * 1024
_LOW_SHARE: Final = 0.05


def look_at_disks(context: Context) -> Finding:
    """Free space where this machine keeps data, once per file system."""
    concerns: list[Finding] = []
    free: dict[str, int] = {}
    seen: set[int] = set()
    for name, path in _places(context).items():
        try:
            device = path.stat().st_dev
            room = context.statvfs(os.fspath(path))
        except OSError as error:
            remedy = f"Make {path} readable for the user of this command."
            concerns.append(warning("disk", f"{name} {path}: {error.strerror}", remedy))
            continue
        if device in seen:
            continue
        seen.add(device)
        free[os.fspath(path)] = room.f_bavail * room.f_frsize
        concerns += _fullness(f"{name} {path}", room)
    found = ", ".join(f"{_size(size)} free at {path}" for path, size in free.items())
    return worst("disk", found or "no place to look at", concerns, free_bytes=free)


def _places(context: Context) -> dict[str, Path]:
    data = (context.data or default_data_directory()).expanduser()
    places = {"data directory": data, "temporary directory": Path(tempfile.gettempdir())}
    if context.usable.get("database") and context.is_database_here:
        with looking(context.database_url) as connection:
            directory = data_directory(connection)
        if directory is not None:
            places["data of PostgreSQL"] = Path(directory)
    return {name: path for name, path in places.items() if _is_there(path)}


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a directory above it is closed to us
        return False


def _fullness(name: str, room: os.statvfs_result) -> list[Finding]:
    remedy = f"Free space on its disk (`df -h`; `du -xh` of {name.rpartition(' ')[2]}), or grow it."
    if room.f_blocks == 0:  # a file system without a size, such as a network share
        return []
    free, share = room.f_bavail * room.f_frsize, room.f_bavail / room.f_blocks
    if room.f_files and room.f_favail == 0:
        return [problem("disk", f"{name}: no file can be made, all inodes are used", remedy)]
    if free <= min(_FULL_BYTES, _FULL_SHARE * room.f_blocks * room.f_frsize):
        return [problem("disk", f"{name} is full ({_size(free)} left)", remedy)]
    if share < _LOW_SHARE:
        return [warning("disk", f"{name} is {1 - share:.0%} full", remedy)]
    return []


def _size(size_bytes: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size_bytes < 1024:
            return f"{size_bytes:.0f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} TiB"
