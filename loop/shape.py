"""How the record of a run is shortened in one request.

A shape is data: it stands in the manifest of the request, and the next request starts from it. So
requests begin alike from step to step, and each can be built again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from umbel.contracts import Frozen

SHORT_CHARS: Final = 200
"""A result of at most so many characters is never left out: the line in its place is as long."""


class Place(Frozen):
    """A step of a run of the thread, with what people wrote before it; step 0: its request."""

    run_id: str
    step: int


class Shape(Frozen):
    """What a request leaves out; by default nothing."""

    summary: str | None = None
    """Id of the summary that stands for everything before `first_kept`."""
    first_kept: Place | None = None
    pruned_before: Place | None = None
    """Results before this place are a line that names their evidence."""
    shortened_before: Place | None = None
    """Results before this place show `result_chars` characters at most."""
    result_chars: int | None = None


WHOLE: Final = Shape()


class Sources(Frozen):
    """What a summary is asked from."""

    before: Place
    """It is to stand for everything before this place."""
    chars: int
    """Most that the request shows of a single text."""
    words: int
    """Most that it is asked to have."""


@dataclass(frozen=True, slots=True)
class Lens:
    """A shape over runs in the order of their thread: says how much of a result is shown."""

    shape: Shape
    order: Mapping[str, int]
    """The place of each run in the thread; a run that is not in it comes before all."""

    def is_pruned(self, place: Place) -> bool:
        """Whether results at a place are only named."""
        return self._is_before(place, self.shape.pruned_before)

    def shown(self, place: Place, call_id: str, view: str) -> str:
        """What the request says of a result."""
        if self.is_pruned(place):
            return view if 0 < len(view) <= SHORT_CHARS else pruned_line(call_id)
        limit = self.limit_at(place)
        return view if limit is None or len(view) <= limit else _shortened(view, limit, call_id)

    def limit_at(self, place: Place) -> int | None:
        """Characters of a result that are shown at a place; None: all of its view."""
        is_short = self._is_before(place, self.shape.shortened_before)
        return self.shape.result_chars if is_short else None

    def _is_before(self, place: Place, border: Place | None) -> bool:
        return border is not None and self._key(place) < self._key(border)

    def _key(self, place: Place) -> tuple[int, int]:
        return self.order.get(place.run_id, -1), place.step


def pruned_line(call_id: str) -> str:
    """What stands in the place of an old result."""
    return f"[an old result, left out here; it is kept whole as evidence {call_id}]"


def _shortened(view: str, limit: int, call_id: str) -> str:
    missing = len(view) - limit
    return f"{view[:limit]}\n[shortened: {missing} characters more in evidence {call_id}]"
