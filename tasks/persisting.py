"""Writing what must not be lost: a paid reply or an outcome waits for PostgreSQL to return."""

import logging
from collections.abc import Callable
from threading import Event
from typing import Final, TypeVar

from umbel.errors import Unavailable

log: Final = logging.getLogger(__name__)

Result = TypeVar("Result")

_FIRST_PAUSE_SECONDS: Final = 0.2
_LONGEST_PAUSE_SECONDS: Final = 2.0


def persist(write: Callable[[], Result]) -> Result:
    """The result of `write`, tried until PostgreSQL answers.

    `write` must be a compare-and-set: after a lost answer it is run again. The wait has no end of
    its own: giving up would throw away what is only in memory, and the process can do nothing else
    without its database. If it dies meanwhile, the sweeper takes over as after any death.
    """
    pause = _FIRST_PAUSE_SECONDS
    while True:
        try:
            return write()
        except Unavailable as error:
            log.warning("write repeated", extra={"cause": str(error)})
        Event().wait(pause)
        pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
