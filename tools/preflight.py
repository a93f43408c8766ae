"""Every proposed call judged before any of them starts, in the model's order.

The order per call: is the tool offered, are the arguments usable, do they fit the schema, what do
the hooks say. Hooks only narrow: they may deny a call, or have its owner asked, never change it or
enlarge what it may. A denial counts more than a wish to ask, whoever said what first.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass
from typing import Any, Final

from loop.response import ProposedCall
from tools.arguments import ArgumentProblems, check_arguments
from tools.failure import failure_of
from tools.result import error_text
from tools.targets import targets_of
from umbel.errors import InvariantBroken
from umbel.names import Effect, Placement
from umbel.preflight import Asked, Cleared, Denied, PlannedCall, PreflightHook, Verdict

MAX_NAMES: Final = 30
_SEAL: Final = object()
"""What shows that a call came through `judge_calls`; not reachable from data."""

FrozenTools = Mapping[str, Mapping[str, Any]]
"""The run's tools by name, each in the form of `Tool.frozen()`."""


@dataclass(frozen=True, slots=True)
class ClearedCall:
    """A call that passed every check. Only `judge_calls` can build one."""

    position: int
    model_id: str
    name: str
    effect: Effect
    placement: Placement
    version: str
    stall_seconds: float
    arguments_text: str
    needs_approval: bool
    """Its owner is asked before it starts."""
    seal: InitVar[object]

    def __post_init__(self, seal: object) -> None:
        if seal is not _SEAL:
            raise InvariantBroken(
                f"Call {self.model_id!r} of {self.name!r} did not pass preflight: a ClearedCall "
                "comes from judge_calls() alone."
            )


@dataclass(frozen=True, slots=True)
class RefusedCall:
    """A call that must not start; `error` is its result."""

    position: int
    model_id: str
    name: str
    effect: Effect
    """`read` if there is no such tool: nothing could have been changed."""
    placement: Placement
    version: str
    arguments_text: str | None
    """None when they could not be read."""
    code: str
    error: str
    """The result shown to the model, as JSON text."""


PreparedCall = ClearedCall | RefusedCall


def judge_calls(
    calls: Sequence[ProposedCall], tools: FrozenTools, hooks: Iterable[PreflightHook] = ()
) -> tuple[PreparedCall, ...]:
    """One verdict per call, in the model's order; all of them are in before this returns.

    Args:
        calls: what the model asked for.
        tools: the run's frozen tools: nothing else can be called.
        hooks: further checks, asked in order after the built-in ones; the first denial stands.
    """
    asked = tuple(hooks)
    return tuple(_judge(position, call, tools, asked) for position, call in enumerate(calls))


def _judge(
    position: int, call: ProposedCall, tools: FrozenTools, hooks: tuple[PreflightHook, ...]
) -> PreparedCall:
    planned = _plan(position, call, tools)
    if isinstance(planned, Denied):
        return _refused(position, call, tools, planned)
    needs_approval = False
    for hook in hooks:
        verdict = _ask(hook, planned)
        if isinstance(verdict, Denied):
            return _refused(position, call, tools, verdict)
        needs_approval = needs_approval or isinstance(verdict, Asked)
    return ClearedCall(
        position=position,
        model_id=planned.model_id,
        name=planned.name,
        effect=planned.effect,
        placement=planned.placement,
        version=planned.version,
        stall_seconds=planned.stall_seconds,
        arguments_text=planned.arguments_text,
        needs_approval=needs_approval,
        seal=_SEAL,
    )


def _plan(position: int, call: ProposedCall, tools: FrozenTools) -> PlannedCall | Denied:
    tool = tools.get(call.name)
    if tool is None or call.status == "unknown_tool":
        return Denied("unknown_tool", _unknown_tool(call.name, tools))
    if (denied := _unusable_arguments(call)) is not None:
        return denied
    text = call.arguments_text or ""
    arguments = check_arguments(tool["input_schema"], text)
    if isinstance(arguments, ArgumentProblems):
        return Denied("invalid_arguments", f"{arguments} Nothing was done; correct the call.")
    return PlannedCall(
        position=position,
        model_id=call.model_id,
        name=call.name,
        effect=tool["effect"],
        placement=tool["placement"],
        version=tool["version"],
        stall_seconds=tool["stall_seconds"],
        arguments_text=text,
        arguments=arguments,
        targets=targets_of(arguments, tool.get("targets")),
    )


def _unknown_tool(name: str, tools: FrozenTools) -> str:
    """The wrong name, and the offered ones with the most similar first."""
    shown = name[:100]
    if not tools:
        return f"There is no tool {shown!r}; no tools are offered in this run."
    near = difflib.get_close_matches(shown, tools, n=MAX_NAMES, cutoff=0.0)
    names = ", ".join(near)
    more = f" and {len(tools) - len(near)} more" if len(tools) > len(near) else ""
    return f"There is no tool {shown!r}. Offered tools: {names}{more}."


def _unusable_arguments(call: ProposedCall) -> Denied | None:
    problem = (call.problem or "they could not be read").rstrip(".")[:500]
    if call.is_repaired:
        return Denied(
            "repaired_arguments",
            "The call held characters that are not valid Unicode or cannot be stored "
            f"({problem}). Nothing was done; send it again without them.",
        )
    if call.status == "incomplete":
        return Denied(
            "incomplete_call",
            f"The call was cut off before it was complete ({problem}). Nothing was done; send it "
            "again, shorter if it was long.",
        )
    if call.status != "ok" or call.arguments_text is None:
        return Denied(
            "invalid_arguments",
            f"The arguments cannot be used: {problem}. Nothing was done; correct the call.",
        )
    return None


def _ask(hook: PreflightHook, call: PlannedCall) -> Verdict:
    try:
        verdict = hook(call)
    except Exception as error:  # noqa: BLE001 -- a hook that raises denies, whatever it is
        return Denied("preflight_error", f"A check failed: {failure_of(error).message}")
    text = call.arguments_text
    if isinstance(verdict, Denied) or verdict in (Cleared(text), Asked(text)):
        return verdict
    return Denied("preflight_error", "A check answered for other arguments than the proposed ones.")


def _refused(position: int, call: ProposedCall, tools: FrozenTools, denied: Denied) -> RefusedCall:
    tool = tools.get(call.name)
    return RefusedCall(
        position=position,
        model_id=call.model_id,
        name=call.name,
        effect=tool["effect"] if tool else "read",
        placement=tool["placement"] if tool else "inline",
        version=tool["version"] if tool else "",
        arguments_text=call.arguments_text,
        code=denied.code,
        error=error_text(denied.code, denied.message),
    )
