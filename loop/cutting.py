"""Cutting a record between two steps: what is left out, and what is kept.

A group is a reply with all its results and the corrections before it: left out whole, or kept
whole. The request of the first run of which anything is kept stays, and so do corrections of it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from loop.shape import Place
from loop.transcript import RecordedRun, RecordedStep, RecordedSummary, RunRecord
from umbel.errors import InvariantBroken


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What a cut leaves out, in order."""

    summary: RecordedSummary | None
    """What stood for all before it."""
    runs: tuple[RecordedRun, ...]
    """Requests only where the whole run is left out."""


def places_of(record: RunRecord) -> tuple[Place, ...]:
    """Where the record can be cut, oldest first: before each of these."""
    found = [place for run in record.earlier for place in _places_in(run)]
    own = [Place(run_id=record.run_id, step=step.step) for step in record.steps]
    return (*found, *(own or [Place(run_id=record.run_id, step=1)]))


def kept_from(record: RunRecord, place: Place, summary: RecordedSummary) -> RunRecord:
    """The record from a place on, with the summary of what was before it.

    The corrections of the first kept run that are left out stand in the summary, verbatim.

    Raises:
        InvariantBroken: the record has no such run.
    """
    at = _index_of(record, place)
    first = record.runs[at]
    kept = tuple(step for step in first.steps if step.step >= place.step)
    texts, steers = _corrections_before(record, at, place)
    shown = replace(summary, corrections=texts, steers=steers)
    if at == len(record.earlier):
        return replace(record, earlier=(), steps=kept, summary=shown)
    rest = record.earlier[at + 1 :]
    return replace(record, earlier=(replace(first, steps=kept), *rest), summary=shown)


def left_out_before(record: RunRecord, place: Place) -> LeftOut:
    """What `kept_from` leaves out.

    Raises:
        InvariantBroken: the record has no such run.
    """
    at = _index_of(record, place)
    runs = list(record.runs[:at])
    if runs and record.summary is not None:  # what stood verbatim beside it does so no more
        runs[0] = replace(runs[0], requests=(*runs[0].requests, *record.summary.corrections))
    partly = tuple(step for step in record.runs[at].steps if step.step < place.step)
    if partly:
        # Its request and corrections stay, so they are told again by nobody.
        silent = tuple(replace(step, corrections=()) for step in partly)
        runs.append(RecordedRun((), silent, place.run_id))
    return LeftOut(record.summary, tuple(runs))


def steps_of(left_out: LeftOut) -> Iterator[RecordedStep]:
    """Its groups."""
    for run in left_out.runs:
        yield from run.steps


def _places_in(run: RecordedRun) -> Iterator[Place]:
    yield Place(run_id=run.run_id, step=0)
    for step in run.steps:
        yield Place(run_id=run.run_id, step=step.step)


def _index_of(record: RunRecord, place: Place) -> int:
    for at, run in enumerate(record.runs):
        if run.run_id == place.run_id:
            return at
    raise InvariantBroken(f"A request was cut at run {place.run_id!r}, which its record lacks.")


def _corrections_before(record: RunRecord, at: int, place: Place) -> tuple[tuple[str, ...], int]:
    """Corrections of the run at `at` before a place, and how many of its corrections those are."""
    stood = record.summary if at == 0 else None
    texts = stood.corrections if stood else ()
    steers = stood.steers if stood else 0
    for step in record.runs[at].steps:
        if step.step < place.step:
            texts += step.corrections
            steers = step.steers
    return texts, steers
