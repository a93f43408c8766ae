"""The live stream: what a model is saying right now. For eyes only; losing it loses nothing."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import redis

from umbel.contracts import RunId

DeltaKind = Literal["text", "reasoning", "call"]

_FLUSH_SECONDS: Final = 0.08
_MAX_ENTRIES: Final = 2_000
_KEEP_SECONDS: Final = 3_600


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a reply that is still being written."""

    cursor: str
    """Where to read on."""
    step: int
    attempt: int
    kind: DeltaKind
    text: str


class LivePublisher:
    """Collects the pieces of one attempt and sends them in small batches; never raises."""

    def __init__(
        self, client: redis.Redis, *, prefix: str, run_id: RunId, step: int, attempt: int
    ) -> None:
        self._client = client
        self._key = f"{prefix}:live:{run_id}"
        self._facts = {"step": str(step), "attempt": str(attempt)}
        self._pending: list[tuple[DeltaKind, str]] = []
        self._last_flush = 0.0
        self._is_broken = False

    def add(self, kind: DeltaKind, text: str) -> None:
        """Take a piece; it is sent within a fraction of a second."""
        if self._pending and self._pending[-1][0] == kind != "call":
            self._pending[-1] = (kind, self._pending[-1][1] + text)
        else:
            self._pending.append((kind, text))
        if time.monotonic() - self._last_flush >= _FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Send what is waiting."""
        pending, self._pending = self._pending, []
        self._last_flush = time.monotonic()
        if not pending or self._is_broken:
            return
        try:
            with self._client.pipeline(transaction=False) as pipe:
                for kind, text in pending:
                    fields: dict[Any, Any] = {
                        **self._facts,
                        "kind": kind,
                        "text": text,
                    }
                    pipe.xadd(self._key, fields, maxlen=_MAX_ENTRIES, approximate=True)
                pipe.expire(self._key, _KEEP_SECONDS)
                pipe.execute()
        except redis.RedisError:
            self._is_broken = True  # the rest of this attempt is not shown; the record is complete


class LiveReader:
    """Follows the live stream of one run."""

    def __init__(self, client: redis.Redis, *, prefix: str, run_id: RunId) -> None:
        self._client = client
        self._key = f"{prefix}:live:{run_id}"
        self._cursor = "0-0"

    def read(self, wait_seconds: float) -> Iterator[Delta]:
        """Pieces since the last call, waiting up to `wait_seconds` for the first.

        Raises:
            redis.RedisError: the stream cannot be read now.
        """
        found: Any = self._client.xread(
            {self._key: self._cursor}, block=max(1, int(wait_seconds * 1000))
        )
        for _, entries in found or []:
            for cursor, fields in entries:
                self._cursor = cursor
                yield Delta(
                    cursor=self._cursor,
                    step=int(fields["step"]),
                    attempt=int(fields["attempt"]),
                    kind=fields["kind"],
                    text=fields["text"],
                )
