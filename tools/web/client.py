"""Asking web servers, one request and at most five redirects at a time.

No cookies, no passwords, no proxy and nothing else from the environment but the certificates that
the machine trusts. `robots.txt` is not asked: it speaks to crawlers, and this reads one page that
somebody wants, under its own name.
"""

import ssl
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import httpcore2

from tools.web.decoding import ACCEPTED, decoded
from tools.web.dialling import WAIT_SECONDS, Dialler, Pace, Resolve, look_up
from tools.web.target import Target, parse_url, redirected
from umbel.errors import NotFound
from umbel.tool import ToolFailed
from umbel.web_targets.allowing import AllowList

MAX_REDIRECTS: Final = 5
USER_AGENT: Final = "Umbel (reads a page for a person; no crawler)"
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_GONE: Final = (404, 410)


class WebAccess:
    """What one process needs to ask the web. Connects to nothing until it is used."""

    def __init__(self, allow: AllowList, *, resolve: Resolve = look_up) -> None:
        self.allow = allow
        self.resolve = resolve

    @cached_property
    def certificates(self) -> ssl.SSLContext:
        """The machine's trusted certificates; read once."""
        return httpcore2.default_ssl_context()


@dataclass(frozen=True, slots=True)
class Answer:
    """Implements `umbel.web.WebAnswer`."""

    url: str
    headers: Mapping[str, str]
    _body: Iterator[bytes] = field(repr=False)

    def pieces(self, limit_bytes: int) -> Iterator[bytes]:
        """The body as it was before compression."""
        return decoded(self._body, self.headers.get("content-encoding", ""), limit_bytes)


@dataclass(frozen=True, slots=True)
class Web:
    """Implements `umbel.web.Web` for one call."""

    access: WebAccess
    on_progress: Callable[[], object]

    @contextmanager
    def open(self, url: str, *, accept: str = "*/*") -> Generator[Answer]:
        """The answer to a GET, whatever redirects it took; closed at the end of the block."""
        target = parse_url(url)
        for _ in range(MAX_REDIRECTS + 1):
            with self._asked(target, accept) as response:
                location = _location_of(response)
                if location is None:
                    _refuse_failure(target, response.status)
                    yield Answer(target.url, _headers_of(response), _body_of(target, response))
                    return
            target = redirected(target, location)
        raise ToolFailed(f"{url[:200]} redirects more than {MAX_REDIRECTS} times; it was left.")

    @contextmanager
    def _asked(self, target: Target, accept: str) -> Generator[httpcore2.Response]:
        """The beginning of a server's answer, from a connection of its own."""
        pace = Pace(target.host_text, self.on_progress)
        connection = httpcore2.HTTPConnection(
            httpcore2.Origin(target.scheme.encode(), str(target.host).encode(), target.port),
            ssl_context=self.access.certificates if target.scheme == "https" else None,
            network_backend=Dialler(self.access.allow, self.access.resolve, pace),
        )
        with closing(connection):
            with _explained(target):
                response = connection.handle_request(_request_of(target, accept))
            pace.is_in_header = False
            yield response


def _request_of(target: Target, accept: str) -> httpcore2.Request:
    url = httpcore2.URL(
        scheme=target.scheme, host=str(target.host), port=target.port, target=target.path
    )
    headers = (
        ("Host", target.authority),
        ("User-Agent", USER_AGENT),
        ("Accept", accept),
        ("Accept-Encoding", ACCEPTED),
        ("Connection", "close"),
    )
    return httpcore2.Request("GET", url, headers=headers)


def _location_of(response: httpcore2.Response) -> str | None:
    """Where a redirect leads; its body is not read."""
    if response.status not in _REDIRECTS:
        return None
    return _headers_of(response).get("location")


def _refuse_failure(target: Target, status: int) -> None:
    """Only a page is a page.

    Raises:
        NotFound: there is none.
        ToolFailed: the server does not give it.
    """
    if status in _GONE:
        raise NotFound(f"There is no page at {target.url[:500]} (status {status}).")
    if not 200 <= status < 300 or status in (204, 205):
        raise ToolFailed(f"{target.url[:400]} gave no page: the server answered {status}.")


def _headers_of(response: httpcore2.Response) -> dict[str, str]:
    """Headers by name in lower case; of several with one name the first."""
    headers: dict[str, str] = {}
    for name, value in response.headers:
        headers.setdefault(
            name.decode("ascii", "replace").lower(), value.decode("utf-8", "replace")
        )
    return headers


def _body_of(target: Target, response: httpcore2.Response) -> Iterator[bytes]:
    with _explained(target):
        yield from response.iter_stream()


@contextmanager
def _explained(target: Target) -> Generator[None]:
    """What went wrong on the way, in words that say nothing of addresses.

    Raises:
        ToolFailed: the server cannot be reached, is silent, or speaks no HTTP.
    """
    host = target.authority
    try:
        yield
    except httpcore2.TimeoutException as error:
        raise ToolFailed(f"{host} was silent for {WAIT_SECONDS:g} seconds; it was left.") from error
    except httpcore2.NetworkError as error:
        if isinstance(error.__context__, ssl.SSLCertVerificationError):
            raise ToolFailed(f"{host} has no valid certificate for its name.") from error
        raise ToolFailed(f"{host} cannot be reached, or ended the connection.") from error
    except httpcore2.ProtocolError as error:
        raise ToolFailed(f"{host} did not answer as a web server does.") from error
