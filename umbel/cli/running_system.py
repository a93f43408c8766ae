"""How commands find the system that `umbel up` runs on this machine.

It leaves a note in its data directory for as long as it runs. The directory's `owner.lock`, which
its process holds, says whether the note is still true.
"""

import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr

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
    redis_url: str
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
    written = note.with_suffix(".new")
    written.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(written, flags, 0o600), "w", encoding="utf-8") as file:
        json.dump(asdict(system), file)
    written.replace(note)
    try:
        yield
    finally:
        note.unlink(missing_ok=True)


def find_running(data: Path | None = None) -> RunningSystem | None:
    """The system that runs on a data directory now; None: none does, or it is somebody else's."""
    directory = (data or default_data_directory()).expanduser()
    try:
        system = RunningSystem(**json.loads((directory / _NOTE).read_text(encoding="utf-8")))
        free = try_lock(directory / OWNER_LOCK)
    except (OSError, ValueError, TypeError):  # no note, or not one of ours
        return None
    if free is not None:
        os.close(free)
        return None
    return system


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
        raise Misconfigured(f"No system runs on {str(data)!r}; start it with `umbel up --data`.")
    return settings.model_copy(update=_addresses(system))


def _addresses(system: RunningSystem) -> dict[str, Any]:
    found = asdict(system)
    del found["pid"]
    if system.flower_auth is not None:
        found["flower_auth"] = SecretStr(system.flower_auth)
    return found
