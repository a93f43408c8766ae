"""What model endpoints refused, shared by all workers: one lost attempt for all instead of each."""

from typing import Final

import redis

_KEEP_SECONDS: Final = 7 * 24 * 3600
"""Endpoints change: after a week of nobody meeting a refusal it is tried again."""


class RefusalNotes:
    """Fields that an address refused; implements `providers.refusals.RefusalStore`.

    Never raises: a Redis that does not answer knows nothing and keeps nothing.
    """

    def __init__(self, client: redis.Redis, *, prefix: str) -> None:
        self._client = client
        self._prefix = prefix

    def load(self, address: str) -> frozenset[str]:
        """The fields refused there."""
        try:
            return frozenset(str(field) for field in self._client.smembers(self._key(address)))
        except redis.RedisError:
            return frozenset()

    def save(self, address: str, field: str) -> None:
        """Remember one more."""
        try:
            with self._client.pipeline(transaction=False) as pipe:
                pipe.sadd(self._key(address), field)
                pipe.expire(self._key(address), _KEEP_SECONDS)
                pipe.execute()
        except redis.RedisError:
            return

    def _key(self, address: str) -> str:
        return f"{self._prefix}:refused:{address}"
