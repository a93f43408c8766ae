"""Where a command works: servers of its own in a directory, or the ones the settings name."""

import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from models.migration import check, migrate
from umbel.cli.redis_contact import greet
from umbel.cli.running_system import find_running, settings_in_use, state_directory
from umbel.embedded import embedded_servers
from umbel.errors import Misconfigured
from umbel.settings import Settings
from umbel.settings_faults import without_password

Tell = Callable[[str], None]
_OWNED_BY_EMBEDDED: Final = "owner.lock"
_LOG: Final = "workers.log"


@dataclass(frozen=True, slots=True)
class Place:
    """Running servers."""

    database_url: str
    redis_url: str
    kept: Path | None
    """The directory of embedded servers that outlives the command."""
    is_alone: bool
    """Nobody else can have work in this database or for these workers."""
    log: Path
    """Where worker processes write."""


@contextmanager
def running_servers(settings: Settings, *, keep: bool, tell: Tell) -> Generator[Place]:
    """PostgreSQL and Redis for the block: each is the one the settings name, or an embedded one.

    Raises:
        Misconfigured: the embedded servers are not installed or cannot run here.
        Unavailable: a server did not start, or Redis does not answer.
    """
    wanted = [
        name
        for name, url in (("PostgreSQL", settings.database_url), ("Valkey", settings.redis_url))
        if url is None
    ]
    with ExitStack() as stack:
        if not wanted:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="umbel-log-")))
            yield _given(settings, folder, tell)
            return
        directory = _kept_directory() if keep else None
        where = f"in {directory}" if directory else "in a temporary directory"
        tell(f"starting {' and '.join(wanted)} {where}")
        servers = stack.enter_context(
            embedded_servers(
                directory, database=settings.database_url is None, redis=settings.redis_url is None
            )
        )
        if settings.redis_url is not None:
            greet(settings.redis_url)
        yield Place(
            database_url=settings.database_url or servers.database_url,
            redis_url=settings.redis_url or servers.redis_url,
            kept=directory,
            is_alone=settings.database_url is None,
            log=servers.directory / _LOG,
        )


@contextmanager
def database_for_reading(data: Path | None) -> Generator[str]:
    """The URL of a current database: of a kept directory, else the one the settings name.

    Raises:
        Misconfigured: there is none, or its tables are not this version's.
        Unavailable: it does not answer.
    """
    with ExitStack() as stack:
        running = find_running(data) if data is not None else None
        if running is not None:
            url = running.database_url
        elif data is not None:
            if not (data / _OWNED_BY_EMBEDDED).is_file():
                raise Misconfigured(
                    f"{str(data)!r} holds no data of Umbel; give the directory that "
                    "`umbel run --keep` or `umbel up` named."
                )
            url = stack.enter_context(embedded_servers(data, redis=False)).database_url
        else:
            url = required_database(settings_in_use(None))
        refuse_outdated(url)
        yield url


def required_database(settings: Settings) -> str:
    """The URL the settings name.

    Raises:
        Misconfigured: they name none.
    """
    if settings.database_url is None:
        raise Misconfigured(
            "UMBEL_DATABASE_URL is not set and `umbel up` does not run here. Start `umbel up`, "
            "set the variable to postgresql://user:password@host/database, or name kept data with "
            "--data DIR where a command takes it."
        )
    return settings.database_url


def prepare_database(url: str, settings: Settings) -> str:
    """Make the tables in an embedded database, only check the one the settings give; says which.

    Raises:
        Misconfigured: a given database does not have this version's tables.
        Unavailable: it does not answer.
    """
    if settings.database_url is None:
        applied = migrate(url)
        return "tables made" if applied else "tables are up to date"
    refuse_outdated(url)
    return f"{without_password(url)} is up to date"


def refuse_outdated(url: str) -> None:
    """Raise Misconfigured unless every migration is applied."""
    result = check(url, compare=False)
    if not result.is_current:
        state = "has no tables of Umbel" if result.current is None else f"is at {result.current}"
        raise Misconfigured(
            f"The database {state}; this version needs revision {result.head}. "
            "Run `umbel db migrate`."
        )


def _given(settings: Settings, folder: Path, tell: Tell) -> Place:
    database_url, redis_url = settings.database_url or "", settings.redis_url or ""
    tell(f"PostgreSQL at {without_password(database_url)}")
    tell(f"Redis at {without_password(redis_url)}")
    greet(redis_url)
    return Place(database_url, redis_url, kept=None, is_alone=False, log=folder / _LOG)


def _kept_directory() -> Path:
    return state_directory() / time.strftime("%Y%m%d-%H%M%S")
