"""Ownership locks: who works on which run now. A mirror for eyes and speed; PostgreSQL decides.

Losing Redis, or a lock, causes no takeover, no unknown outcome and no abort: a server that does
not answer refuses nobody. A lock is taken with the owner's token and only the same token, or the
sweeper that has proof of the owner's death, removes it.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import redis

from umbel.contracts import RunId

Result = TypeVar("Result")

_REST_SECONDS: Final = 1.0
"""After a failure Redis is left alone for so long: a dead server must not slow every step down."""

# Compare-and-delete and compare-and-extend have to be one command; Redis 7 has none of its own.
_RELEASE: Final = (
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
)
_RENEW: Final = """
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0
"""


class OwnershipLocks:
    """The locks of one Redis. Every method returns at once when Redis does not answer."""

    def __init__(self, client: redis.Redis, *, prefix: str, ttl_seconds: float) -> None:
        self._client = client
        self._prefix = prefix
        self._ttl_ms = int(ttl_seconds * 1000)
        self.renew_seconds = ttl_seconds / 3
        """How often a lock that is in use wants to be renewed."""
        self._rest_until = 0.0

    def acquire(self, run_id: RunId, token: str) -> bool:
        """Take the lock; False only when another token holds it."""

        def take() -> bool:
            key = self._key(run_id)
            if self._client.set(key, token, nx=True, px=self._ttl_ms):
                return True
            return self._client.get(key) == token

        return self._ask(take, unanswered=True)

    def renew(self, run_id: RunId, token: str) -> None:
        """Keep the lock for another term, if it is still ours."""
        self._ask(lambda: self._run(_RENEW, run_id, token, self._ttl_ms), unanswered=None)

    def release(self, run_id: RunId, token: str) -> None:
        """Give the lock back, if it is still ours."""
        self._ask(lambda: self._run(_RELEASE, run_id, token), unanswered=None)

    def holders(self, run_ids: Iterable[RunId]) -> dict[RunId, str]:
        """The token that holds each locked run; empty when Redis does not answer."""
        wanted = list(run_ids)
        if not wanted:
            return {}
        nothing: list[Any] = []
        found = self._ask(
            lambda: self._client.mget([self._key(run_id) for run_id in wanted]), unanswered=nothing
        )
        return {
            run_id: str(token)
            for run_id, token in zip(wanted, found, strict=False)
            if token is not None
        }

    def _run(self, script: str, run_id: RunId, *arguments: str | int) -> None:
        self._client.eval(script, 1, self._key(run_id), *arguments)

    def _key(self, run_id: RunId) -> str:
        return f"{self._prefix}:lock:{run_id}"

    def _ask(self, question: Callable[[], Result], *, unanswered: Result) -> Result:
        if time.monotonic() < self._rest_until:
            return unanswered
        try:
            return question()
        except redis.RedisError:
            self._rest_until = time.monotonic() + _REST_SECONDS
            return unanswered


def connect(url: str, *, role: str, max_connections: int = 50) -> redis.Redis:
    """A client for locks and the live stream that gives up quickly; it connects on first use."""
    pool = redis.BlockingConnectionPool.from_url(
        url,
        max_connections=max_connections,
        timeout=1,
        socket_timeout=2,
        socket_connect_timeout=1,
        health_check_interval=10,
        client_name=f"umbel-{role}",
        decode_responses=True,
        encoding_errors="replace",
    )
    return redis.Redis(connection_pool=pool)
