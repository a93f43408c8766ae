"""Before the model is asked: results that rest on what has changed, and reading them again."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from models import hot_refresh, hot_sources
from models.calls import ReadyCall
from models.database import Database, Row
from models.steps import Applied, Claim, stands
from umbel.contracts import CallId
from umbel.names import Effect

BATCH: Final = 200
"""Results that are read again at once; the next look finds the others."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A source of a result that has changed since it was read."""

    source: str
    seq: int
    """Notices of it so far."""
    is_deleted: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Affected:
    """A result that the next request would show, with what has changed about it."""

    root: CallId
    """The call that the model made."""
    handle: str
    """The evidence that is shown of it now."""
    tool: str
    tool_version: str
    effect: Effect
    placement: str
    args_text: str
    stall_seconds: float
    view: str
    changed: tuple[Changed, ...]
    named: int
    """Sources that it rests on, changed or not."""
    tries: int
    """Times it has been read again for this step."""


@dataclass(frozen=True, slots=True)
class Refresh:
    """A result to read again, or what stands in its place."""

    id: CallId
    place: int
    """From 1 within its batch."""
    root: CallId
    handle: str
    tool: str
    tool_version: str
    placement: str
    effect: Effect
    state: str
    """`ready` or `planned` to be read; `returned` with a body."""
    args_text: str
    stall_seconds: float
    body: str | None
    view: str | None
    changed: tuple[Changed, ...]
    """What it is current about once it has ended."""


def look(database: Database, claim: Claim) -> list[Affected]:
    """Results that the run's requests show and whose sources have changed; some, if many."""
    [rows] = database.run((hot_sources.LOOK, {"run_id": claim.run_id, "limit": BATCH}))
    return [_affected(row) for row in rows]


def begin_refresh(database: Database, claim: Claim, refreshes: Sequence[Refresh]) -> Applied | None:
    """Give the run to the calls that read its results again; None: the claim no longer holds.

    The step stays: when the last of them has ended the run is ready for it. No call is counted.
    """
    rows = json.dumps([asdict(refresh) for refresh in refreshes])
    [begun] = database.run((hot_refresh.BEGIN, stands(claim) | {"refreshes": rows}))
    if not begun:
        return None
    ready = (ReadyCall(r.id, r.tool) for r in refreshes if r.state == "ready")
    next_step = begun[0]["step"] if begun[0]["work"] == "ready" else None
    return Applied(ready_calls=tuple(ready), next_step=next_step)


def stay(database: Database, claim: Claim, *, waits: bool) -> Applied | None:
    """Let the step be asked with what there is; None: the claim no longer holds.

    With `waits` the next step looks again, without another notice.
    """
    [rows] = database.run((hot_refresh.STAY, stands(claim) | {"waits": waits}))
    return Applied(next_step=claim.step) if rows else None


def _affected(row: Row) -> Affected:
    return Affected(
        root=CallId(row["root"]),
        handle=row["handle"],
        tool=row["tool"],
        tool_version=row["tool_version"],
        effect=row["effect"],
        placement=row["placement"],
        args_text=row["args_text"] or "{}",
        stall_seconds=row["stall_seconds"],
        view=row["view"] or "",
        changed=tuple(Changed(**one) for one in row["changed"]),
        named=row["named"],
        tries=row["tries"],
    )
