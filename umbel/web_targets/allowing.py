"""What an operator opens although it is not public: `UMBEL_WEB_ALLOW`.

| entry | opens |
| --- | --- |
| `wiki.example` | that host, at whatever address, ports 80 and 443 |
| `wiki.example:8080` | the same on port 8080 alone |
| `10.1.2.3`, `[::1]:8080`, `10.0.0.0/8`, `10.0.0.0/8:8080` | addresses, and names that lead there |
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from umbel.errors import InvalidInput
from umbel.web_targets.addresses import Address, Network, unwrapped
from umbel.web_targets.hosts import parse_host

OPEN_PORTS: Final = (80, 443)


@dataclass(frozen=True, slots=True)
class _Entry:
    """One host or network, and the ports opened there."""

    target: str | Network
    ports: tuple[int, ...]

    def opens(self, host: str, port: int, address: Address) -> bool:
        if port not in self.ports:
            return False
        if isinstance(self.target, str):
            return host == self.target
        return address in self.target or unwrapped(address) in self.target


@dataclass(frozen=True, slots=True)
class AllowList:
    """Targets that may be asked beside the public ones. An empty list opens nothing more."""

    entries: tuple[_Entry, ...] = ()

    @classmethod
    def of(cls, entries: Iterable[str]) -> Self:
        """The list of these entries.

        Raises:
            InvalidInput: one cannot be understood; names it.
        """
        return cls(tuple(_entry_of(entry) for entry in entries))

    def opens(self, host: str, port: int, address: Address) -> bool:
        """Whether an entry names this host or address, on this port."""
        return any(entry.opens(host, port, address) for entry in self.entries)

    def names_port(self, port: int) -> bool:
        """Whether any entry is about this port: if none is, no name need be looked up."""
        return any(port in entry.ports for entry in self.entries)


def _entry_of(entry: str) -> _Entry:
    target, port = _split_port(entry)
    ports = OPEN_PORTS if port is None else (port,)
    plain = target.removeprefix("[").removesuffix("]")
    try:
        if "/" in target:
            return _Entry(ipaddress.ip_network(plain), ports)
        host = parse_host(target)
    except (ValueError, InvalidInput) as error:
        raise InvalidInput(f"{entry!r} names no host or network ({error})") from error
    return _Entry(host if isinstance(host, str) else ipaddress.ip_network(host), ports)


def _split_port(entry: str) -> tuple[str, int | None]:
    """The target and its port; colons of a bare IPv6 network or address are no port."""
    target, colon, port = entry.rpartition(":")
    if not colon or port.endswith("]"):
        return entry, None
    if ":" in target and not target.endswith("]"):  # IPv6 without brackets
        return (entry if "/" in entry else f"[{entry}]"), None
    if not (port.isascii() and port.isdecimal() and 0 < int(port) < 65_536):
        raise InvalidInput(f"{entry!r} has no port of 1 to 65535 behind its colon")
    return target, int(port)
