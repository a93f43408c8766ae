"""What the product cannot be asked yet, with the reason: never counted as passed."""

from collections.abc import Iterator
from typing import Any, Final

from loop.policy import Policy
from tests.cases.actions import ACTIONS
from tests.cases.case_file import Case
from tests.cases.expectations import CHECKS
from tests.cases.limits import limits_of
from tests.cases.strict_provider import DEFAULT_RESERVE, DEFAULT_WINDOW
from umbel.agent_settings import ModelSettings

POINTS: Final = frozenset(
    {
        "start",
        "before_model",
        "during_model",
        "after_model",
        "during_tool",
        "after_effect",
        "after_tool",
        "after_delivery",
        "status",
        "after_event",
    }
)


def unsupported(case: Case) -> str | None:
    """Why the case cannot be run, or None."""
    return next(_reasons(case), None)


def policy_of(case: Case) -> dict[str, Any]:
    """The policy values that the case's `run` asks for."""
    run = case.run
    policy: dict[str, Any] = {"permission_mode": run.get("policy", "full_access")}
    policy |= {"repeat_unchanged": 0, "repeat_failures": 0}  # the format's limits are off
    if "parallel" in run:
        policy["parallel"] = run["parallel"]
    return policy | limits_of(run.get("limits", {}))


def model_settings_of(case: Case) -> ModelSettings:
    """What the runtime is told about the case's model; the format's own where it says nothing."""
    model = case.run.get("model", {})
    return ModelSettings(
        window=model.get("context_window", DEFAULT_WINDOW),
        output_reserve=model.get("output_reserve", DEFAULT_RESERVE),
        images=True,
    )


def _reasons(case: Case) -> Iterator[str]:
    if case.data.get("mode") == "schedule":
        yield "schedules are not there yet"
    yield from _of_events(case)
    yield from _of_run(case)
    yield from _of_tools(case)
    yield from (f"expect.{field} is not compared" for field in case.expect if field not in CHECKS)


def _of_events(case: Case) -> Iterator[str]:
    for event in case.events:
        if event["do"] not in ACTIONS:
            yield f"the event {event['do']!r} is not there yet"
        point = event["at"].partition(":")[0]
        if point not in POINTS:
            yield f"the point {event['at']!r} is not there yet"


def _of_run(case: Case) -> Iterator[str]:
    run = case.run
    for name in policy_of(case):
        if name not in Policy.model_fields:
            yield f"the policy has no {name} yet"
    if run.get("consolidation"):
        yield "consolidation is not there yet"


def _of_tools(case: Case) -> Iterator[str]:
    for tool in case.tools:
        if tool.get("permission") == "deny":
            yield "denied tools are not there yet"
