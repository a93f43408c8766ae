"""The socket under a model call, so that it can be shut down from outside at any moment.

Closing a response or a client from another thread leaves the reader blocked; shutting the socket
down wakes it in about a millisecond, before headers as well as behind them. The socket is reached
by public means only: the trace that httpx2 offers for every request.
"""

import contextlib
import socket
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Final

import httpx2

from providers.contract import StreamHandle

_CONNECTED: Final = ("connect_tcp.complete", "connect_unix_socket.complete")
_TLS_OVER: Final = ("start_tls.complete", "start_tls.failed")
_CURRENT: ContextVar[StreamHandle | None] = ContextVar("umbel_stream_handle", default=None)


@contextlib.contextmanager
def abortable_by(handle: StreamHandle) -> Iterator[None]:
    """Requests made inside, by this thread or greenlet, end when the handle is aborted."""
    token = _CURRENT.set(handle)
    try:
        yield
    finally:
        handle.detach()
        _CURRENT.reset(token)


def trace_request(request: httpx2.Request) -> None:
    """Event hook of a client: lets the current handle reach every socket opened for the request."""
    handle = _CURRENT.get()
    if handle is None:
        return

    is_tls = request.url.scheme == "https"
    twins: list[socket.socket] = []

    def trace(event: str, facts: Mapping[str, Any]) -> None:
        if event.endswith(_CONNECTED):
            opened: socket.socket = facts["return_value"].get_extra_info("socket")
            if is_tls:
                # the handshake takes the descriptor away from this object; its twin stays usable
                opened = opened.dup()
                twins.append(opened)
            handle.attach(lambda: _shut_down(opened))
        elif event.endswith(_TLS_OVER):
            if event.endswith("complete"):
                secured = facts["return_value"].get_extra_info("socket")
                handle.attach(lambda: _shut_down(secured))
            while twins:
                twins.pop().close()

    request.extensions["trace"] = trace


def _shut_down(opened: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it is closed already
        opened.shutdown(socket.SHUT_RDWR)
