"""What model calls have used: tokens and money, with the unknown said aloud."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from models.showing import ShownAttempt
from umbel.agent_settings import ModelSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """Sums over every attempt, those that failed included."""

    model_calls: int
    input_tokens: int
    """Of the calls that reported them."""
    output_tokens: int
    unreported_calls: int
    """Calls whose tokens nobody knows: the sums are too small by what those used."""
    unpriced_calls: int
    """Calls of models without a price: the cost is too small by theirs."""
    is_estimated: bool
    cost_usd: float | None
    """Of the calls whose tokens and price are known; None: there is no such call."""


def spending_of(attempts: Sequence[ShownAttempt], prices: ModelSettings) -> Spending:
    """Add up the attempts; an unknown number of tokens stays unknown."""
    reported = [a for a in attempts if a.input_tokens is not None and a.output_tokens is not None]
    costs = [_cost_usd(attempt, prices) for attempt in reported]
    known = [cost for cost in costs if cost is not None]
    return Spending(
        model_calls=len(attempts),
        input_tokens=sum(attempt.input_tokens or 0 for attempt in attempts),
        output_tokens=sum(attempt.output_tokens or 0 for attempt in attempts),
        unreported_calls=len(attempts) - len(reported),
        unpriced_calls=len(reported) - len(known),
        is_estimated=any(attempt.is_estimated for attempt in attempts),
        cost_usd=sum(known) if known else None,
    )


def spending_by_purpose(
    attempts: Sequence[ShownAttempt], prices: ModelSettings
) -> dict[str, Spending]:
    """What each purpose of asking the model has used, `main` first."""
    purposes = sorted({a.purpose for a in attempts}, key=lambda name: (name != "main", name))
    return {
        purpose: spending_of([a for a in attempts if a.purpose == purpose], prices)
        for purpose in purposes
    }


def in_all(parts: Iterable[Spending]) -> Spending:
    """The sum of several."""
    parts = list(parts)
    known = [part.cost_usd for part in parts if part.cost_usd is not None]
    return Spending(
        model_calls=sum(part.model_calls for part in parts),
        input_tokens=sum(part.input_tokens for part in parts),
        output_tokens=sum(part.output_tokens for part in parts),
        unreported_calls=sum(part.unreported_calls for part in parts),
        unpriced_calls=sum(part.unpriced_calls for part in parts),
        is_estimated=any(part.is_estimated for part in parts),
        cost_usd=sum(known) if known else None,
    )


def tokens_in_words(spending: Spending) -> str:
    """Such as `1,204 in, 180 out; unknown for 1 of 3 model calls`."""
    if spending.unreported_calls == spending.model_calls:
        return "unknown: the endpoint reported none" if spending.model_calls else "none used"
    about = "about " if spending.is_estimated else ""
    words = f"{about}{spending.input_tokens:,} in, {spending.output_tokens:,} out"
    if spending.unreported_calls:
        words += f"; unknown for {spending.unreported_calls} of {spending.model_calls} model calls"
    return words


def amount_in_words(spending: Spending) -> str:
    """Such as `$0.0123`, `at least $0.0123` or `unknown`."""
    if spending.cost_usd is None:
        return "unknown"
    least = "at least " if spending.unreported_calls or spending.unpriced_calls else ""
    return f"{least}${spending.cost_usd:.4f}"


def cost_in_words(spending: Spending, model: str) -> str:
    """The amount; says why it is unknown, if that can be changed."""
    words = amount_in_words(spending)
    if spending.cost_usd is None and spending.unpriced_calls:
        words += f': no price for {model!r}; set one under [models."{model}"] in umbel.toml'
    return words


def purposes_in_words(by_purpose: dict[str, Spending]) -> str | None:
    """What each purpose has used; None if there was only the main one."""
    if by_purpose.keys() <= {"main"}:
        return None
    return "; ".join(
        f"{purpose} {tokens_in_words(part)}, cost {amount_in_words(part)}"
        for purpose, part in by_purpose.items()
    )


def _cost_usd(attempt: ShownAttempt, prices: ModelSettings) -> float | None:
    return prices.cost_usd(
        attempt.input_tokens or 0, attempt.output_tokens or 0, attempt.cached_input_tokens or 0
    )
