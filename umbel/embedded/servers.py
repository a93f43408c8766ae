"""PostgreSQL and Valkey for as long as a `with` block lasts."""

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from umbel.embedded.directory import server_directory
from umbel.embedded.postgres import Postgres
from umbel.embedded.server_process import EmbeddedServer
from umbel.embedded.valkey import Valkey


@dataclass(frozen=True, slots=True)
class EmbeddedServers:
    """Where the running servers are."""

    database_url: str
    """For SQLAlchemy; the role owns the database and may create others. "" if left out."""
    redis_url: str
    """For redis-py; `umbel.redis_url.broker_url` makes it a broker URL. "" if left out."""
    directory: Path
    """Data and logs."""
    processes: tuple[EmbeddedServer, ...] = ()
    """For whoever watches them and starts them again; they end with the block all the same."""


def _say_nothing(_: str) -> None:
    pass


@contextmanager
def embedded_servers(
    directory: Path | None = None,
    *,
    database: bool = True,
    redis: bool = True,
    on_progress: Callable[[str], None] = _say_nothing,
) -> Generator[EmbeddedServers]:
    """Run the servers during the block, reachable over unix sockets by our own user alone.

    They end with the block, and with this process however it ends.

    Args:
        directory: where their data stays between runs; created if missing. None: a private
            temporary directory, removed at the end.
        database: start PostgreSQL.
        redis: start Valkey.
        on_progress: called with a line of text before each part that takes time.

    Raises:
        Misconfigured: a wheel is missing, or the directory cannot be used.
        Unavailable: the directory is in use, or a server did not start.
    """
    with ExitStack() as stack:
        site = stack.enter_context(server_directory(directory))
        # Valkey is ready long before PostgreSQL has made its cluster: start both, then wait.
        valkey = postgres = None
        if redis:
            on_progress("Starting Valkey")
            valkey = Valkey.start(site, stack)
        if database:
            on_progress("Starting PostgreSQL")
            postgres = Postgres.start(site, stack)
        yield EmbeddedServers(
            database_url=postgres.wait() if postgres is not None else "",
            redis_url=valkey.wait() if valkey is not None else "",
            directory=site.path,
            processes=tuple(server for server in (postgres, valkey) if server is not None),
        )
