"""From the calls a model proposed to the rows the decision commit inserts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, assert_never

from loop.decision import Pause
from loop.policy import Policy
from loop.repetition import PastCall, Repetition, compared_form, fingerprint
from loop.response import ProposedCall
from models.records import RunSpec
from models.steps import PreparedCall
from tools.preflight import ClearedCall, RefusedCall, judge_calls
from tools.result import error_text
from umbel.preflight import Cleared, Denied, PlannedCall, PreflightHook, Verdict

_MODEL_MISTAKES: Final = frozenset(
    {"unknown_tool", "invalid_arguments", "incomplete_call", "repaired_arguments"}
)
"""Codes of calls that could not be understood."""
_REPETITIONS: Final = frozenset({"repeated_call", "repeated_failure"})
"""Codes of calls that would bring nothing new. Everything else was understood and refused."""


def plan_calls(
    proposed: Sequence[ProposedCall],
    spec: RunSpec,
    hooks: Sequence[PreflightHook],
    history: Sequence[PastCall] = (),
) -> list[PreparedCall]:
    """One row per call in the model's order; at most `parallel` of them ready at once.

    Every verdict is in before this returns, and so before anything starts.

    Args:
        proposed: what the model asked for.
        spec: the run's frozen tools and policy.
        hooks: further checks.
        history: the calls of the steps before, oldest first.
    """
    frozen = {tool["name"]: tool for tool in spec.tools}
    checks = (_repetition_hook(spec.policy, frozen, history), *hooks)
    rows: list[PreparedCall] = []
    cleared = free = 0
    for call in judge_calls(proposed, frozen, checks):
        match call:
            case ClearedCall() if cleared >= spec.policy.calls_per_step:
                rows.append(_surplus_row(call, spec.policy.calls_per_step))
            case ClearedCall(needs_approval=True):
                cleared += 1
                rows.append(_cleared_row(call, "awaiting_approval"))
            case ClearedCall():
                cleared, free = cleared + 1, free + 1
                is_ready = free <= spec.policy.parallel
                rows.append(_cleared_row(call, "ready" if is_ready else "planned"))
            case RefusedCall():
                rows.append(_refused_row(call))
            case _:
                assert_never(call)
    return rows


def pause_after_mistakes(
    rows: Sequence[PreparedCall], corrections: int, policy: Policy
) -> Pause | None:
    """The pause of a run whose model was told often enough that its calls are not run.

    Args:
        rows: this step's calls.
        corrections: steps in a row before it of which no call was run.
        policy: says how often is enough.
    """
    if corrections < policy.corrections or not rows or any(row.body is None for row in rows):
        return None
    circles = any(row.repeats and "repeated_call" in (row.body or "") for row in rows)
    return Pause(
        "stall" if circles else "repeated_failure",
        f"No call of the last {corrections + 1} steps was run, although the model was told "
        "each time why; `umbel runs get RUN` shows the calls.",
    )


def _repetition_hook(
    policy: Policy, tools: Mapping[str, Mapping[str, Any]], history: Sequence[PastCall]
) -> PreflightHook:
    """Denies what only repeats the run's history, polls excepted."""
    polls = {name for name, tool in tools.items() if tool["repeatable"]}
    repetition = Repetition([c for c in history if c.fingerprint[0] not in polls], policy)

    def check(call: PlannedCall) -> Verdict:
        found = None
        if call.name not in polls:
            asked = fingerprint(call.name, compared_form(call.arguments_text))
            found = repetition.judge(asked, is_change=call.effect != "read")
        return Denied(found.code, found.message) if found else Cleared(call.arguments_text)

    return check


def _cleared_row(call: ClearedCall, state: str) -> PreparedCall:
    return PreparedCall(
        position=call.position + 1,
        model_id=call.model_id,
        tool=call.name,
        tool_version=call.version,
        effect=call.effect,
        placement=call.placement,
        state=state,
        args_text=call.arguments_text,
        stall_seconds=call.stall_seconds,
    )


def _surplus_row(call: ClearedCall, limit: int) -> PreparedCall:
    message = f"Only {limit} calls of one reply are run. Nothing was done; ask again in the next."
    return replace(_cleared_row(call, "refused"), body=error_text("too_many_calls", message))


def _refused_row(call: RefusedCall) -> PreparedCall:
    return PreparedCall(
        position=call.position + 1,
        model_id=call.model_id,
        tool=call.name,
        tool_version=call.version,
        effect=call.effect,
        placement=call.placement,
        state="errored" if call.code in _MODEL_MISTAKES | _REPETITIONS else "refused",
        args_text=call.arguments_text,
        stall_seconds=0.0,
        body=call.error,
        repeats=call.code in _REPETITIONS,
    )
