"""How commands find the system that `umbel up` runs on this machine.

It leaves a note in its data directory for as long as it runs. The directory's `owner.lock`, which
its process holds, says whether the note is still true.
"""

import json
import os
import shlex
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr

from umbel.cli.kept_file import read_kept, write_kept
from umbel.embedded.locks import OWNER_LOCK, try_lock
from umbel.errors import Misconfigured
from umbel.settings import Settings, load_settings

_NOTE: Final = "system.json"


@dataclass(frozen=True, slots=True)
class RunningSystem:
    """What another command of the same user needs to know."""

    pid: int
    """Of the process that runs it."""
    database_url: str
    has_own_database: bool
    """It started PostgreSQL itself, and starts it again when it ends."""
    redis_url: str
    has_own_redis: bool
    redis_prefix: str
    tenant: str
    model: str | None
    """Model of agents that name none."""
    model_base_url: str | None
    metrics_address: str | None
    flower_address: str | None
    flower_auth: str | None
    """`user:password`; the note is readable by its user alone."""


def default_data_directory() -> Path:
    """Where `umbel up` keeps its data when nothing is said."""
    return state_directory() / "system"


def state_directory() -> Path:
    """Where kept data goes; for root not below its home, where the servers' account may not go."""
    if named := os.environ.get("XDG_STATE_HOME"):
        return Path(named) / "umbel"
    if os.geteuid() == 0:
        return Path("/var/lib/umbel")
    return Path.home() / ".local/state/umbel"


@contextmanager
def announced(data: Path, system: RunningSystem) -> Generator[None]:
    """Let other commands find `system` during the block; the caller holds the directory's lock."""
    note = data / _NOTE
    write_kept(note, json.dumps(asdict(system)))
    try:
        yield
    finally:
        note.unlink(missing_ok=True)


def find_running(data: Path | None = None) -> RunningSystem | None:
    """The system that runs on a data directory now; None: none does, or it is somebody else's."""
    directory = _directory(data)
    try:
        system = RunningSystem(**json.loads(read_kept(directory / _NOTE) or ""))
        return system if _holder(directory) == str(system.pid) else None
    except (OSError, ValueError, TypeError):  # no note, or not one of ours
        return None


def refuse_running(data: Path | None) -> None:
    """See that no system runs on a data directory. Creates nothing.

    Raises:
        Misconfigured: one does; its number and addresses are named.
    """
    directory, system = _directory(data), find_running(data)
    if system is None:
        return
    flower = f", Flower at http://{system.flower_address}" if system.flower_address else ""
    where = "" if data is None else f" --data {shlex.quote(str(data))}"
    raise Misconfigured(
        f"A system runs on {str(directory)!r} already: process {system.pid}{flower}. Use it "
        f"(`umbel runs list{where}`, `umbel doctor{where}`), end it with `kill {system.pid}`, or "
        "start another one beside it with --data DIR, UMBEL_FLOWER_ADDRESS and "
        "UMBEL_METRICS_ADDRESS."
    )


def was_killed(data: Path | None) -> bool:
    """The last system on this directory did not end by itself: some of it may still be ending."""
    return (_directory(data) / _NOTE).exists()


def _directory(data: Path | None) -> Path:
    return (data or default_data_directory()).expanduser()


def _holder(directory: Path) -> str | None:
    """The number of the process that uses the directory; a note of another one is out of date."""
    free = try_lock(directory / OWNER_LOCK)
    if free is not None:
        os.close(free)
        return None
    return read_kept(directory / OWNER_LOCK)


def settings_in_use(data: Path | None) -> Settings:
    """The settings for a command that works on a running system.

    With `data`, that system's addresses win. Without, those of the settings do; where they name no
    database, the system that runs on the default directory is meant.

    Raises:
        Misconfigured: nothing runs on `data`, or a setting is wrong.
    """
    settings = load_settings()
    if data is None and settings.database_url is not None:
        return settings
    system = find_running(data)
    if system is None:
        if data is None:
            return settings
        raise Misconfigured(
            f"No system runs on {str(data)!r}. Start it with `umbel up --data "
            f"{shlex.quote(str(data))}`, or leave out --data."
        )
    return settings.model_copy(update=_addresses(system))


def _addresses(system: RunningSystem) -> dict[str, Any]:
    found = asdict(system)
    for name in ("pid", "has_own_database", "has_own_redis"):
        del found[name]
    if system.flower_auth is not None:
        found["flower_auth"] = SecretStr(system.flower_auth)
    return found
