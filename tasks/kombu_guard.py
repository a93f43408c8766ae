"""Guards for kombu 5.7: a worker survives the loss of its connections to Redis.

1. A worker that holds an unacknowledged message: tearing down the broken connection touches a
   channel whose transport is gone, and the worker exits with "'NoneType' object has no attribute
   'hostname'". The guard turns that into the connection error it is, which kombu's own reconnect
   handles. With early acknowledgement only messages reserved at that moment are exposed.
2. A prefork worker whose pool has replaced a child since it connected: the child has a copy of the
   socket. kombu closes it and only then takes it out of the poller, which is too late while a copy
   is open: the poller goes on to report it, under a number that may be the new connection's. The
   worker then reads from that one what will never come: it stands still, alive by its beats. The
   guard takes the socket out first.

Supervisors restart workers all the same.
"""

import contextlib
import functools
import logging
import os
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
        parameters = original(self, *args, **kwargs)
        kind = parameters["connection_class"]
        parameters["connection_class"] = _leaving_first(kind, connection.cycle)
        return parameters

    guarded.is_umbel_guard = True  # type: ignore[attr-defined]
    channel._connparams = guarded  # noqa: SLF001
    return True


def _leaving_first(kind: Any, cycle: Any) -> Any:
    """The same kind of connection; its socket leaves the poller while it is still open."""

    class LeavingConnection(kind):  # type: ignore[misc]  # made by kombu at run time
        def disconnect(self, *args: Any, **kwargs: Any) -> None:
            sock = self._sock
            if sock is not None and os.getpid() == self.pid:  # a child shares its parent's poller
                with contextlib.suppress(OSError):
                    cycle.poller.unregister(sock)
            super().disconnect(*args, **kwargs)

    return LeavingConnection


def install_waits() -> None:
    """Let kombu wait for the broker as gevent waits, where gevent runs.

    Celery's start imports the module before it patches `time`: the waits between two tries to
    connect would stop every greenlet of the process for as long as Redis is away.
    """
    if is_gevent():
        vars(functional)["sleep"] = time.sleep  # noqa: TID251 - for kombu to wait with
