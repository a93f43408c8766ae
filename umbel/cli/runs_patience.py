"""Reads that outlive an outage: said once when a part goes away and once when it is back."""

from collections.abc import Callable, Iterator
from threading import Event as Pause
from typing import Final, TypeVar

from sqlalchemy import Connection

from umbel.cli.moments import Progress
from umbel.cli.runs_reading import Record
from umbel.errors import Unavailable

Found = TypeVar("Found")
AWAY_SECONDS: Final = 1.0
"""Between two tries to reach PostgreSQL."""


class Remarks:
    """What is to be said about a part, once for each change."""

    def __init__(self, away: str, back: str) -> None:
        self._words = {True: away, False: back}
        self._pending: list[Progress] = []
        self.is_away = False

    def note(self, *, is_away: bool) -> None:
        """Take how the part is now."""
        if is_away != self.is_away:
            self._pending.append(Progress(topic="note", text=self._words[is_away]))
            self.is_away = is_away

    def take(self) -> Iterator[Progress]:
        """What has not been said yet."""
        pending, self._pending = self._pending, []
        yield from pending


class WatchfulReader:
    """Asks the record, and never waits for it: for who has started the servers itself."""

    def __init__(self, record: Record, check: Callable[[], None]) -> None:
        """`check` raises when following is pointless."""
        self._record = record
        self._check = check
        self.remarks = Remarks("", "")

    def ask(self, question: Callable[[Connection], Found]) -> Found:
        """The answer from one read-only transaction.

        Raises:
            Unavailable: PostgreSQL does not answer, or what `check` raises.
        """
        self._check()
        with self._record.reading() as connection:
            return question(connection)


class PatientReader:
    """Asks the record; while PostgreSQL is away there is no answer, and never an error."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._pause = Pause()
        self.remarks = Remarks(
            "PostgreSQL does not answer; this goes on when it does", "PostgreSQL answers again"
        )

    def ask(self, question: Callable[[Connection], Found]) -> Found | None:
        """The answer from one read-only transaction; None after a pause when there is none."""
        try:
            with self._record.reading() as connection:
                answer = question(connection)
        except Unavailable:
            self.remarks.note(is_away=True)
            self._pause.wait(AWAY_SECONDS)
            return None
        self.remarks.note(is_away=False)
        return answer
