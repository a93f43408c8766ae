"""What happens around a run: the events of a case, each at its point, in the file's order."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Where a point was reached."""

    pid: int | None = None
    """The process doing the work, if one is known."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Ids that belong to the point, such as `call_id` and `step`."""


@dataclass(slots=True)
class Happenings:
    """The events of one case. Reaching a point handles its events before the work goes on."""

    events: Sequence[Event]
    perform: Callable[[Event, Occurrence], str | None]
    """Does one event; its result is what the command was answered, None if it is no command."""
    results: list[str | None] = field(init=False)
    problems: list[str] = field(default_factory=list)
    _handled: set[int] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.results = [None] * len(self.events)

    @property
    def points(self) -> set[str]:
        """Every point that has an event."""
        return {event["at"] for event in self.events}

    def reach(self, point: str, occurrence: Occurrence | None = None) -> list[Event]:
        """Handle the events of a point, and what follows them; returns those handled here."""
        due = self._take(point)
        if not due:
            return []
        for group in _groups(due):
            with ThreadPoolExecutor(len(group)) as pool:
                list(pool.map(lambda item: self._do(item, occurrence or Occurrence()), group))
        done = [event for _, event in due]
        for index, _ in due:
            done += self.reach(f"after_event:{index + 1}", occurrence)
        return done

    def unhandled(self) -> list[Event]:
        """Events whose point was never reached."""
        return [event for i, event in enumerate(self.events) if i not in self._handled]

    def _take(self, point: str) -> list[tuple[int, Event]]:
        with self._lock:
            due = [
                (index, event)
                for index, event in enumerate(self.events)
                if event["at"] == point
                and (index not in self._handled or event.get("repeat") == "always")
            ]
            self._handled.update(index for index, _ in due)
        return due

    def _do(self, item: tuple[int, Event], occurrence: Occurrence) -> None:
        index, event = item
        try:
            self.results[index] = self.perform(event, occurrence)
        except Exception as error:  # noqa: BLE001 - it belongs into the report, not into a worker
            self.problems.append(f"event {index + 1} ({event['do']}) failed: {error!r}")


def _groups(due: Sequence[tuple[int, Event]]) -> Iterator[list[tuple[int, Event]]]:
    """Events one after the other; those of one `concurrent_group` together."""

    def key(item: tuple[int, Event]) -> object:
        return item[1].get("concurrent_group", ("alone", item[0]))

    for _, group in groupby(due, key):
        yield list(group)
