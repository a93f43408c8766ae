"""From the calls a model proposed to the rows the decision commit inserts."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, assert_never

from loop.response import ProposedCall
from models.records import RunSpec
from models.steps import PreparedCall
from tools.preflight import (
    ApprovedCall,
    Cleared,
    Denied,
    PlannedCall,
    PreflightHook,
    RefusedCall,
    Verdict,
    judge_calls,
)
from tools.result import error_text

_MODEL_MISTAKES: Final = frozenset(
    {"unknown_tool", "invalid_arguments", "incomplete_call", "repaired_arguments"}
)
"""Codes of calls that could not be understood; everything else was understood and refused."""


def plan_calls(
    proposed: Sequence[ProposedCall], spec: RunSpec, hooks: Sequence[PreflightHook]
) -> list[PreparedCall]:
    """One row per call in the model's order; at most `parallel` of them ready at once.

    Every verdict is in before this returns, and so before anything starts.
    """
    frozen = {tool["name"]: tool for tool in spec.tools}
    judged = judge_calls(proposed, frozen, (_permission_hook(spec), *hooks))
    rows: list[PreparedCall] = []
    cleared = 0
    for call in judged:
        match call:
            case ApprovedCall() if cleared >= spec.policy.calls_per_step:
                rows.append(_surplus_row(call, spec.policy.calls_per_step))
            case ApprovedCall():
                cleared += 1
                rows.append(
                    _cleared_row(call, "ready" if cleared <= spec.policy.parallel else "planned")
                )
            case RefusedCall():
                rows.append(_refused_row(call))
            case _:
                assert_never(call)
    return rows


def any_can_run(rows: Sequence[PreparedCall]) -> bool:
    """Whether at least one call passed every check."""
    return any(row.body is None for row in rows)


def _permission_hook(spec: RunSpec) -> PreflightHook:
    """In a run that asks before changes, no change is cleared: nobody can be asked yet."""

    def check(call: PlannedCall) -> Verdict:
        if call.effect != "mutation" or spec.policy.permission_mode == "full_access":
            return Cleared(call.arguments_text)
        return Denied(
            "approval_required",
            f"This run asks its owner before every change, and {call.name} is one. "
            "Nothing was done; tell the user what you would have changed.",
        )

    return check


def _cleared_row(call: ApprovedCall, state: str) -> PreparedCall:
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


def _surplus_row(call: ApprovedCall, limit: int) -> PreparedCall:
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
        state="errored" if call.code in _MODEL_MISTAKES else "refused",
        args_text=call.arguments_text,
        stall_seconds=0.0,
        body=call.error,
    )
