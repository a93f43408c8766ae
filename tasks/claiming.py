"""A slot that becomes free looks into the record before it leaves.

So neither a full queue nor a broker that is away makes it idle.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from models.claiming import next_call, next_step
from tasks.runtime import Runtime
from tasks.step import run_step
from tasks.tool_call import run_call
from umbel.contracts import CallId, RunId
from umbel.errors import Unavailable
from umbel.faults import fault
from umbel.log_context import afresh
from umbel.names import LOOP_QUEUE, SUSPECT_QUEUE, TOOLS_QUEUE

log: Final = logging.getLogger(__name__)

MOST: Final = 20
LONGEST_SECONDS: Final = 30.0
"""After so many, or so long, a slot goes back to the pool: its message must end some time."""
HEARD_SECONDS: Final = 0.5
"""What was announced within this time is left to whoever hears of it."""


@dataclass(frozen=True, slots=True)
class Found:
    """A ready row that this process is to carry: itself, or by ringing for it."""

    tenant: str
    carry: Callable[[], str]
    ring: Callable[[], bool]


Look = Callable[[Runtime, str], Found | None]
"""Finds and marks the next row: of the tenant behind the given one, if that has any."""


def carry_steps(runtime: Runtime, run_id: RunId, step: int) -> str:
    """Carry a run through one step, then others that are ready; a line that says what happened."""
    said = run_step(runtime, run_id, step)
    return said + _and_more(carry_next(runtime, find_step))


def carry_calls(runtime: Runtime, call_id: CallId) -> str:
    """Run a call, then others that are ready; a line that says what happened."""
    said = run_call(runtime, call_id)
    return said + _and_more(carry_next(runtime, find_call))


def carry_next(runtime: Runtime, look: Look, after: str = "") -> int:
    """Carry what is ready, one tenant after the other, until nothing is or the time is over."""
    began, tenant = time.monotonic(), after
    for count in range(MOST + 1):
        found = find_next(runtime, look, tenant)
        if found is None:
            return count
        if count == MOST or time.monotonic() - began >= LONGEST_SECONDS:
            found.ring()
            return count
        tenant = found.tenant
        carry_found(found)
    return MOST


def find_next(runtime: Runtime, look: Look, after: str) -> Found | None:
    """What this process is to carry next; None: nothing, or it may not take anything now."""
    if runtime.draining.is_set() or runtime.is_presence_lost():
        return None
    try:
        found = look(runtime, after)
    except Unavailable:
        return None
    if found is not None:
        fault("next.marked")
    return found


def carry_found(found: Found) -> None:
    """Carry it as if its message had come. Never raises: it is written down and given back."""
    try:
        with afresh():
            found.carry()
    except Exception:  # a message that led here was about another one
        log.exception("work found in the record failed")


def looks_of(runtime: Runtime) -> tuple[Look, ...]:
    """Where a process of these queues looks."""
    steps = {LOOP_QUEUE, SUSPECT_QUEUE} & set(runtime.queues)
    calls = TOOLS_QUEUE in runtime.queues
    return (*((find_step,) if steps else ()), *((find_call,) if calls else ()))


def find_step(runtime: Runtime, after: str) -> Found | None:
    """The next step of this process's duty."""
    duty = replace(runtime.duty, may_risk=not runtime.risk.locked())
    found = next_step(runtime.database, duty, after=after, heard_seconds=_heard_seconds(runtime))
    if found is None:
        return None
    return Found(
        found.tenant,
        lambda: run_step(runtime, found.run_id, found.step),
        lambda: runtime.ringer.ring_step(found.run_id, found.step),
    )


def find_call(runtime: Runtime, after: str) -> Found | None:
    """The next call."""
    found = next_call(runtime.database, after=after, heard_seconds=_heard_seconds(runtime))
    if found is None:
        return None
    return Found(
        found.tenant,
        lambda: run_call(runtime, found.call_id),
        lambda: runtime.ringer.ring_call(found.call_id, found.tool),
    )


def _heard_seconds(runtime: Runtime) -> float:
    """Shorter than the time between two announcements, which else would hide what nobody hears."""
    return min(HEARD_SECONDS, runtime.ring_after_seconds / 2)


def _and_more(count: int) -> str:
    return f"; then {count} more" if count else ""
