"""A guard for Celery 5.7: a prefork worker that has just lost a child survives a reconnect.

After the connection to the broker was lost, the pool registers its processes with the event loop
anew. One whose end was noticed already has nothing left to register; Celery registers that, and
the worker exits with "file descriptor is None". The next look at the pool replaces the child.
"""

import functools
import logging
from importlib.metadata import version
from typing import Any, Final

from celery.concurrency.asynpool import AsynPool

log: Final = logging.getLogger(__name__)

KNOWN_VERSIONS: Final = ("5.7.",)
"""Celery releases on which the guard has been tested (tests/tasks/test_pool_guard.py)."""


def install_pool_guard() -> bool:
    """Wrap `AsynPool._track_child_process` once; False, with a log line, for another Celery."""
    pool: Any = AsynPool  # its private method is the only place for this
    original = pool._track_child_process  # noqa: SLF001
    if getattr(original, "is_umbel_guard", False):
        return True
    if not version("celery").startswith(KNOWN_VERSIONS):
        log.warning(
            "pool guard is not active: untested version", extra={"celery": version("celery")}
        )
        return False

    @functools.wraps(original)
    def guarded(self: Any, process: Any, hub: Any) -> None:
        has_ended = getattr(process, "_sentinel_poll", process) is None
        if not has_ended:
            original(self, process, hub)

    guarded.is_umbel_guard = True  # type: ignore[attr-defined]  # a mark for the next installation
    pool._track_child_process = guarded  # noqa: SLF001
    return True
