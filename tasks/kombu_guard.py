"""A guard for kombu 5.7: a worker that holds an unacknowledged message survives the loss of Redis.

Without it, tearing down the broken connection touches a channel whose transport is gone, and the
worker exits with "'NoneType' object has no attribute 'hostname'". The guard turns that into the
connection error it is, which kombu's own reconnect handles. With early acknowledgement only
messages reserved at that moment are exposed; supervisors restart workers all the same.
"""

import functools
import logging
import time
from importlib.metadata import version
from typing import Any, Final

import redis
from kombu.transport import redis as transport
from kombu.utils import functional

from tasks.native import is_gevent

log: Final = logging.getLogger(__name__)

KNOWN_VERSIONS: Final = ("5.7.",)
"""kombu releases on which the guard has been tested (tests/tasks/test_kombu_guard.py)."""


def install_guard() -> bool:
    """Wrap `Channel._connparams` once; False, with a log line, for a kombu it was not made for."""
    channel: Any = transport.Channel  # its private method is the only place for this
    original = channel._connparams  # noqa: SLF001
    if getattr(original, "is_umbel_guard", False):
        return True
    if not version("kombu").startswith(KNOWN_VERSIONS):
        log.warning(
            "kombu guard is not active: untested version", extra={"kombu": version("kombu")}
        )
        return False

    @functools.wraps(original)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        connection = self.connection
        if connection is None or connection.client is None:
            raise redis.ConnectionError("the broker connection is gone")
        return original(self, *args, **kwargs)

    guarded.is_umbel_guard = True  # type: ignore[attr-defined]
    channel._connparams = guarded  # noqa: SLF001
    return True


def install_waits() -> None:
    """Let kombu wait for the broker as gevent waits, where gevent runs.

    Celery's start imports the module before it patches `time`: the waits between two tries to
    connect would stop every greenlet of the process for as long as Redis is away.
    """
    if is_gevent():
        vars(functional)["sleep"] = time.sleep  # noqa: TID251 - for kombu to wait with
