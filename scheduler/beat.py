"""Celery beat's scheduler on PostgreSQL: a tick is one sweep. Any number of beats may be active."""

import logging
import time
from abc import abstractmethod
from typing import Any, Final

from celery import Celery
from celery.beat import Scheduler

from scheduler.sweeper import Sweeper
from umbel.errors import UmbelError

log: Final = logging.getLogger(__name__)

_TIDY_SECONDS: Final = 600.0
_AWAY_SECONDS: Final = 1.0
"""Pause after PostgreSQL did not answer."""


class SweepScheduler(Scheduler):
    """Keeps no schedule of its own: rows in PostgreSQL are the schedule."""

    def __init__(self, app: Celery, *args: Any, **kwargs: Any) -> None:
        self._sweeper: Sweeper | None = None
        self._tidied_at = time.monotonic()
        super().__init__(app, *args, **kwargs)

    def setup_schedule(self) -> None:
        """Build the sweeper; beat calls it once, and not when it only wants to look."""
        self._sweeper = self.make_sweeper()

    @abstractmethod
    def make_sweeper(self) -> Sweeper:
        """The sweeper of this process, put together by whoever knows the settings."""

    def get_schedule(self) -> dict[str, Any]:
        """Empty: nothing is kept in memory."""
        return {}

    @property
    def info(self) -> str:
        """What beat prints at start."""
        return "    . schedule -> PostgreSQL"

    def tick(self, *_: Any, **__: Any) -> float:
        """Sweep once; seconds until the next tick."""
        if self._sweeper is None:
            return _AWAY_SECONDS
        try:
            self._sweeper.sweep()
            if time.monotonic() - self._tidied_at > _TIDY_SECONDS:
                self._tidied_at = time.monotonic()
                self._sweeper.tidy()
        except UmbelError as error:
            log.warning("sweep not finished", extra={"cause": str(error)})
            return _AWAY_SECONDS
        except Exception:
            log.exception("sweep failed")
            return _AWAY_SECONDS
        return float(self.app.conf.beat_max_loop_interval)
