"""How many bytes make a token, model by model, as their endpoints count.

Kept by each process for itself: seeded from what the record knows of the model at its first use,
and corrected by every reply that says what it has cost.
"""

from threading import Lock
from typing import Final

from loop.response import Usage
from loop.weight import USUAL_BYTES_PER_TOKEN, Weight
from models.database import Database
from models.weights import recent_weights

_NEW_SHARE: Final = 0.2
_NEW_SHARE_IF_LESS: Final = 0.5
"""How much one reply counts; more where it says that requests are larger than they seemed."""


class TokenRates:
    """Bytes per token by model; safe for threads."""

    def __init__(self) -> None:
        self._rates: dict[str, float] = {}
        self._lock = Lock()

    def of(self, database: Database, model: str) -> float:
        """Bytes that make a token of this model, for `Weight.tokens`.

        Raises:
            Unavailable: PostgreSQL does not answer, at a model's first use only.
        """
        with self._lock:
            known = self._rates.get(model)
        if known is not None:
            return known
        seen = recent_weights(database, model)
        with self._lock:
            self._rates.setdefault(model, USUAL_BYTES_PER_TOKEN)
            for weight, input_tokens in seen:
                self._take(model, weight, input_tokens)
            return self._rates[model]

    def learn(self, model: str, weight: Weight, usage: Usage) -> None:
        """Take in what an endpoint has counted; one that says nothing changes nothing."""
        if usage.input_tokens is None or usage.is_estimated:
            return
        with self._lock:
            self._take(model, weight, usage.input_tokens)

    def _take(self, model: str, weight: Weight, input_tokens: int) -> None:
        seen = weight.bytes_per_token(input_tokens)
        if seen is None:
            return
        known = self._rates.get(model, USUAL_BYTES_PER_TOKEN)
        share = _NEW_SHARE_IF_LESS if seen < known else _NEW_SHARE
        self._rates[model] = known + share * (seen - known)
