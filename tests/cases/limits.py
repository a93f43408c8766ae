"""Limits of the case format in the words of the policy."""

from collections.abc import Mapping
from typing import Any, Final

LIMITS: Final = {
    "iterations": "iteration_cap",
    "tool_result_chars": "result_view_chars",
    "worker_lost_retries": "max_losses",
}
"""Limits of the case format that the policy calls otherwise."""
OUTSIDE_POLICY: Final = frozenset({"tool_inactivity_seconds", "model_inactivity_seconds"})
"""Limits that belong to the tool or to the worker's settings."""


def limits_of(limits: Mapping[str, Any]) -> dict[str, Any]:
    """Limits of the case format as policy values."""
    policy = {LIMITS.get(n, n): value for n, value in limits.items() if n not in OUTSIDE_POLICY}
    if "max_losses" in policy:
        policy["max_losses"] += 1  # the format counts repeats, the policy counts losses
    return policy
