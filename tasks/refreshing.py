"""A step whose results rest on what has changed: they are read again before the model is asked."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from loop.gaps import DELETED, UNREADABLE, changed_since, gap, volatile
from models.hot_sources import MAX_REFRESHES
from models.records import RunSpec
from models.refreshing import Affected, Refresh, begin_refresh, look, stay
from models.steps import Applied, Claim
from tasks.giving_back import hand_back
from tasks.persisting import persist
from tasks.runtime import Runtime
from umbel.contracts import CallId, new_id
from umbel.faults import fault

_NOT_OFFERED: Final = "This run may not use the tool that read it."


def refresh(runtime: Runtime, claim: Claim, spec: RunSpec) -> tuple[str, Applied]:
    """Have every affected result read again, or go on; a line that says what, and what is due.

    Nothing is asked under this claim. The reads are calls of their own, so that whoever dies amid
    them is replaced as always; the claim after them looks again.
    """
    facts = {"run_id": claim.run_id, "step": str(claim.step)}
    affected = look(runtime.database, claim)
    refreshes = plan_refreshes(affected, spec)
    fault("refresh.begin_pre", **facts)
    if refreshes:
        applied = persist(lambda: begin_refresh(runtime.database, claim, refreshes))
        line = f"refresh {len(refreshes)}"
    else:
        applied = persist(lambda: stay(runtime.database, claim, waits=bool(affected)))
        line = "evidence is current"
    fault("refresh.begin_post", **facts)
    if applied is not None:
        return line, applied
    back = hand_back(
        runtime, claim, wait_seconds=0, detail="The run has moved on.", is_failure=False
    )
    is_due = back is not None and back.ended is None
    return "moved on", Applied(next_step=claim.step if is_due else None)


def plan_refreshes(affected: Sequence[Affected], spec: RunSpec) -> list[Refresh]:
    """What becomes of each result; those that were read again often enough are left out."""
    due = [one for one in affected if one.tries <= MAX_REFRESHES]
    reads = 0
    planned: list[Refresh] = []
    for place, one in enumerate(due, start=1):
        stands = _stands_for(one, spec)
        reads += stands is None
        planned.append(_refresh(one, place, stands, is_ready=reads <= spec.policy.parallel))
    return planned


@dataclass(frozen=True, slots=True)
class _Stands:
    """What is shown of a result without reading it again."""

    view: str
    is_current: bool = True
    """False: the next step reads it again."""


def _stands_for(one: Affected, spec: RunSpec) -> _Stands | None:
    """What is shown in place of a result; None: it is read again."""
    sources = [changed.source for changed in one.changed]
    if one.effect == "mutation":  # what was done is done, and is not done again
        return _Stands(changed_since(sources, one.view))
    if len(sources) == one.named and all(changed.is_deleted for changed in one.changed):
        reasons = (changed.reason for changed in one.changed if changed.reason)
        return _Stands(gap(sources, DELETED, "; ".join(reasons)))
    frozen = spec.tool(one.tool)
    if frozen is None or frozen["version"] != one.tool_version:
        return _Stands(gap(sources, UNREADABLE, _NOT_OFFERED))
    if one.tries == MAX_REFRESHES:
        return _Stands(volatile(sources, one.view), is_current=False)
    return None


def _refresh(one: Affected, place: int, stands: _Stands | None, *, is_ready: bool) -> Refresh:
    reading = "ready" if is_ready else "planned"
    return Refresh(
        id=CallId(new_id("call")),
        place=place,
        root=one.root,
        handle=one.handle,
        tool=one.tool,
        tool_version=one.tool_version,
        placement=one.placement,
        effect="read" if one.effect == "mutation" else one.effect,
        state=reading if stands is None else "returned",
        args_text=one.args_text,
        stall_seconds=one.stall_seconds,
        body=None if stands is None else json.dumps(stands.view, ensure_ascii=False),
        view=None if stands is None else stands.view,
        changed=() if stands is not None and not stands.is_current else one.changed,
    )
