"""A notice that a source has changed, from whoever heard of it to the streams that must end."""

from collections.abc import Callable
from dataclasses import dataclass

from locks.wake_ups import WakeUps
from models.database import Database
from models.sources import Notice, Told, Untold, record_notice, tell_runs
from umbel.contracts import RunId

Ring = Callable[[RunId, int], object]
"""Announces the step of a run that is ready for it."""


@dataclass(frozen=True, slots=True)
class SourceNoted:
    """What came of a notice."""

    source: str
    is_new: bool
    """False: it is known already, or older than what is known."""
    run_ids: tuple[RunId, ...]
    """Runs at work that rest on it and look at it before they ask again."""


def note_source(
    database: Database, wake_ups: WakeUps, ring: Ring, tenant: str, notice: Notice
) -> SourceNoted:
    """Let every run of a tenant that rests on a source hear that it has changed.

    Safe to repeat: what is no news tells nobody, unless somebody died while telling.

    Raises:
        InvalidInput: the notice cannot be stored, or names nothing.
        Unavailable: PostgreSQL does not answer; repeat it. What is recorded is told in any case.
    """
    is_new, untold = record_notice(database, tenant, notice)
    told = tell(database, wake_ups, ring, untold) if untold is not None else []
    return SourceNoted(notice.source, is_new, tuple(one.run_id for one in told))


def tell(database: Database, wake_ups: WakeUps, ring: Ring, untold: Untold) -> list[Told]:
    """Tell the runs, end their streams, and ring for those that are ready; who was told."""
    told: list[Told] = []
    for one in tell_runs(database, untold):
        told.append(one)
        if one.moves:
            wake_ups.send([one.run_id])
        if one.next_step is not None:
            ring(one.run_id, one.next_step)
    return told
