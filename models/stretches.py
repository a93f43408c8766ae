"""The stretch of a run that is at hand: from its acceptance or last resume until it settles."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from models.database import Database
from umbel.contracts import RunId, ThreadId
from umbel.names import RunStatus

_STRETCH: Final = """
SELECT r.thread_id, r.status, r.reason, r.step, r.settled_at, s.agent, s.model, s.traceparent,
  e.resumes, coalesce(e.resumed_at, r.accepted_at) AS began_at
FROM runs r JOIN run_specs s ON s.run_id = r.id, LATERAL (
  SELECT count(*)::int AS resumes, max(at) AS resumed_at
  FROM events WHERE run_id = r.id AND kind = 'run.resumed') e
WHERE r.id = %(run_id)s
"""
_RESUMES: Final = """
SELECT count(*) FILTER (WHERE kind = 'run.resumed')::int AS number,
  coalesce(max(seq), %(seq)s) AS seq
FROM events WHERE run_id = %(run_id)s AND seq > %(seq)s
"""


@dataclass(frozen=True, slots=True)
class Resumes:
    """How often a run was resumed, by its events up to one."""

    number: int = 0
    seq: int = 0
    """The last event that was looked at."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Where a run stands in its present stretch, and whose it is."""

    thread_id: ThreadId
    agent: str
    model: str
    traceparent: str | None
    """The caller's place in a trace."""
    resumes: int
    """How often the run was resumed; the number of this stretch."""
    status: RunStatus
    reason: str | None
    step: int
    began_at: datetime
    settled_at: datetime | None


def load_stretch(database: Database, run_id: RunId) -> Stretch | None:
    """The present stretch of a run, or None for an id that never was.

    Raises:
        Unavailable: PostgreSQL does not answer.
    """
    [rows] = database.run((_STRETCH, {"run_id": run_id}))
    return Stretch(**rows[0]) if rows else None


def count_resumes(database: Database, run_id: RunId, since: Resumes) -> Resumes:
    """How often the run was resumed by now; reads only the events after those of `since`.

    Raises:
        Unavailable: PostgreSQL does not answer.
    """
    [rows] = database.run((_RESUMES, {"run_id": run_id, "seq": since.seq}))
    return Resumes(since.number + rows[0]["number"], rows[0]["seq"])
