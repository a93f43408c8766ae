"""Ringing the doorbell: messages with ids only, after the commit that made the row ready.

A message is a hint. Losing one costs time (the sweeper rings again), doubling one costs a look.
"""

import logging
import time
from typing import Final

from celery import Celery
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from umbel.contracts import CallId, RunId
from umbel.names import CALL, STEP

log: Final = logging.getLogger(__name__)

_REST_SECONDS: Final = 2.0
"""After a failure the broker is left alone for so long; the rows stay ready."""


class Ringer:
    """Publishes steps and calls; never raises for a broker that is away."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._rest_until = 0.0

    def ring_step(self, run_id: RunId, step: int, rings: int = 0) -> bool:
        """Announce that a run is ready for a step; False when the broker did not take it."""
        task_id = f"{run_id}:s{step}" + (f":r{rings}" if rings else "")
        return self._send(STEP, [run_id, step], task_id, f"{run_id} step {step}")

    def ring_call(self, call_id: CallId, tool: str = "", rings: int = 0) -> bool:
        """Announce that a call is ready; False when the broker did not take it."""
        task_id = call_id + (f":r{rings}" if rings else "")
        return self._send(CALL, [call_id], task_id, f"{tool} {call_id}".strip())

    def _send(self, name: str, arguments: list[str | int], task_id: str, shown: str) -> bool:
        if time.monotonic() < self._rest_until:
            return False
        try:
            self._app.send_task(
                name,
                args=arguments,
                task_id=task_id,
                argsrepr=shown,
                kwargsrepr="",
                retry=False,
                ignore_result=True,
            )
        except (OperationalError, RedisError, OSError) as error:
            self._rest_until = time.monotonic() + _REST_SECONDS
            log.warning("message not taken by the broker", extra={"cause": type(error).__name__})
            return False
        return True
