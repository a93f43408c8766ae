"""Runs whose results rest on sources, and short looks at what became of those."""

from collections.abc import Mapping
from typing import Any, Final

from loop.outcome import Returned
from models.calls import settle
from models.database import Database
from models.sources import Notice, Told, record_notice, tell_runs
from models.steps import Claim
from tests.factories import OWNER
from tests.models.story import (
    ME,
    READ,
    Dispatched,
    call_ids,
    claimed,
    dispatched,
    query,
    started,
)
from umbel.contracts import CallId, RunId

NOTES: Final = "file:/srv/notes.md"
PLAN: Final = "file:/srv/plan.md"


def returned(
    database: Database, call_id: CallId, sources: Mapping[str, str | None], text: str = '"v1"'
) -> None:
    """A call that returns a text which rests on these sources."""
    settled = settle(database, started(database, call_id), Returned(text), text, sources=sources)
    assert settled is not None, "the outcome was not stored"


def after_reading(
    database: Database,
    revision: str | None = "1",
    *,
    source: str = NOTES,
    claim: Claim | None = None,
) -> Dispatched:
    """A run that has read one source and is ready for its next step."""
    done = dispatched(database, READ, claim=claim)
    returned(database, call_ids(database, done.run_id, done.claim.step)[0], {source: revision})
    return done


def notice(database: Database, revision: str | None = "2", **other: Any) -> list[Told]:
    """Everybody who was told of a change of NOTES, or of another source."""
    source = other.pop("source", NOTES)
    _, untold = record_notice(database, OWNER.tenant, Notice(source, revision, **other))
    return [] if untold is None else list(tell_runs(database, untold))


def is_news(database: Database, revision: str | None, **other: Any) -> bool:
    """Whether a notice of NOTES brings any; nobody is told."""
    return record_notice(database, OWNER.tenant, Notice(NOTES, revision, **other))[0]


def stale_claim(database: Database, run_id: RunId, step: int) -> Claim:
    """A claim under which nobody may be asked yet."""
    claim = claimed(database, run_id, step=step, worker=ME)
    assert claim.is_stale, "there is nothing to look at"
    return claim


def refreshes_of(database: Database, run_id: RunId) -> list[dict[str, Any]]:
    """The refreshes of a run, oldest first."""
    return query(
        database,
        "SELECT * FROM calls WHERE run_id = %(id)s AND refreshes IS NOT NULL"
        " ORDER BY step, position DESC",
        id=run_id,
    )
