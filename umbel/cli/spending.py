"""What a run has used: tokens and money, with the unknown said aloud."""

from collections.abc import Sequence
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
    is_estimated: bool
    cost_usd: float | None
    """None: the model has no price in the settings, or no call reported its tokens."""


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
        is_estimated=any(attempt.is_estimated for attempt in attempts),
        cost_usd=sum(known) if reported and len(known) == len(reported) else None,
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


def cost_in_words(spending: Spending, model: str) -> str:
    """Such as `$0.0123`; says why it is unknown."""
    if spending.cost_usd is None:
        if spending.unreported_calls == spending.model_calls:
            return "unknown"
        return f'unknown: no price for {model!r}; set one under [models."{model}"] in umbel.toml'
    least = "at least " if spending.unreported_calls else ""
    return f"{least}${spending.cost_usd:.4f}"


def _cost_usd(attempt: ShownAttempt, prices: ModelSettings) -> float | None:
    return prices.cost_usd(
        attempt.input_tokens or 0, attempt.output_tokens or 0, attempt.cached_input_tokens or 0
    )
