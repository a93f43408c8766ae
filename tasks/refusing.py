"""Calls that this worker does not start: refused, or left to workers that have their tool."""

import logging
from typing import Final

from loop.decision import Pause
from loop.outcome import Refused
from models.calls import CallRow, Settled, give_up
from models.handing_back import Patience, leave_call
from models.records import RunSpec
from tasks.authority import refusal_of
from tasks.runtime import Runtime
from tools.definition import Tool
from tools.registry import digest_of
from tools.result import error_text
from umbel.errors import ContractMismatch, Misconfigured
from umbel.faults import fault
from umbel.names import CALL

log: Final = logging.getLogger(__name__)

LOOKS_AT_ONCE: Final = 3
FURTHER_LOOKS: Final = 5
"""Spread over the patience of the settings; at the last one the call is refused."""
MOST_LOOKS: Final = LOOKS_AT_ONCE + FURTHER_LOOKS


def prepare(runtime: Runtime, call: CallRow) -> tuple[RunSpec, Tool] | str:
    """What a call is to be run with; else it is not started here, and the line says what was done.

    Its run was accepted with a contract, rules may forbid it by now, and its tool may not be here.
    """
    try:
        spec = runtime.specs.get(call.run_id)
    except ContractMismatch as mismatch:
        message = "What this run was accepted with is not what its hash says. Nothing was done."
        refused = Refused(error_text("contract_mismatch", message))
        return _refuse(runtime, call, refused, Pause("contract_mismatch", str(mismatch)))
    forbidden = refusal_of(call, spec)
    if forbidden is not None:
        return _refuse(runtime, call, forbidden)
    tool = _find_tool(runtime, call, spec)
    return (spec, tool) if tool is not None else _leave_to_others(runtime, call, spec)


def ring_for(runtime: Runtime, call: CallRow, settled: Settled | None) -> None:
    """Ring for what the end of a call has made ready."""
    if settled is None:
        return
    if settled.next_call is not None:
        runtime.ringer.ring_call(settled.next_call.call_id, settled.next_call.tool)
    if settled.next_step is not None:
        runtime.ringer.ring_step(call.run_id, settled.next_step)


def _find_tool(runtime: Runtime, call: CallRow, spec: RunSpec) -> Tool | None:
    """The tool as the run was accepted with it; None: it is not installed here."""
    try:
        tool = runtime.registry.get(call.tool)
    except Misconfigured:
        return None
    return tool if tool.frozen() == spec.tool(call.tool) else None


def _leave_to_others(runtime: Runtime, call: CallRow, spec: RunSpec) -> str:
    """Leave a call whose tool is not here; a line that says what happened.

    Workers are upgraded one after the other, so another one may have the tool, or soon. Only when
    none has had it for a while is the call refused, and its run pauses: nobody guesses.
    """
    patience = Patience(
        LOOKS_AT_ONCE,
        runtime.tool_patience_seconds / FURTHER_LOOKS,
        runtime.duty.dead_after_seconds,
    )
    runtime.meter.idle(CALL)
    fault("call.leave_pre", call_id=call.call_id, run_id=call.run_id)
    left = leave_call(runtime.database, call, digest_of(spec.tool(call.tool) or {}), patience)
    fault("call.leave_post", call_id=call.call_id, run_id=call.run_id)
    if left is None:
        return "left to others: it is too early for another look"
    if left.misses >= MOST_LOOKS:
        return _refuse(runtime, call, _unavailable(call), _mismatch(call))
    log.warning(
        "tool of a call is not installed here",
        extra={"run_id": call.run_id, "call_id": call.call_id, "tool": call.tool},
    )
    if left.is_due:
        runtime.ringer.ring_call(call.call_id, call.tool, left.rings)
    return "left to others: no such tool here"


def _refuse(runtime: Runtime, call: CallRow, refused: Refused, pause: Pause | None = None) -> str:
    """End a call that may not or cannot be started; with `pause` its run pauses at the join."""
    fault("call.give_up_pre", call_id=call.call_id, run_id=call.run_id)
    settled = give_up(runtime.database, call, refused, pause)
    fault("call.give_up_post", call_id=call.call_id, run_id=call.run_id)
    if settled is not None:
        runtime.note_end(call.run_id, settled.ended)
    ring_for(runtime, call, settled)
    return "refused: not permitted" if pause is None else "refused: contract_mismatch"


def _unavailable(call: CallRow) -> Refused:
    return Refused(
        error_text(
            "tool_unavailable",
            f"{call.tool} version {call.tool_version}, as this run was offered it, is not "
            "installed on any worker. Nothing was done.",
        )
    )


def _mismatch(call: CallRow) -> Pause:
    return Pause(
        "contract_mismatch",
        f"No worker has the tool {call.tool!r}, version {call.tool_version}, as this run was "
        "offered it: `umbel doctor` says which tools are missing or differ. Install it "
        "(UMBEL_TOOLS), restart the tool workers, then `umbel runs resume RUN`: the call was not "
        "done, and the model may ask for it again.",
    )
