"""One tool call: start or intent, run, outcome and join in one commit."""

import logging
import time
from typing import Final

from billiard.common import terminate_handler_fired  # type: ignore[attr-defined]  # stubs are older

from loop.outcome import Errored, Refused, Returned, Skipped, ToolOutcome, Unknown
from models.calls import (
    CallRow,
    Settled,
    Started,
    find_own_start,
    free_own_read,
    load_call,
    record_intent,
    settle,
    start_read,
)
from models.handing_back import hand_back_read
from models.records import RunSpec
from models.resource_keys import put_off_change, sent_again
from models.sweeping import stalled_read
from tasks.capturing import CallCapture
from tasks.drain_reads import ReadInterrupted, ToolCode, ToolStalled
from tasks.next_change import ring_next_change
from tasks.persisting import persist
from tasks.refusing import prepare, ring_for
from tasks.runtime import Runtime
from tasks.tool_context import RunToolContext
from tools.definition import Tool
from tools.execution import run_tool
from tools.result import error_text, view_of
from umbel.contracts import CallId
from umbel.errors import Unavailable
from umbel.faults import fault
from umbel.log_context import bind
from umbel.names import CALL

log: Final = logging.getLogger(__name__)


def run_call(runtime: Runtime, call_id: CallId) -> str:
    """Run a call if it is ready; a line that says what happened.

    Safe to call any number of times, late, or on several workers at once: a change has one intent,
    ever, and only the worker that wrote it sends the change.
    """
    if runtime.draining.is_set():
        _pass_on(runtime, call_id)
        return "left to others: this worker is about to end"
    with runtime.carried.enter(call_id) as is_first:
        if not is_first:
            runtime.meter.idle(CALL)
            return "carried by this worker already"
        return _run_alone(runtime, call_id)


def _pass_on(runtime: Runtime, call_id: CallId) -> None:
    """Ring for a call that is still ready: this message was somebody's only one."""
    call = load_call(runtime.database, call_id)
    if call is not None and call.state == "ready":
        runtime.ringer.ring_call(call_id, call.tool)


def _run_alone(runtime: Runtime, call_id: CallId) -> str:
    fault("call.received", call_id=call_id)
    call = load_call(runtime.database, call_id)
    if call is None or call.state != "ready":
        runtime.meter.idle(CALL)
        return "nothing to do"
    prepared = prepare(runtime, call)
    if isinstance(prepared, str):
        return prepared
    spec, tool = prepared
    asked_at = time.monotonic()
    started = _start(runtime, call)
    if started is None:
        return _not_started(runtime, call)
    bind(run_id=call.run_id, step_no=call.step, fence=call.fence, attempt=started.attempt)
    try:
        point = "call.intent_saved" if call.effect == "mutation" else "call.started"
        fault(point, call_id=call.call_id, run_id=call.run_id)
        with runtime.meter.call(tool.name, call.waited_seconds):
            return _carry(runtime, started, spec, tool, asked_at)
    except ReadInterrupted:
        return _hand_back(runtime, started)
    except BaseException:  # even a killed greenlet must not leave its call with a living worker
        _abandon(runtime, started)
        raise


def _not_started(runtime: Runtime, call: CallRow) -> str:
    """What a call waits for that was ready and may not start."""
    runtime.meter.idle(CALL)
    if call.effect == "mutation" and put_off_change(runtime.database, call):
        return "put off: another change of the same resource may be on its way"
    return "not started: the call or its run has moved on"


def _carry(runtime: Runtime, started: Started, spec: RunSpec, tool: Tool, asked_at: float) -> str:
    """From the start to the recorded outcome."""
    # The end of a worker cuts short what may run twice, and nothing else.
    code = ToolCode(
        runtime.draining, started.call.stall_seconds, may_repeat=tool.effect != "mutation"
    )
    context = RunToolContext(runtime.database, started, spec.workspace, code, runtime.web_access)
    with runtime.tracer.tool_call(started, spec) as span:
        outcome = _too_late(started, asked_at) or _run(runtime, started, tool, context, code)
        span.ended(outcome)
    fault("call.effect_done", call_id=started.call.call_id, run_id=started.call.run_id)
    settled = _settle(runtime, started, spec, outcome, context)
    return f"{type(outcome).__name__.lower()}, {'recorded' if settled else 'too late'}"


def _run(
    runtime: Runtime, started: Started, tool: Tool, context: RunToolContext, code: ToolCode
) -> ToolOutcome:
    """Run the tool's code until it returns or has been silent for too long."""
    try:
        with runtime.reads.reading(code):
            return run_tool(
                tool,
                started.args_text,
                context,
                writer=CallCapture(runtime.database, started, code),
                is_cut_short=lambda: code.cut is not None or terminate_handler_fired(),
            )
    except ToolStalled:
        seconds = started.call.stall_seconds
        if tool.effect == "mutation":
            return Unknown(f"The tool gave no sign of life for {seconds:g} seconds and was ended.")
        return stalled_read(seconds)


def _too_late(started: Started, asked_at: float) -> Errored | None:
    """Why a change is not sent any more, after a freeze between its intent and its sending.

    It may be unknown by now, and its owner may have verified that it did not happen.
    """
    call = started.call
    if call.effect != "mutation" or time.monotonic() - asked_at < call.stall_seconds:
        return None
    message = "Its worker was held up until after its deadline. Nothing was sent."
    return Errored(error_text("too_late", message))


