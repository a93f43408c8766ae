"""What stands behind a verb that was done before, or has to be found out. Reads only."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from models.database import Database, Row
from models.hot_owner import DRAINING
from umbel.contracts import CallId, RunId
from umbel.names import RunStatus, SteerMode, SteerState, Verification

_STEER: Final = "SELECT text, mode, state FROM steers WHERE id = %(steer_id)s"
# A correction of a run that stands still waits for the request after its resume.
_STEERS: Final = """
SELECT s.id AS steer_id, s.rev, s.author, s.mode, s.text, s.created_at,
  CASE WHEN s.state = 'accepted' AND r.status IN ('paused', 'failed') THEN 'deferred'
    ELSE s.state END AS state
FROM steers s JOIN runs r ON r.id = s.run_id WHERE s.run_id = %(run_id)s ORDER BY s.rev
"""
_LEFT: Final = "SELECT status, unknowns FROM runs WHERE id = %(run_id)s"
_RECEIPT: Final = """
SELECT x.call_id, x.run_id, c.tool, x.args_text,
  CASE WHEN x.outcome IS NULL THEN 'open' ELSE x.outcome END AS outcome, x.is_late,
  x.intent_at, x.closed_at, x.verified, x.verified_by, x.verified_text, x.verified_at,
  x.late_outcome, coalesce(x.resources, '[]'::jsonb) AS resources
FROM receipts x JOIN calls c ON c.id = x.call_id
"""
_ONE: Final = f"{_RECEIPT} WHERE x.call_id = %(call_id)s AND x.tenant = %(tenant)s"
_SEVERAL: Final = f"""
{_RECEIPT}
WHERE (%(tenant)s::text IS NULL OR x.tenant = %(tenant)s)
  AND (%(run_id)s::text IS NULL OR x.run_id = %(run_id)s)
  AND (NOT %(only_unknown)s OR (x.outcome = 'unknown' AND x.verified IS NULL))
ORDER BY x.intent_at DESC, x.call_id DESC LIMIT %(limit)s
"""


@dataclass(frozen=True, slots=True)
class KnownSteer:
    """A correction as it was accepted, and what became of it."""

    text: str
    mode: SteerMode
    state: SteerState


@dataclass(frozen=True, slots=True)
class ShownSteer:
    """A correction as people are shown it."""

    steer_id: str
    rev: int
    author: str
    mode: SteerMode
    text: str
    created_at: datetime
    state: SteerState
    """`deferred`: its run stands still and hears it when it is resumed."""


@dataclass(frozen=True, slots=True)
class Left:
    """What a run has left."""

    status: RunStatus
    unknowns: int
    draining: tuple[CallId, ...]
    """Calls that are started."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """A change that was sent, or was about to be."""

    call_id: CallId
    run_id: RunId
    tool: str
    args_text: str
    """The exact bytes that were sent."""
    outcome: str
    """`open`: not reported yet; `done`, `not_done` or `unknown`."""
    is_late: bool
    intent_at: datetime
    closed_at: datetime | None
    verified: Verification | None
    verified_by: str | None
    verified_text: str | None
    verified_at: datetime | None
    late_outcome: str | None
    """What the tool reported after its owner had spoken."""
    resources: tuple[str, ...]
    """Ids of what it made outside, as far as the tool has named them."""


def known_steer(database: Database, steer_id: str) -> KnownSteer:
    """A correction that exists."""
    [rows] = database.run((_STEER, {"steer_id": steer_id}))
    return KnownSteer(**rows[0])


def steers_of(database: Database, run_id: RunId) -> list[ShownSteer]:
    """Every correction of a run, in order."""
    [rows] = database.run((_STEERS, {"run_id": run_id}))
    return [ShownSteer(**row) for row in rows]


def left_of(database: Database, run_id: RunId) -> Left:
    """How a run that exists stands, and which of its calls are started."""
    parameters = {"run_id": run_id}
    rows, draining = database.run((_LEFT, parameters), (DRAINING, parameters))
    calls = tuple(CallId(row["id"]) for row in draining)
    return Left(rows[0]["status"], rows[0]["unknowns"], calls)


def known_receipt(database: Database, call_id: CallId, tenant: str) -> Receipt | None:
    """The receipt of a change of this tenant."""
    [rows] = database.run((_ONE, {"call_id": call_id, "tenant": tenant}))
    return _receipt_of(rows[0]) if rows else None


def list_receipts(
    database: Database,
    *,
    tenant: str | None,
    run_id: RunId | None = None,
    only_unknown: bool = False,
    limit: int = 100,
) -> list[Receipt]:
    """The newest receipts, of every tenant where none is given."""
    parameters = {
        "tenant": tenant,
        "run_id": run_id,
        "only_unknown": only_unknown,
        "limit": limit,
    }
    [rows] = database.run((_SEVERAL, parameters))
    return [_receipt_of(row) for row in rows]


def _receipt_of(row: Row) -> Receipt:
    facts: dict[str, Any] = {**row, "resources": tuple(row["resources"])}
    return Receipt(**facts)
