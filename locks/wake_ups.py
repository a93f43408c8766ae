"""Wake-ups: somebody stopped or corrected a run, and whoever streams for it should look at once.

A hint and never an authority: who hears one asks PostgreSQL. Losing one costs a few seconds, until
the record is looked at anyway. They are entries of one short stream, so that a listener which was
away for a moment hears them late instead of never.
"""

import time
from collections.abc import Iterable
from typing import Any, Final

import redis

from umbel.contracts import RunId

_MAX_ENTRIES: Final = 1_000
_KEEP_SECONDS: Final = 3_600
_REST_SECONDS: Final = 1.0
"""After a failure the sender leaves Redis alone for so long: no verb waits for a dead server."""


class WakeUps:
    """Sends them; never raises."""

    def __init__(self, client: redis.Redis, *, prefix: str) -> None:
        self._client = client
        self._key = _key(prefix)
        self._rest_until = 0.0

    def send(self, run_ids: Iterable[RunId]) -> None:
        """Let workers that stream for these runs look into the record."""
        if time.monotonic() < self._rest_until:
            return
        try:
            with self._client.pipeline(transaction=False) as pipe:
                for run_id in run_ids:
                    fields: dict[Any, Any] = {"run_id": run_id}
                    pipe.xadd(self._key, fields, maxlen=_MAX_ENTRIES, approximate=True)
                pipe.expire(self._key, _KEEP_SECONDS)
                pipe.execute()
        except redis.RedisError:
            self._rest_until = time.monotonic() + _REST_SECONDS


class WakeUpListener:
    """Hears what is sent after it first listened."""

    def __init__(self, client: redis.Redis, *, prefix: str) -> None:
        self._client = client
        self._key = _key(prefix)
        self._cursor = ""

    def hear(self, wait_seconds: float) -> set[RunId]:
        """Runs that somebody should look at, waiting up to `wait_seconds` for the first.

        Raises:
            redis.RedisError: it cannot be listened to now.
        """
        if not self._cursor:
            # Not `$`: what is sent between two reads would be lost. Ids are the server's time.
            seconds, micros = self._client.time()
            self._cursor = str(seconds * 1000 + micros // 1000 - 1)
        found: Any = self._client.xread(
            {self._key: self._cursor}, block=max(1, int(wait_seconds * 1000))
        )
        heard: set[RunId] = set()
        for _, entries in found or []:
            for cursor, fields in entries:
                self._cursor = cursor
                heard.add(RunId(fields["run_id"]))
        return heard


def _key(prefix: str) -> str:
    return f"{prefix}:wake"
