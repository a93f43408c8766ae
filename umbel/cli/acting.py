"""What commands that act on the running system share: its service, what they say, how they wait."""

import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.text import Text

from models.database import Database
from models.listing import last_events
from models.runs import RunRow
from umbel.cli.json_lines import write_json
from umbel.cli.places import refuse_outdated, required_database
from umbel.cli.plain_output import PlainConsole
from umbel.cli.running_system import settings_in_use
from umbel.cli.runs_reading import Record
from umbel.cli.runs_tail import follow_run, screen_for
from umbel.cli.safe_text import safe
from umbel.service import Service
from umbel.settings import Settings

Lines = Sequence[tuple[str, str]]
"""What is said, each as a label and a text."""

REPEATED: Final = ("note", "it was done before: nothing is done twice")


@dataclass(frozen=True, slots=True)
class Acting:
    """The running system, and the record of it."""

    service: Service
    record: Record
    is_json: bool

    def find(self, run: str) -> tuple[RunRow, int]:
        """A run and the number of its last event.

        Raises:
            NotFound: there is none, or more than one.
        """
        with self.record.reading() as connection:
            row = self.record.find(connection, run)
            return row, last_events(connection, [row.run_id]).get(row.run_id, 0)

    def say(self, kind: str, facts: Mapping[str, object], lines: Lines) -> None:
        """One JSON object, or the lines as text."""
        if self.is_json:
            write_json(sys.stdout, {"type": kind, **facts})
        else:
            say_lines(lines)

    def follow(self, row: RunRow, after: int) -> int:
        """Show the run from the event behind `after` until it stands still; 0 once completed."""
        with screen_for(is_json=self.is_json) as screen:
            return follow_run(self.record, row, screen, after=after, is_following=True)


@contextmanager
def acting(data: Path | None, *, is_json: bool) -> Generator[Acting]:
    """The system that runs, for the block.

    Raises:
        Misconfigured: none is named or found, or its tables are not this version's.
        Unavailable: it does not answer.
    """
    with database_in_use(data) as (settings, database), Service(settings) as service:
        yield Acting(service, Record(settings, database, settings.tenant, data), is_json)


@contextmanager
def database_in_use(data: Path | None) -> Generator[tuple[Settings, Database]]:
    """Settings and record of the system that runs, for the block; it needs no Redis.

    Raises:
        Misconfigured: none is named or found, or its tables are not this version's.
        Unavailable: it does not answer.
    """
    settings = settings_in_use(data)
    url = required_database(settings)
    refuse_outdated(url)
    database = Database(url, role="cli", pool_size=2)
    try:
        yield settings, database
    finally:
        database.close()


def say_lines(lines: Lines) -> None:
    """The lines as text, each behind its label."""
    console = PlainConsole(sys.stdout)
    for label, text in lines:
        words = Text.assemble((f"{label:<11}", "bold"), safe(text))
        console.print(words, soft_wrap=True)
