"""Whether a queue's list is still short: the backlog lives in PostgreSQL, not in the broker."""

import time
from collections.abc import Callable, Mapping
from typing import Final

import redis

from umbel.errors import UmbelError
from umbel.names import LOOP_QUEUE, SUSPECT_QUEUE, TOOLS_QUEUE, list_depth

QUEUES: Final = (LOOP_QUEUE, SUSPECT_QUEUE, TOOLS_QUEUE)
_LENGTHS_KEPT_SECONDS: Final = 1.0
_SLOTS_KEPT_SECONDS: Final = 5.0


class QueueRoom:
    """The lengths of the lists, and how long they should be at most.

    Args:
        client: of the broker's Redis.
        prefix: the broker's keys begin with it.
        slots: what living workers carry at once, by queue; may raise an `UmbelError`.
    """

    def __init__(
        self, client: redis.Redis, prefix: str, slots: Callable[[], Mapping[str, int]]
    ) -> None:
        self._client = client
        self._prefix = prefix
        self._look_for_slots = slots
        self._lengths: Mapping[str, int] | None = None
        self._lengths_until = 0.0
        self._slots: Mapping[str, int] = {}
        self._slots_until = 0.0

    def lengths(self) -> Mapping[str, int] | None:
        """Messages that no worker has fetched, by queue; None when Redis does not answer."""
        try:
            with self._client.pipeline(transaction=False) as pipeline:
                for queue in QUEUES:
                    pipeline.llen(f"{{{self._prefix}}}:{queue}")
                return dict(zip(QUEUES, pipeline.execute(), strict=True))
        except (redis.RedisError, OSError):
            return None

    def is_open(self, queue: str) -> bool:
        """Whether one more message makes sense, by a look not older than a second.

        What is not known closes nothing.
        """
        now = time.monotonic()
        if now >= self._lengths_until:
            self._lengths_until = now + _LENGTHS_KEPT_SECONDS  # the others need not wait for it
            self._lengths = self.lengths()
        if now >= self._slots_until:
            self._slots_until = now + _SLOTS_KEPT_SECONDS
            try:
                self._slots = self._look_for_slots()
            except UmbelError:
                return True
        length = (self._lengths or {}).get(queue, 0)
        return length < list_depth(self._slots.get(queue, 0))
