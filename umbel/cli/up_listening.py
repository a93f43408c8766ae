"""Addresses that processes of ours listen on: are they free, does somebody answer?"""

import socket
from typing import Final

from umbel.errors import Misconfigured, Unavailable

_CONNECT_SECONDS: Final = 0.2


def refuse_taken(address: str, variable: str) -> None:
    """See that an address can be listened on.

    Raises:
        Unavailable: somebody listens there already.
        Misconfigured: this machine has no such address, or the port needs more rights.
    """
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
        choice = f"set {variable} to another one, or to off"
        if answers(address):
            raise Unavailable(
                f"Somebody listens on {address} already: stop that process, or {choice}."
            ) from error
        raise Misconfigured(
            f"Nobody can listen on {address} ({error.strerror}): {choice}."
        ) from error


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
