"""Profiles: named sets of policy values. Data only; no other product code knows their names."""

from collections.abc import Mapping
from typing import Any, Final

from loop.policy import Policy
from umbel.errors import Misconfigured

DEFAULT_PROFILE: Final = "steward"

PROFILES: Final[Mapping[str, Mapping[str, Any]]] = {
    "steward": {"repeat_unchanged": 3, "repeat_failures": 3},
    "plain": {
        "repeat_failures": 3,
        "empty_retries": 1,
        "context_share": 0.8,
        "reserve_in_share": False,
        "reducers": ("cut", "compress"),
    },
}
"""Only what differs from `Policy`'s defaults is written down."""


def expand_policy(profile: str, overrides: Mapping[str, Any]) -> Policy:
    """The complete policy of `profile` with the agent's own values on top.

    Raises:
        Misconfigured: there is no such profile.
    """
    if profile not in PROFILES:
        raise Misconfigured(f"Profile {profile!r} is unknown; choose one of {', '.join(PROFILES)}.")
    return Policy(**{**PROFILES[profile], **overrides})
