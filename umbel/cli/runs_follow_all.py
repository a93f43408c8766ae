"""Follows every run of a tenant for `umbel runs tail`: whatever happens from now on.

Events have no number across runs. What is polled is each run's own: of those that may go on, those
that just came, and those that were told of lately, so that nothing is missed or told twice.
"""

import time
from collections import OrderedDict
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from threading import Event as Pause
from typing import Final

from sqlalchemy import Connection, text

from models.happenings import BATCH, read_happenings
from models.listing import last_events, new_runs, unsettled_runs
from models.runs import find_run
from umbel.cli.moments import Happened, Moment, Progress
from umbel.cli.runs_patience import PatientReader
from umbel.cli.runs_reading import Record
from umbel.cli.story import tell
from umbel.contracts import RunId

POLL_SECONDS: Final = 0.5
_SHARE: Final = 10
"""The pause is at least so many times the poll: the record is not there for being watched."""
_LONGEST_REST: Final = 10.0
_OVERLAP_SECONDS: Final = 30.0
"""An acceptance may be committed so long after the moment it bears."""
_WATCHED: Final = 1_000
"""Settled runs that are looked at again: a late receipt may still come, or the owner's word."""
_REMEMBERED: Final = 100_000
_RUNS_PER_LOOK: Final = 200


@dataclass(frozen=True, slots=True)
class _Poll:
    """How far every run that may have moved is, and which of them may go on."""

    active: Mapping[str, int]
    numbers: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _News:
    """What happened to some runs, and how far each has been told by then."""

    told: list[Happened]
    cursors: dict[str, int]


class TenantTail:
    """All runs of one tenant from now on."""

    def __init__(self, record: Record, tenant: str) -> None:
        self._record = record
        self._tenant = tenant
        self._reader = PatientReader(record)
        self._start: datetime | None = None
        self._is_told = False
        self._cursors: OrderedDict[str, int] = OrderedDict()
        """The number of the last event told of each run; the run that was told last comes last."""
        self._active: set[str] = set()
        self._polled_at = time.monotonic()
        self._pause = Pause()

    def moments(self) -> Generator[Moment]:
        """What happens to any run, in the order of the database's clock; never ends."""
        while True:
            began = time.monotonic()
            poll = self._reader.ask(self._poll)
            rest = min(max(POLL_SECONDS, _SHARE * (time.monotonic() - began)), _LONGEST_REST)
            yield from self._reader.remarks.take()
            if poll is None:
                continue
            if not self._is_told:
                self._is_told = True
                words = f"every run of tenant {self._tenant!r} from now on"
                yield Progress(topic="note", text=words)
            behind = self._behind(poll)
            while behind:
                news = self._reader.ask(partial(self._news, run_ids=behind[:_RUNS_PER_LOOK]))
                yield from self._reader.remarks.take()
                if news is None:
                    continue
                yield from news.told
                self._remember(news)
                behind = self._behind(poll)
            self._active = set(poll.active)
            self._polled_at = began
            self._pause.wait(rest)

    def _poll(self, connection: Connection) -> _Poll:
        if self._start is None:
            self._start = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
            active = unsettled_runs(connection, self._tenant)
            self._cursors.update(active)  # what is older than the watch is not told
            return _Poll(active, {})
        active = unsettled_runs(connection, self._tenant)
        passed = time.monotonic() - self._polled_at
        numbers = new_runs(connection, self._tenant, seconds=passed + _OVERLAP_SECONDS)
        lately = [x for x in list(self._cursors)[-_WATCHED:] if x not in active]
        settled = self._active - active.keys()
        numbers |= last_events(connection, sorted({*lately, *settled}))
        return _Poll(active, numbers | active)

    def _behind(self, poll: _Poll) -> list[str]:
        """The runs of which more has happened than was told, those told longest ago first."""
        moved = {x for x, last in poll.numbers.items() if last > self._cursors.get(x, 0)}
        return sorted(moved - self._cursors.keys()) + [x for x in self._cursors if x in moved]

    def _news(self, connection: Connection, run_ids: list[str]) -> _News:
        told: list[Happened] = []
        cursors = last_events(connection, run_ids)
        for run_id in run_ids:
            run = find_run(connection, run_id)
            if run is None:
                continue
            after = self._cursors.get(run_id, 0)
            found = read_happenings(connection, RunId(run_id), after, since=self._start)
            prices = self._record.settings.model_settings(run.model)
            told += [tell(run, happening, prices) for happening in found]
            if found:
                last = found[-1].event.seq
                cursors[run_id] = last if len(found) == BATCH else max(last, cursors[run_id])
        return _News(sorted(told, key=lambda x: (x.at, x.run_id, x.seq)), cursors)

    def _remember(self, news: _News) -> None:
        for run_id, seq in news.cursors.items():
            self._cursors[run_id] = seq
            self._cursors.move_to_end(run_id)
        while len(self._cursors) > _REMEMBERED:
            self._cursors.popitem(last=False)
