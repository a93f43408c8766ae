"""Ringing the doorbell: messages with ids only, after the commit that made the row ready.

A message is a hint. Losing one costs time (the sweeper rings again), doubling one costs a look.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from celery import Celery
from kombu import Producer
from kombu.exceptions import KombuError, OperationalError
from redis.exceptions import RedisError

from scheduler.bell import CallRing, Ring, StepRing
from tasks.queue_room import QueueRoom
from umbel.contracts import CallId, RunId
from umbel.faults import fault
from umbel.log_context import current
from umbel.names import CALL, LOOP_QUEUE, STEP, TOOLS_QUEUE

log: Final = logging.getLogger(__name__)

_REST_SECONDS: Final = 2.0
"""After a failure the broker is left alone for so long; the rows stay ready."""
_TOGETHER: Final = 200
"""Messages that are sent in one round trip."""


class Ringer:
    """Publishes steps and calls; never raises for a broker that is away.

    Args:
        app: its broker.
        room: a single ring is left out while its queue is full; None: never.
        traceparent_of: the header that leads to the trace of a run, where one is known.
    """

    def __init__(
        self,
        app: Celery,
        room: QueueRoom | None = None,
        traceparent_of: Callable[[str], str | None] = lambda _run_id: None,
    ) -> None:
        self._app = app
        self._room = room
        self._traceparent_of = traceparent_of
        self._rest_until = 0.0

    def ring_step(self, run_id: RunId, step: int, rings: int = 0) -> bool:
        """Announce that a run is ready for a step; False when the broker did not take it.

        True also when the queue is full: whoever frees a slot looks into the record.
        """
        return self._ring_alone(StepRing(run_id, step, rings), LOOP_QUEUE)

    def ring_call(self, call_id: CallId, tool: str, rings: int = 0) -> bool:
        """Announce that a call of `tool` is ready; as `ring_step`."""
        return self._ring_alone(CallRing(call_id, tool, rings), TOOLS_QUEUE)

    def ring_all(self, rings: Sequence[Ring]) -> bool:
        """Announce all of them in few round trips; False when the broker may have taken only some.

        Whether there is room is the caller's question.
        """
        if self._is_resting():
            return False
        try:
            with (
                self._app.producer_pool.acquire(block=True, timeout=1) as producer,
                producer.batch(_TOGETHER),  # type: ignore[attr-defined]  # stubs are older
            ):
                for ring in rings:
                    self._publish(ring, producer)
        except (KombuError, OperationalError, RedisError, OSError) as error:
            return self._note_failure(error)
        return True

    def waiting(self) -> Mapping[str, int] | None:
        """Messages in each queue; None when the broker is away, empty when nobody can look."""
        if self._is_resting():
            return None
        if self._room is None:
            return {}
        lengths = self._room.lengths()
        if lengths is None:
            self._rest_until = time.monotonic() + _REST_SECONDS
        return lengths

    def _ring_alone(self, ring: Ring, queue: str) -> bool:
        if self._is_resting():
            return False
        if self._room is not None and not self._room.is_open(queue):
            return True
        try:
            self._publish(ring)
        except (OperationalError, RedisError, OSError) as error:
            return self._note_failure(error)
        return True

    def _publish(self, ring: Ring, producer: Producer | None = None) -> None:
        again = f":r{ring.rings}" if ring.rings else ""
        arguments: list[str | int]
        if isinstance(ring, StepRing):
            name, queue, arguments = STEP, ring.queue, [ring.run_id, ring.step]
            task_id, shown = f"{ring.run_id}:s{ring.step}", f"{ring.run_id} step {ring.step}"
        else:
            name, queue, arguments = CALL, TOOLS_QUEUE, [ring.call_id]
            task_id, shown = ring.call_id, f"{ring.tool} {ring.call_id}"
        fault("ring.pre_send", task_id=task_id)
        self._app.send_task(
            name,
            args=arguments,
            task_id=task_id + again,
            queue=queue,
            headers=self._headers(ring),
            argsrepr=shown,
            kwargsrepr="",
            retry=False,
            ignore_result=True,
            producer=producer,
        )
        fault("ring.post_send", task_id=task_id)

    def _headers(self, ring: Ring) -> dict[str, str]:
        """For instrumentations of Celery, which go on from there."""
        # A call is rung by whoever is at its run.
        run_id = ring.run_id if isinstance(ring, StepRing) else current().get("run_id")
        traceparent = self._traceparent_of(str(run_id))
        return {} if traceparent is None else {"traceparent": traceparent}

    def _is_resting(self) -> bool:
        return time.monotonic() < self._rest_until

    def _note_failure(self, error: Exception) -> bool:
        self._rest_until = time.monotonic() + _REST_SECONDS
        log.warning("message not taken by the broker", extra={"cause": type(error).__name__})
        return False
