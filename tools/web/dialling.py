"""Connections that are opened only to addresses that may be asked.

A name is looked up once, all its addresses are checked, and the socket is opened to one of those
very addresses: what a resolver answers a second time is never used. The HTTP library opens every
connection through here, so there is no way around it; `Host` and the name that a certificate has to
prove stay those of the URL.
"""

import ipaddress
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import Any, Final

from httpcore2 import (
    SOCKET_OPTION,
    ConnectError,
    ConnectTimeout,
    NetworkBackend,
    NetworkStream,
    SyncBackend,
)

from umbel.errors import InvalidInput
from umbel.tool import ToolFailed
from umbel.web_targets.addresses import Address, closed_kind
from umbel.web_targets.allowing import OPEN_PORTS, AllowList
from umbel.web_targets.hosts import parse_host

Resolve = Callable[[str, int], Sequence[str]]
"""The addresses of a name, in the order in which to try them. Raises OSError."""

WAIT_SECONDS: Final = 20.0
"""How long a server may be silent."""
GRACE_SECONDS: Final = 60.0
LEAST_BYTES_PER_SECOND: Final = 4096
"""A server that keeps sending may take the grace, and then a second for so many bytes."""
MAX_HEADER_BYTES: Final = 64 * 1024
_ADDRESSES_TRIED: Final = 4
_PIECE_BYTES: Final = 16 * 1024


def look_up(name: str, port: int) -> Sequence[str]:
    """What the machine's resolver says."""
    found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


@dataclass(slots=True)
class Pace:
    """How much one request has brought, and how long it may still take."""

    host: str
    on_progress: Callable[[], object]
    now: Callable[[], float] = time.monotonic
    received_bytes: int = 0
    is_in_header: bool = True
    _started: float = field(init=False)

    def __post_init__(self) -> None:
        self._started = self.now()

    def wait_seconds(self) -> float:
        """How long the next piece may take.

        Raises:
            ToolFailed: the answer comes too slowly, or its header never ends.
        """
        if self.is_in_header and self.received_bytes > MAX_HEADER_BYTES:
            raise ToolFailed(
                f"{self.host} sent a header of more than {MAX_HEADER_BYTES} bytes; it was left."
            )
        allowed = GRACE_SECONDS + self.received_bytes / LEAST_BYTES_PER_SECOND
        left = self._started + allowed - self.now()
        if left <= 0:
            raise ToolFailed(
                f"{self.host} sends less than {LEAST_BYTES_PER_SECOND} bytes a second; it was left."
            )
        return min(WAIT_SECONDS, left)

    def took(self, size_bytes: int) -> None:
        """Note a piece, and say that the tool is alive."""
        self.received_bytes += size_bytes
        self.on_progress()


@dataclass(frozen=True, slots=True)
class Dialler(NetworkBackend):
    """Opens the connection of one request."""

    allow: AllowList
    resolve: Resolve
    pace: Pace

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002 - the library's signature; `pace` decides
        local_address: str | None = None,  # noqa: ARG002
        socket_options: Iterable[SOCKET_OPTION] | None = None,  # noqa: ARG002
    ) -> NetworkStream:
        """A connection to a checked address of `host`.

        Raises:
            InvalidInput: none of its addresses may be asked.
            ToolFailed: it has no address.
            ConnectError, ConnectTimeout: none of them answers.
        """
        addresses = checked_addresses(host, port, self.allow, self.resolve)
        failure: ConnectError | ConnectTimeout | None = None
        for address in addresses[:_ADDRESSES_TRIED]:
            try:
                # An address, not a name: nothing is looked up again.
                stream = SyncBackend().connect_tcp(str(address), port, self.pace.wait_seconds())
            except (ConnectError, ConnectTimeout) as error:
                failure = error
            else:
                return PacedStream(stream, self.pace)
        raise failure or ConnectError("no address")

    def connect_unix_socket(
        self,
        path: str,  # noqa: ARG002
        timeout: float | None = None,  # noqa: ARG002
        socket_options: Iterable[SOCKET_OPTION] | None = None,  # noqa: ARG002
    ) -> NetworkStream:
        """Never: no URL leads here."""
        raise InvalidInput("A socket of this machine is no place on the web.")

    def sleep(self, seconds: float) -> None:
        """Never needed: nothing is tried again."""


@dataclass(frozen=True, slots=True)
class PacedStream(NetworkStream):
    """A connection whose every wait is bounded, by silence and by pace."""

    inner: NetworkStream
    pace: Pace

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002
        """The next piece."""
        data = self.inner.read(min(max_bytes, _PIECE_BYTES), self.pace.wait_seconds())
        self.pace.took(len(data))
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        """Send."""
        self.inner.write(buffer, self.pace.wait_seconds())

    def close(self) -> None:
        """Close the connection."""
        self.inner.close()

    def start_tls(
        self,
        ssl_context: SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002
    ) -> NetworkStream:
        """The same connection, encrypted; the certificate must be of `server_hostname`."""
        try:
            inner = self.inner.start_tls(ssl_context, server_hostname, self.pace.wait_seconds())
        except BaseException:
            self.inner.close()
            raise
        return PacedStream(inner, self.pace)

    def get_extra_info(self, info: str) -> Any:
        """What the library asks about the connection."""
        return self.inner.get_extra_info(info)


def checked_addresses(
    host: str, port: int, allow: AllowList, resolve: Resolve
) -> Sequence[Address]:
    """The addresses of a host, all of which may be asked on this port.

    Raises:
        InvalidInput: one of them may not.
        ToolFailed: the name has no address.
    """
    if port not in OPEN_PORTS and not allow.names_port(port):
        raise _closed_port(host, port)
    addresses = _addresses_of(host, port, resolve)
    for address in addresses:
        if allow.opens(host, port, address):
            continue
        kind = closed_kind(address)
        if kind is not None:
            raise InvalidInput(
                f"{host} is not on the public web: its address is {kind}. Only public addresses "
                "are read, and what the operator lists in UMBEL_WEB_ALLOW."
            )
        if port not in OPEN_PORTS:
            raise _closed_port(host, port)
    return addresses


def _addresses_of(host: str, port: int, resolve: Resolve) -> Sequence[Address]:
    known = parse_host(f"[{host}]" if ":" in host else host)
    if not isinstance(known, str):
        return [known]
    try:
        found = [ipaddress.ip_address(text) for text in resolve(known, port)]
    except (OSError, UnicodeError) as error:
        raise ToolFailed(f"The name {host} cannot be looked up.") from error
    if not found:
        raise ToolFailed(f"The name {host} has no address.")
    return found


def _closed_port(host: str, port: int) -> InvalidInput:
    return InvalidInput(
        f"Port {port} of {host} is not read: only 80 and 443 are, and what the operator lists in "
        f"UMBEL_WEB_ALLOW, such as {host}:{port}."
    )
