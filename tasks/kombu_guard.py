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
3. A Redis that answers and refuses: full, read-only after a failover, without the right to write.
   kombu knows connection errors, which it survives, and errors of a channel, which end the worker
   where it declares, consumes or closes. The guard turns these refusals into the former: the worker
   connects again and again, as while Redis is gone.

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
from redis.exceptions import (
    MasterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
)

from tasks.native import is_gevent

log: Final = logging.getLogger(__name__)

KNOWN_VERSIONS: Final = ("5.7.",)
"""kombu releases on which the guard has been tested (tests/tasks/test_kombu_guard.py)."""
_REFUSALS: Final = (MasterDownError, NoPermissionError, OutOfMemoryError, ReadOnlyError)
_REFUSING_WORDS: Final = ("MISCONF ", "NOREPLICAS ", "UNBLOCKED ")
"""Of refusals for which redis-py has no class."""


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
        parameters["connection_class"] = _guarded(kind, connection.cycle)
        return parameters

    guarded.is_umbel_guard = True  # type: ignore[attr-defined]
    channel._connparams = guarded  # noqa: SLF001
    return True


def _guarded(kind: Any, cycle: Any) -> Any:
    """The same kind of connection, guarded as 2 and 3 say."""

    class GuardedConnection(kind):  # type: ignore[misc]  # made by kombu at run time
        _is_greeting = False

        def on_connect_check_health(self, *args: Any, **kwargs: Any) -> None:
            # redis-py greets with what not every user has the right to, and takes a refusal well.
            self._is_greeting = True
            try:
                super().on_connect_check_health(*args, **kwargs)
            finally:
                self._is_greeting = False

        def disconnect(self, *args: Any, **kwargs: Any) -> None:
            sock = self._sock
            if sock is not None and os.getpid() == self.pid:  # a child shares its parent's poller
                with contextlib.suppress(OSError):
                    cycle.poller.unregister(sock)
            super().disconnect(*args, **kwargs)

        def read_response(self, *args: Any, **kwargs: Any) -> Any:
            try:
                return super().read_response(*args, **kwargs)
            except ResponseError as error:
                if self._is_greeting or not _is_refusal(error):
                    raise
                self.disconnect()  # of a pipeline more answers may come
                raise redis.ConnectionError(f"the broker refuses: {error}") from error

    return GuardedConnection


def _is_refusal(error: ResponseError) -> bool:
    return isinstance(error, _REFUSALS) or str(error).startswith(_REFUSING_WORDS)


def install_waits() -> None:
    """Let kombu wait for the broker as gevent waits, where gevent runs.

    Celery's start imports the module before it patches `time`: the waits between two tries to
    connect would stop every greenlet of the process for as long as Redis is away.
    """
    if is_gevent():
        vars(functional)["sleep"] = time.sleep  # noqa: TID251 - for kombu to wait with
