"""The host part of a URL as one exact thing: an address, or a name that can only be a name.

Resolvers read `127.1`, `0177.0.0.1`, `2130706433` and `①②⑦.⓪.⓪.①` as addresses. Here a host
whose last part is a number is an address in its usual form, or refused.
"""

import ipaddress
import re
from typing import Final

import idna

from umbel.errors import InvalidInput
from umbel.web_targets.addresses import Address

_NAME_CHARS: Final = 253
_LABEL: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")


def parse_host(text: str) -> str | Address:
    """A name in lower case ASCII without a dot at its end, or an address.

    Args:
        text: as in a URL, an IPv6 address in brackets.

    Raises:
        InvalidInput: neither; says why.
    """
    if len(text) > _NAME_CHARS:
        raise InvalidInput(f"the host {text[:100]!r}… is longer than {_NAME_CHARS} characters")
    if text.startswith("["):
        return _ipv6(text)
    name = _ascii(text).removesuffix(".")
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        return _ipv4(name)
    if len(name) > _NAME_CHARS or not all(map(_LABEL.fullmatch, name.split("."))):
        raise InvalidInput(f"the host {text[:100]!r} is no name that can be looked up")
    return name


def _ascii(text: str) -> str:
    if text.isascii():
        return text.lower()
    try:
        return idna.encode(text, uts46=True).decode("ascii").lower()
    except (idna.IDNAError, UnicodeError) as error:
        raise InvalidInput(f"the host {text[:100]!r} is no international name") from error


def _ipv4(text: str) -> ipaddress.IPv4Address:
    try:
        return ipaddress.IPv4Address(text)
    except ValueError as error:
        raise InvalidInput(
            f"the host {text[:100]!r} is an address in an unusual spelling; write it as four "
            "decimal numbers"
        ) from error


def _ipv6(text: str) -> ipaddress.IPv6Address:
    inner = text[1:-1]
    if not text.endswith("]") or "%" in inner:
        raise InvalidInput(f"the host {text[:100]!r} is no IPv6 address without a zone")
    try:
        return ipaddress.IPv6Address(inner)
    except ValueError as error:
        raise InvalidInput(f"the host {text[:100]!r} is no IPv6 address") from error
