"""How many tokens a request may have: the share of the model's window that the policy leaves it."""

from dataclasses import dataclass
from typing import Final

from loop.policy import Policy
from loop.weight import Weight

USUAL_WINDOW: Final = 32_000
USUAL_OUTPUT_RESERVE: Final = 4_096
"""Of a model that nobody has described."""

_MARGIN: Final = 2
"""What an endpoint has refused for its size is at least this many times too large, for us."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Tokens of one request, in the unit of `Weight.tokens`."""

    tokens: int
    """Most it may have."""
    low_tokens: int
    """What a reduction goes down to, so that the next ones only add at the end for a while."""
    summary_tokens: int
    """Most a summary may have."""
    schema_tokens: int
    """Most that tool schemas alone may have."""


def budget_of(policy: Policy, window: int, output_reserve: int) -> Budget:
    """The budget that a model's window gives under a policy."""
    reserve = max(output_reserve, policy.max_output_tokens or 0)
    share = int(policy.context_share * window)
    tokens = share - reserve if policy.reserve_in_share else min(share, window - reserve)
    return _of_tokens(policy, max(0, tokens), max(0, tokens))


def after_refusal(
    budget: Budget, policy: Policy, refused: Weight, bytes_per_token: float
) -> Budget:
    """The budget of a run whose endpoint has refused a request of this weight for its size."""
    tokens = min(budget.tokens, refused.tokens(bytes_per_token) // _MARGIN)
    return _of_tokens(policy, tokens, 2 * budget.schema_tokens)


def _of_tokens(policy: Policy, tokens: int, full_tokens: int) -> Budget:
    return Budget(
        tokens=tokens,
        low_tokens=int(policy.context_low_share * tokens),
        summary_tokens=int(policy.summary_share * tokens),
        schema_tokens=full_tokens // 2,
    )
