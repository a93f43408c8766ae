"""Making a request fit: reducers in the order of the policy, none of which the loop knows of.

Each goes down to a low mark, so that the requests after it only add at the end for a while.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from loop.budget import Budget
from loop.cutting import kept_from, places_of
from loop.policy import Reducer
from loop.shape import Place, Shape
from loop.transcript import RecordedSummary, RunRecord, build_request, lens_of
from loop.weight import Weight, weigh, weigh_tools

Item = TypeVar("Item")

_RELIEF: Final = 0.95
"""A cut must bring a request below this share of its size to be worth a model call."""
_RESULT_CHARS: Final = (8_000, 4_000, 2_000, 1_000, 500, 250)
"""What results may be shortened to; the first that fits is taken."""


@dataclass(frozen=True, slots=True)
class Fits:
    """The request may be sent in this shape."""

    shape: Shape


@dataclass(frozen=True, slots=True)
class Cuts:
    """Everything before a place is to be left out, with a summary in its place."""

    first_kept: Place
    shape: Shape


@dataclass(frozen=True, slots=True)
class TooLarge:
    """Whatever may be left out is, and the request does not fit."""

    detail: str


Plan = Fits | Cuts | TooLarge


@dataclass(frozen=True, slots=True)
class Scale:
    """What requests are measured with."""

    budget: Budget
    bytes_per_token: float

    def tokens(self, record: RunRecord, shape: Shape) -> int:
        """A request in tokens."""
        return weigh(build_request(record, shape)).tokens(self.bytes_per_token)


@dataclass(frozen=True, slots=True)
class Reducing:
    """One request on its way to its budget."""

    record: RunRecord
    scale: Scale
    protected_steps: int
    """The latest steps whose results are left as they are as long as something else gives way."""

    def tokens(self, shape: Shape) -> int:
        """The request in tokens."""
        return self.scale.tokens(self.record, shape)


def plan_request(reducing: Reducing, shape: Shape, reducers: Sequence[Reducer]) -> Plan:
    """What to leave out of a request so that it fits, starting from the shape of the one before."""
    budget = reducing.scale.budget
    schemas = weigh_tools(reducing.record.tools).tokens(reducing.scale.bytes_per_token)
    if schemas > budget.schema_tokens:
        return TooLarge(_schemas_detail(reducing.record, schemas, budget))
    if reducing.tokens(shape) <= budget.tokens:
        return Fits(shape)
    for name in reducers:
        found = _REDUCERS[name](reducing, shape)
        if isinstance(found, Cuts):
            return found
        shape = found
        if reducing.tokens(shape) <= budget.low_tokens:
            return Fits(shape)
    size = reducing.tokens(shape)
    return Fits(shape) if size <= budget.tokens else TooLarge(_detail(size, budget))


def _prune(reducing: Reducing, shape: Shape) -> Shape:
    """Old results become a line each, oldest first, as few as are needed."""
    places = places_of(reducing.record)
    last = max(0, len(places) - reducing.protected_steps)
    shapes = [shape] + [
        shape.model_copy(update={"pruned_before": place})
        for place in places[1 : last + 1]
        if not lens_of(reducing.record, shape).is_pruned(place)
    ]
    return shapes[_first_below(reducing.scale.budget.low_tokens, reducing.tokens, shapes)]


def _cut(reducing: Reducing, shape: Shape) -> Shape | Cuts:
    """Whole steps give way to a summary, as few as are needed."""
    record, budget = reducing.record, reducing.scale.budget
    places = places_of(record)[1:]
    if not places:
        return shape
    room = "x" * int(budget.summary_tokens * reducing.scale.bytes_per_token)
    stand_in = RecordedSummary(room, record.summary.unresolved if record.summary else "")

    def tokens_from(place: Place) -> int:
        return reducing.scale.tokens(kept_from(record, place, stand_in), shape)

    at = _first_below(budget.low_tokens, tokens_from, places)
    tail = max(0, len(places) - reducing.protected_steps)
    if at > tail and tokens_from(places[tail]) <= budget.tokens:
        at = tail
    if tokens_from(places[at]) >= _RELIEF * reducing.tokens(shape):
        return shape
    return Cuts(places[at], shape)


def _compress(reducing: Reducing, shape: Shape) -> Shape:
    """Every result that is still shown is shortened, no more than is needed."""
    if reducing.tokens(shape) <= reducing.scale.budget.tokens:
        return shape
    places = places_of(reducing.record)
    behind = Place(run_id=places[-1].run_id, step=places[-1].step + 1)
    lens = lens_of(reducing.record, shape)
    known = [lens.limit_at(place) for place in places if not lens.is_pruned(place)]
    most = min((chars for chars in known if chars is not None), default=_RESULT_CHARS[0])
    shapes = [shape] + [
        shape.model_copy(update={"shortened_before": behind, "result_chars": chars})
        for chars in _RESULT_CHARS
        if chars <= most
    ]
    return shapes[_first_below(reducing.scale.budget.tokens, reducing.tokens, shapes)]


_REDUCERS: Final[Mapping[Reducer, Callable[[Reducing, Shape], Shape | Cuts]]] = {
    "prune": _prune,
    "cut": _cut,
    "compress": _compress,
}


def _first_below(limit: int, size_of: Callable[[Item], int], items: Sequence[Item]) -> int:
    """The first of ever smaller items that is at most `limit`, or the last."""
    low, high = 0, len(items) - 1
    while low < high:
        middle = (low + high) // 2
        if size_of(items[middle]) <= limit:
            high = middle
        else:
            low = middle + 1
    return low


def _detail(size: int, budget: Budget) -> str:
    return (
        f"What must be in the request has about {size} tokens, and {budget.tokens} fit beside the "
        "answer. Nothing was sent. Start a new run with a shorter request, or with a model of a "
        "larger window (`[models.NAME]` in umbel.toml)."
    )


def _schemas_detail(record: RunRecord, schemas: int, budget: Budget) -> str:
    return (
        f"The schemas of the {len(record.tools)} tools have about {schemas} tokens alone, and at "
        f"most {budget.schema_tokens} may be taken by them. Nothing was sent. Start a new run with "
        "fewer tools (`tools` of the agent), or with a model of a larger window."
    )


def refused_weight(before: Weight | None, now: Weight) -> Weight:
    """The lighter of two requests that an endpoint refused for their size."""
    return now if before is None or now.text_bytes < before.text_bytes else before
