from dataclasses import replace
from datetime import UTC, datetime

import pytest

from models.showing import ShownAttempt
from umbel.agent_settings import ModelSettings
from umbel.cli.spending import (
    cost_in_words,
    in_all,
    purposes_in_words,
    spending_by_purpose,
    spending_of,
    tokens_in_words,
)

PRICED = ModelSettings(price_input_per_million=2.0, price_output_per_million=10.0)
CACHED = ModelSettings(
    price_input_per_million=2.0,
    price_output_per_million=10.0,
    price_cached_input_per_million=0.5,
)
ATTEMPT = ShownAttempt(
    step=1,
    attempt=1,
    purpose="main",
    state="closed",
    decision="answer",
    endpoint="e",
    model="m",
    error_class=None,
    input_tokens=1_000,
    output_tokens=100,
    total_tokens=1_100,
    cached_input_tokens=None,
    reasoning_tokens=None,
    is_estimated=False,
    opened_at=datetime(2026, 1, 1, tzinfo=UTC),
    closed_at=None,
    text="",
)
UNREPORTED = replace(ATTEMPT, input_tokens=None, output_tokens=None, total_tokens=None)


def test_tokens_and_cost_add_up() -> None:
    spending = spending_of([ATTEMPT, ATTEMPT], PRICED)
    assert (spending.input_tokens, spending.output_tokens) == (2_000, 200)
    assert spending.cost_usd == pytest.approx(0.006)
    assert tokens_in_words(spending) == "2,000 in, 200 out"
    assert cost_in_words(spending, "m") == "$0.0060"


def test_cached_tokens_have_their_own_price_or_that_of_input() -> None:
    attempt = replace(ATTEMPT, cached_input_tokens=800, output_tokens=0)
    assert spending_of([attempt], CACHED).cost_usd == pytest.approx(0.0008)
    assert spending_of([attempt], PRICED).cost_usd == pytest.approx(0.002)


def test_unreported_tokens_are_said_and_make_the_cost_a_least_value() -> None:
    spending = spending_of([ATTEMPT, UNREPORTED], PRICED)
    assert tokens_in_words(spending).endswith("; unknown for 1 of 2 model calls")
    assert cost_in_words(spending, "m").startswith("at least $")


def test_a_run_whose_calls_reported_nothing_costs_an_unknown_amount_never_zero() -> None:
    spending = spending_of([UNREPORTED], PRICED)
    assert spending.cost_usd is None
    assert tokens_in_words(spending) == "unknown: the endpoint reported none"
    assert cost_in_words(spending, "m") == "unknown"


def test_a_model_without_a_price_has_an_unknown_cost_and_says_where_to_set_one() -> None:
    spending = spending_of([ATTEMPT], ModelSettings())
    assert spending.cost_usd is None
    assert '[models."m"]' in cost_in_words(spending, "m")


def test_estimated_tokens_are_called_about() -> None:
    spending = spending_of([replace(ATTEMPT, is_estimated=True)], PRICED)
    assert tokens_in_words(spending).startswith("about ")


def test_each_purpose_has_its_own_sums_and_the_main_one_alone_is_not_told_apart() -> None:
    summary = replace(ATTEMPT, purpose="compact", input_tokens=500)
    parts = spending_by_purpose([summary, ATTEMPT, replace(UNREPORTED, purpose="main")], PRICED)
    assert list(parts) == ["main", "compact"]
    assert purposes_in_words(parts) == (
        "main 1,000 in, 100 out; unknown for 1 of 2 model calls, cost at least $0.0030; "
        "compact 500 in, 100 out, cost $0.0020"
    )
    assert purposes_in_words(spending_by_purpose([ATTEMPT], PRICED)) is None
    assert purposes_in_words({}) is None


def test_a_sum_keeps_what_is_known_and_counts_what_is_not() -> None:
    parts = [
        spending_of([ATTEMPT], PRICED),
        spending_of([ATTEMPT], ModelSettings()),
        spending_of([UNREPORTED], PRICED),
    ]
    total = in_all(parts)
    assert (total.model_calls, total.unreported_calls, total.unpriced_calls) == (3, 1, 1)
    assert total.cost_usd == pytest.approx(0.003)
    assert cost_in_words(total, "m") == "at least $0.0030"
    assert in_all([]).cost_usd is None
