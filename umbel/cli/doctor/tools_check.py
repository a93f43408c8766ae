"""Tools: those of this process, against those that agents name and runs were promised."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from models.diagnosis import frozen_tools, looking, tools_of_workers
from tools.hooks import load_hooks
from tools.registry import ToolRegistry, digest_of, load_registry
from umbel.cli.doctor.context import Context
from umbel.cli.doctor.finding import Finding, problem, warning, worst
from umbel.errors import Misconfigured

_SHOWN: Final = 3


def look_at_tools(context: Context) -> Finding:
    """Whether all modules load, and runs in flight find the tools they were accepted with.

    Here, and on the tool workers that live: these may have been started with other settings.
    """
    registry = load_registry(context.settings.tools)
    hooks = load_hooks(context.settings.preflight)
    concerns = _unknown_to_agents(context, registry)
    compared = ""
    if context.usable.get("migrations"):
        with looking(context.database_url) as connection:
            promised = frozen_tools(connection)
            dead_after = context.settings.dead_after_seconds
            had = tools_of_workers(connection, dead_after=dead_after)
        concerns += _lost_to_runs(registry, promised)
        concerns += _lacking_on_workers(had, promised)
        compared = f", compared with {sum(runs for _, _, runs in promised)} runs in flight"
    return worst(
        "tools",
        f"{len(registry)} tools{compared}" + (f", {len(hooks)} preflight hooks" if hooks else ""),
        concerns,
        tools=list(registry.names()),
    )


def _unknown_to_agents(context: Context, registry: ToolRegistry) -> list[Finding]:
    concerns: list[Finding] = []
    for name, agent in context.settings.agents.items():
        try:
            registry.select(agent.tools)
        except Misconfigured as error:
            found, _, remedy = str(error).rpartition(". ")
            concerns.append(problem("tools", f"agent {name!r}: {found}", remedy))
    return concerns


def _lost_to_runs(
    registry: ToolRegistry, promised: Iterable[tuple[str, str, int]]
) -> list[Finding]:
    missing: dict[str, str] = {}
    changed: dict[str, str] = {}
    for tools, run_id, _ in promised:
        frozen: list[Mapping[str, Any]] = json.loads(tools)
        for name in registry.differing(frozen):
            (changed if name in registry else missing).setdefault(name, run_id)
    concerns: list[Finding] = []
    if missing:
        concerns.append(
            problem(
                "tools",
                f"runs in flight need {_listed(missing)}, which nothing here provides",
                "Install the package of these tools, or name their module in UMBEL_TOOLS, and "
                "restart the workers.",
                missing=sorted(missing),
            )
        )
    if changed:
        concerns.append(
            warning(
                "tools",
                f"runs in flight were accepted with another {_listed(changed)}",
                "Go back to the version they know until they are done, or stop them; new runs "
                "get the new one.",
                changed=sorted(changed),
            )
        )
    return concerns


def _lacking_on_workers(
    had: frozenset[str] | None, promised: Iterable[tuple[str, str, int]]
) -> list[Finding]:
    if had is None:  # the workers are another part's concern
        return []
    lacking: dict[str, str] = {}
    for tools, run_id, _ in promised:
        for tool in json.loads(tools):
            if digest_of(tool) not in had:
                lacking.setdefault(tool["name"], run_id)
    if not lacking:
        return []
    return [
        problem(
            "tools",
            f"no living tool worker has {_listed(lacking)} as runs in flight were offered it",
            "Give the tool workers these tools (UMBEL_TOOLS), restart them, and resume runs that "
            "are paused as contract_mismatch.",
            lacking=sorted(lacking),
        )
    ]


def _listed(tools: Mapping[str, str]) -> str:
    shown = [f"{name} ({run_id})" for name, run_id in sorted(tools.items())[:_SHOWN]]
    return ", ".join(shown) + (f" and {len(tools) - _SHOWN} more" if len(tools) > _SHOWN else "")
