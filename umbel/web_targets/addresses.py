"""Which addresses anybody on the internet may reach: the only ones that are asked by default.

The tables are our own: what `ipaddress` calls global differs between versions of Python, and
counts multicast and translated addresses.
"""

import ipaddress
from typing import Final

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_CLOSED: Final[dict[str, tuple[str, ...]]] = {
    "this machine": ("0.0.0.0/8", "127.0.0.0/8", "::/127"),
    "private": ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"),
    # 168.63.129.16 is public and serves Azure's machines alone.
    "link-local or of a cloud's metadata": ("169.254.0.0/16", "168.63.129.16/32", "fe80::/10"),
    "multicast": ("224.0.0.0/4", "ff00::/8"),
    "reserved": (
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "240.0.0.0/4",
        "2001::/23",  # Teredo, too
        "2001:db8::/32",
        "2002::/16",  # 6to4: leads to any IPv4 address
        "3fff::/20",
    ),
}
_KINDS: Final = tuple(
    (ipaddress.ip_network(network), kind)
    for kind, networks in _CLOSED.items()
    for network in networks
)
_GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
_MAPPED: Final = ipaddress.IPv6Network("::ffff:0:0/96")
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_LOW_32: Final = 0xFFFF_FFFF


def closed_kind(address: Address) -> str | None:
    """Why an address is not for everybody, in a word or some; None: it is public."""
    reached = unwrapped(address)
    for network, kind in _KINDS:
        if reached in network:  # False for the other version
            return kind
    if reached.version == 6 and reached not in _GLOBAL_UNICAST:
        return "reserved"
    return None


def unwrapped(address: Address) -> Address:
    """The IPv4 address that an IPv6 one leads to by mapping or NAT64; any other one itself."""
    if address.version == 6 and (address in _MAPPED or address in _NAT64):
        return ipaddress.IPv4Address(int(address) & _LOW_32)
    return address
