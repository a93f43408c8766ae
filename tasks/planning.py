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
from tools.resource_keys import resource_key
from tools.result import error_text
from umbel.preflight import Cleared, Denied, PlannedCall, PreflightHook, Verdict
from umbel.strict_json import parse

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

    Of changes with one resource key the first is ready, and the others follow one after another.
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
    cleared = 0
    for call in judge_calls(proposed, frozen, checks):
        match call:
            case ClearedCall():
                row = _cleared_row(call, frozen[call.name], spec.workspace)
                is_surplus = cleared >= spec.policy.calls_per_step
                rows.append(_as_surplus(row, spec.policy.calls_per_step) if is_surplus else row)
                cleared += 1
            case RefusedCall():
                rows.append(_refused_row(call))
            case _:
                assert_never(call)
    return _with_places(rows, spec.policy.parallel)


def _with_places(rows: Sequence[PreparedCall], parallel: int) -> list[PreparedCall]:
    """The same, of those that are ready only as many as may run side by side."""
    placed: list[PreparedCall] = []
    touched: set[str | None] = set()
    for row in rows:
        keys = {row.resource_key} if row.effect == "mutation" else set()
        if row.state != "ready":
            placed.append(row)
        elif parallel > 0 and not keys & touched:
            parallel, touched = parallel - 1, touched | keys
            placed.append(row)
        else:
            placed.append(replace(row, state="planned"))
    return placed


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


def _cleared_row(call: ClearedCall, tool: Mapping[str, Any], workspace: str | None) -> PreparedCall:
    return PreparedCall(
        position=call.position + 1,
        model_id=call.model_id,
        tool=call.name,
        tool_version=call.version,
        effect=call.effect,
        placement=call.placement,
        state="awaiting_approval" if call.needs_approval else "ready",
        args_text=call.arguments_text,
        stall_seconds=call.stall_seconds,
        resource_key=_key_of(call, tool, workspace),
    )


def _key_of(call: ClearedCall, tool: Mapping[str, Any], workspace: str | None) -> str | None:
    template = tool.get("resource_key")
    if template is None:
        return None
    arguments = parse(call.arguments_text)
    return resource_key(template, arguments, workspace) if isinstance(arguments, dict) else None


def _as_surplus(row: PreparedCall, limit: int) -> PreparedCall:
    message = f"Only {limit} calls of one reply are run. Nothing was done; ask again in the next."
    return replace(row, state="refused", body=error_text("too_many_calls", message))


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