def _hand_back(runtime: Runtime, started: Started) -> str:
    """Leave a read that was cut short to another worker, or end it where nobody would run it."""
    call = started.call
    fault("call.hand_back_pre", call_id=call.call_id, run_id=call.run_id)
    is_back = persist(lambda: hand_back_read(runtime.database, started))
    fault("call.hand_back_post", call_id=call.call_id, run_id=call.run_id)
    if is_back:
        runtime.ringer.ring_call(call.call_id, call.tool)
        return "handed back: this worker is about to end"
    cut = Errored(error_text("interrupted", "The worker ended, and the run had moved on."))
    settled = persist(lambda: settle(runtime.database, started, cut, cut.text))
    _count(runtime, call, settled, cut)
    ring_for(runtime, call, settled)
    return "ended early: its run has moved on"


def _abandon(runtime: Runtime, started: Started) -> None:
    """Give up a call whose outcome is lost: a read runs again, of a change nobody knows."""
    call = started.call
    fault("call.abandon_pre", call_id=call.call_id, run_id=call.run_id)
    if call.effect == "mutation":
        gone = Unknown("The worker's code was ended while the change was on its way.")
        settled = persist(lambda: settle(runtime.database, started, gone, ""))
        fault("call.abandon_post", call_id=call.call_id, run_id=call.run_id)
        _count(runtime, call, settled, gone)
        ring_for(runtime, call, settled)
    else:
        persist(lambda: free_own_read(runtime.database, started))
        fault("call.abandon_post", call_id=call.call_id, run_id=call.run_id)


def _start(runtime: Runtime, call: CallRow) -> Started | None:
    """Write down that the call starts; for a change that is its intent."""
    is_change = call.effect == "mutation"
    if is_change:
        fault("call.pre_intent", call_id=call.call_id, run_id=call.run_id)
    write = record_intent if is_change else start_read
    try:
        started = write(runtime.database, call, runtime.worker)
        if started is not None:
            fault("call.start_committed", call_id=call.call_id, run_id=call.run_id)
    except Unavailable:
        # It may have been committed and only the answer lost. Nothing has been sent: if the row
        # says that it is ours, it may be sent now.
        return persist(lambda: find_own_start(runtime.database, call, runtime.worker))
    except BaseException:  # a killed greenlet, whose process lives on
        unheard = persist(lambda: find_own_start(runtime.database, call, runtime.worker))
        if unheard is not None:
            _abandon(runtime, unheard)
        raise
    return started


def _settle(
    runtime: Runtime,
    started: Started,
    spec: RunSpec,
    outcome: ToolOutcome,
    context: RunToolContext,
) -> Settled | None:
    """Store the outcome and join; ring for whatever is ready now."""
    call = started.call
    fault("call.receipt_pre", call_id=call.call_id, run_id=call.run_id)
    try:
        settled = _write_outcome(runtime, started, spec, outcome, context)
    except Exception:
        # A living worker must not sit on a call: what cannot be stored is replaced by what can.
        log.exception(
            "outcome not storable", extra={"run_id": call.run_id, "call_id": call.call_id}
        )
        settled = _write_outcome(runtime, started, spec, _instead_of(call, outcome), context)
    fault("call.receipt_post", call_id=call.call_id, run_id=call.run_id)
    _count(runtime, call, settled, outcome)
    ring_for(runtime, call, settled)
    if call.effect == "mutation":
        ring_next_change(runtime.database, runtime.ringer, call.call_id)
    return settled


def _write_outcome(
    runtime: Runtime,
    started: Started,
    spec: RunSpec,
    outcome: ToolOutcome,
    context: RunToolContext,
) -> Settled | None:
    resources, sources = context.resources, context.sources
    match outcome:
        case Unknown():
            view = ""
        case _:
            view = _view_of(outcome, spec, call_id=started.call.call_id)
    return persist(lambda: settle(runtime.database, started, outcome, view, resources, sources))


def _view_of(outcome: Returned | Refused | Errored | Skipped, spec: RunSpec, call_id: str) -> str:
    chunked = outcome.chunked if isinstance(outcome, Returned) else None
    return view_of(
        outcome.text,
        spec.policy.result_view_chars,
        call_id,
        total_chars=None if chunked is None else chunked.total_chars,
    )


def _instead_of(call: CallRow, outcome: ToolOutcome) -> ToolOutcome:
    """What is recorded when the outcome itself cannot be: it never claims more than is known."""
    text = error_text("result_lost", "The result could not be stored; see the worker log.")
    if isinstance(outcome, Unknown):
        return outcome
    if isinstance(outcome, Returned) and call.effect == "mutation":
        return Returned(text)
    return Errored(text)


def _count(runtime: Runtime, call: CallRow, settled: Settled | None, outcome: ToolOutcome) -> None:
    if settled is None:
        runtime.meter.fenced_out()
        if call.effect == "mutation":
            _look_for_a_repeat(runtime, call)
        return
    runtime.note_end(call.run_id, settled.ended)
    if isinstance(outcome, Unknown):
        runtime.meter.outcome_unknown()


def _look_for_a_repeat(runtime: Runtime, call: CallRow) -> None:
    """Raise an alarm if its owner let it be sent again, and it was done after all."""
    again = persist(lambda: sent_again(runtime.database, call.call_id))
    if again is not None:
        runtime.meter.change_repeated()
        log.error(
            "change probably made twice",
            extra={"run_id": call.run_id, "call_id": call.call_id, "again": again},
        )
