import pytest

from loop.budget import after_refusal, budget_of
from loop.policy import Policy
from loop.profiles import PROFILES, expand_policy
from loop.weight import Weight


def test_the_answers_room_is_taken_from_the_share_of_the_window() -> None:
    budget = budget_of(Policy(), 100_000, 4_000)
    assert (budget.tokens, budget.low_tokens, budget.summary_tokens) == (86_000, 51_600, 8_600)
    assert budget.schema_tokens == 43_000


def test_a_policy_may_keep_the_answers_room_outside_of_its_share() -> None:
    policy = expand_policy("plain", {})
    assert budget_of(policy, 100_000, 4_000).tokens == 80_000
    assert budget_of(policy, 100_000, 40_000).tokens == 60_000, "the window is never overdrawn"


def test_a_longer_answer_that_was_asked_for_needs_its_room() -> None:
    policy = Policy(max_output_tokens=10_000)
    assert budget_of(policy, 100_000, 4_000).tokens == 80_000


def test_a_window_smaller_than_its_reserve_leaves_nothing() -> None:
    assert budget_of(Policy(), 1_000, 2_000).tokens == 0


@pytest.mark.parametrize("rate", [1.0, 3.5, 4.0])
def test_what_was_refused_halves_the_budget_whatever_a_token_is_taken_for(rate: float) -> None:
    budget = budget_of(Policy(), 100_000, 4_000)
    refused = Weight(text_bytes=40_000, messages=10)
    smaller = after_refusal(budget, Policy(), refused, rate)
    assert smaller.tokens == refused.tokens(rate) // 2
    assert smaller.low_tokens < smaller.tokens
    assert smaller.schema_tokens == budget.schema_tokens
    heavy = Weight(text_bytes=4_000_000, messages=10)
    assert after_refusal(budget, Policy(), heavy, rate).tokens == budget.tokens


def test_no_profile_fills_more_than_the_window() -> None:
    for profile in PROFILES:
        assert 0 < budget_of(expand_policy(profile, {}), 32_000, 4_096).tokens <= 32_000 - 4_096
