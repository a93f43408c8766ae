import pytest
from pydantic import ValidationError

from loop.policy import Policy
from loop.profiles import DEFAULT_PROFILE, PROFILES, expand_policy
from umbel.errors import Misconfigured


@pytest.mark.parametrize("profile", PROFILES)
def test_every_profile_expands_to_a_complete_policy(profile: str) -> None:
    policy = expand_policy(profile, {})
    assert Policy.model_validate_json(policy.model_dump_json()) == policy


def test_the_default_profile_exists_and_asks_before_changes() -> None:
    assert expand_policy(DEFAULT_PROFILE, {}).permission_mode == "ask"


def test_values_of_the_agent_win_over_those_of_the_profile() -> None:
    assert expand_policy("plain", {}).empty_retries == 1
    assert expand_policy("plain", {"empty_retries": 3}).empty_retries == 3


def test_an_unknown_profile_is_refused_with_the_known_ones() -> None:
    with pytest.raises(Misconfigured, match=r"'genius' is unknown.*steward"):
        expand_policy("genius", {})


@pytest.mark.parametrize(
    "overrides",
    [
        {"paralel": 3},
        {"parallel": 0},
        {"parallel": 65},
        {"parallel": "3"},
        {"iteration_cap": 0},
        {"tool_call_limit": -1},
        {"retry_base_seconds": 0.0},
        {"permission_mode": "yes"},
        {"max_losses": 0},
        {"retry_max_seconds": float("inf")},
        {"retry_base_seconds": float("nan")},
    ],
)
def test_a_value_that_makes_no_sense_is_refused(overrides: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        expand_policy("steward", overrides)
