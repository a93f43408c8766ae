"""Addresses that processes of ours listen on: are they free, does somebody answer?"""

import socket
import threading
import time
from typing import Final

from umbel.cli.port_holder import holder_of
from umbel.errors import Misconfigured, Unavailable

_CONNECT_SECONDS: Final = 0.2
_POLL_SECONDS: Final = 0.1


def refuse_taken(address: str, variable: str, *, patience_seconds: float = 0.0) -> None:
    """See that an address can be listened on.

    Args:
        address: host:port.
        variable: the setting that names it.
        patience_seconds: how long whoever listens there has to end.

    Raises:
        Unavailable: somebody listens there already.
        Misconfigured: this machine has no such address, or the port needs more rights.
    """
    deadline = time.monotonic() + patience_seconds
    pause = threading.Event()
    while (error := _obstacle(address)) is not None:
        choice = f"set {variable} to another one, or to off"
        if not answers(address):
            raise Misconfigured(
                f"Nobody can listen on {address} ({error.strerror}): {choice}."
            ) from error
        if time.monotonic() >= deadline:
            who = holder_of(_host_and_port(address)[1])
            raise Unavailable(
                f"Somebody listens on {address} already{f': {who}' if who else ''}. "
                f"Stop that one, or {choice}."
            ) from error
        pause.wait(_POLL_SECONDS)


def _obstacle(address: str) -> OSError | None:
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(
            *_host_and_port(address), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            # As servers do it: a connection of the last one that is closing is no obstacle.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
            probe.listen()
    except OSError as error:
        return error
    return None


def answers(address: str) -> bool:
    """Whether somebody accepts connections there now."""
    try:
        socket.create_connection(_host_and_port(address), timeout=_CONNECT_SECONDS).close()
    except OSError:
        return False
    return True


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
