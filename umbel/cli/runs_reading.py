"""Where `umbel runs` reads: the system that runs, kept data, or the database of the settings."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, text

from models.database import Database
from models.runs import RunRow, find_run, run_ids
from umbel.cli.places import database_for_reading
from umbel.cli.running_system import find_running, settings_in_use
from umbel.contracts import RunId
from umbel.errors import NotFound
from umbel.settings import Settings, load_settings

_LEAST_PREFIX: Final = 5
_MOST_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Record:
    """A record that can be read, and whose it is."""

    settings: Settings
    """With the addresses that are in use; no Redis where none belongs to the record."""
    database: Database
    tenant: str | None
    """None: kept data, where everything is the reader's own."""
    data: Path | None

    @contextmanager
    def reading(self) -> Generator[Connection]:
        """A read-only transaction: whatever a command does, it changes nothing."""
        with self.database.begin() as connection:
            connection.execute(text("SET TRANSACTION READ ONLY"))
            yield connection

    def find(self, connection: Connection, run: str) -> RunRow:
        """The run of an id, or of a beginning of one.

        Raises:
            NotFound: there is none, or more than one.
        """
        row = None
        if len(run) >= _LEAST_PREFIX:
            row = find_run(connection, run, tenant=self.tenant)
        if row is None:
            raise NotFound(self._why_none(connection, run))
        return row

    def _why_none(self, connection: Connection, run: str) -> str:
        begun = run_ids(connection, run, tenant=self.tenant, limit=_MOST_SHOWN + 1)
        if len(run) < _LEAST_PREFIX or not begun:
            return f"There is no run {run!r}; `{self.command('list')}` shows the ids."
        others = ", and others" if len(begun) > _MOST_SHOWN else ""
        shown = ", ".join(begun[:_MOST_SHOWN])
        return f"{run!r} begins the ids of several runs: {shown}{others}. Write more of one."

    def id_of(self, run: str | None) -> RunId | None:
        """The whole id of the run that a list is narrowed to; None: it is not.

        Raises:
            NotFound: there is none, or more than one.
        """
        if run is None:
            return None
        with self.reading() as connection:
            return self.find(connection, run).run_id

    def command(self, words: str) -> str:
        """A command line that reads the same record, to be shown."""
        return f"umbel runs {words}" + (f" --data {self.data}" if self.data else "")


@contextmanager
def open_record(data: Path | None) -> Generator[Record]:
    """The record for the block.

    Raises:
        Misconfigured: there is none, or its tables are not this version's.
        Unavailable: it does not answer.
    """
    is_kept = data is not None and find_running(data) is None
    settings = load_settings() if is_kept else settings_in_use(data)
    with database_for_reading(data) as url:
        addresses: dict[str, str | None] = {"database_url": url}
        if is_kept:
            addresses["redis_url"] = None
        database = Database(url, role="cli", pool_size=2)
        try:
            yield Record(
                settings.model_copy(update=addresses),
                database,
                None if is_kept else settings.tenant,
                data,
            )
        finally:
            database.close()
