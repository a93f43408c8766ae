"""A URL taken apart once, strictly: what was checked is what is asked."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

from umbel.errors import InvalidInput
from umbel.web_targets.addresses import Address
from umbel.web_targets.hosts import parse_host

MAX_CHARS: Final = 4096
_PORTS: Final = {"http": 80, "https": 443}
_UNCLEAR: Final = re.compile(r"[\x00-\x20\x7f\\]")
"""Characters that programs read differently, or that would end a line of the request."""
_KEPT: Final = "%/:@!$&'()*+,;=~?[]"
"""What stays as it is in paths and queries; anything else unusual is written with percent signs."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes."""

    scheme: str
    host: str | Address
    port: int
    path: str
    """With the query, in ASCII; begins with `/`."""

    @property
    def host_text(self) -> str:
        """The host as it stands in a URL and in a `Host` header."""
        host = str(self.host)
        return f"[{host}]" if ":" in host else host

    @property
    def authority(self) -> str:
        """Host, and port unless it is the scheme's own."""
        if self.port == _PORTS[self.scheme]:
            return self.host_text
        return f"{self.host_text}:{self.port}"

    @property
    def url(self) -> str:
        """The whole URL, without a fragment."""
        return f"{self.scheme}://{self.authority}{self.path}"


def parse_url(text: str) -> Target:
    """The target of an absolute http or https URL.

    Raises:
        InvalidInput: it is none, or one that programs read differently; says what to write.
    """
    shown = repr(text[:200])
    if len(text) > MAX_CHARS:
        raise InvalidInput(f"The URL {shown}… is longer than {MAX_CHARS} characters.")
    if found := _UNCLEAR.search(text):
        raise InvalidInput(
            f"The URL {shown} holds {found[0]!r}: write spaces as %20 and no control characters "
            "or backslashes."
        )
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise InvalidInput(f"The URL {shown} cannot be read: {error}.") from error
    if parts.scheme not in _PORTS or not parts.netloc:
        raise InvalidInput(f"The URL {shown} is none of http:// or https://, which alone are read.")
    if port == 0:
        raise InvalidInput(f"The URL {shown} has no port of 1 to 65535.")
    if "@" in parts.netloc:
        raise InvalidInput(f"The URL {without_user(text)!r} holds a user name: leave it out.")
    return Target(
        parts.scheme,
        _host_of(parts.netloc, shown),
        _PORTS[parts.scheme] if port is None else port,
        _path_of(parts.path, parts.query),
    )


def redirected(target: Target, location: str) -> Target:
    """Where a redirect leads, relative ones included.

    Raises:
        InvalidInput: as `parse_url`.
    """
    try:
        return parse_url(urljoin(target.url, location[: 2 * MAX_CHARS]))
    except ValueError as error:
        raise InvalidInput(f"It redirects to {location[:200]!r}, which is no URL.") from error


def without_user(text: str) -> str:
    """The beginning of a URL, without a user name and password."""
    return re.sub(r"//[^/?#]*@", "//***@", text)[:200]


def _host_of(netloc: str, shown: str) -> str | Address:
    inside, bracket, behind = netloc.rpartition("]")
    text = inside + bracket + behind.partition(":")[0]
    try:
        return parse_host(text)
    except InvalidInput as error:
        raise InvalidInput(f"The URL {shown} cannot be asked: {error}.") from error


def _path_of(path: str, query: str) -> str:
    try:
        whole = quote(path or "/", safe=_KEPT) + (f"?{quote(query, safe=_KEPT)}" if query else "")
    except UnicodeEncodeError as error:
        raise InvalidInput("The URL is not valid Unicode.") from error
    return whole if whole.startswith("/") else f"/{whole}"
