"""The SDK's client for one endpoint, made late and once per process: it opens raw answers.

The SDK does authentication, TLS, proxies, the pool and status errors. It does not retry (its
retries are hidden from the ledger) and does not parse. Connections are not reused: only a fresh
one hands its socket to `wire_socket`, and a model call outlasts a handshake by far.
"""

import contextlib
import os
import ssl
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import httpx2

from providers.contract import Endpoint, StreamLimits
from providers.wire_socket import trace_request

if TYPE_CHECKING:
    import openai

CONNECT_SECONDS: Final = 10.0
_BACKSTOP_SECONDS: Final = 15.0  # the watchdog's clocks come first
_NO_KEY: Final = "none"  # the SDK insists on one; local servers ignore it
_LOOPBACK: Final = frozenset(("localhost", "127.0.0.1", "::1"))

_clients: dict[tuple[int, str, str], "openai.OpenAI"] = {}
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """An answer whose headers have come; the body is read by iterating."""

    status: int
    headers: Mapping[str, str]
    chunks: Iterator[bytes]


@contextlib.contextmanager
def open_answer(
    endpoint: Endpoint, path: str, body: bytes, limits: StreamLimits, headers: Mapping[str, str]
) -> Iterator[RawAnswer]:
    """Post `body` as it is and give the raw answer, whatever its status; closes it at the end.

    Raises:
        httpx2.HTTPError, ssl.SSLError, OSError: transport failures, also while iterating.
    """
    import openai
    from openai.types.chat import ChatCompletionChunk

    try:
        stream: openai.Stream[ChatCompletionChunk] = client_for(endpoint).post(
            path,
            cast_to=ChatCompletionChunk,
            content=body,
            stream=True,
            stream_cls=openai.Stream[ChatCompletionChunk],
            options={
                "headers": headers,
                "timeout": _timeout(limits),
            },
        )
    except openai.APIStatusError as error:
        response = error.response
        yield RawAnswer(response.status_code, dict(response.headers), iter((response.content,)))
        return
    except openai.APIConnectionError as error:
        raise _cause_of(error) from error
    response = stream.response  # the raw answer: the SDK's own reader is never started
    try:
        yield RawAnswer(response.status_code, dict(response.headers), response.iter_bytes())
    finally:
        response.close()


def _cause_of(error: "openai.APIConnectionError") -> Exception:
    """The transport's own exception, which says more than the SDK's."""
    cause = error.__cause__
    is_known = isinstance(cause, httpx2.HTTPError | ssl.SSLError | OSError)
    return cause if is_known and isinstance(cause, Exception) else OSError(str(error))


def _timeout(limits: StreamLimits) -> httpx2.Timeout:
    return httpx2.Timeout(
        limits.silence_seconds + _BACKSTOP_SECONDS, connect=CONNECT_SECONDS, pool=CONNECT_SECONDS
    )


def client_for(endpoint: Endpoint) -> "openai.OpenAI":
    """This process's client for the endpoint; a forked child makes its own."""
    key = (os.getpid(), endpoint.base_url, endpoint.api_key)
    with _lock:
        if key not in _clients:
            _clients[key] = _make_client(endpoint)
        return _clients[key]


def _make_client(endpoint: Endpoint) -> "openai.OpenAI":
    import openai

    options: dict[str, Any] = {
        "limits": httpx2.Limits(max_connections=None, max_keepalive_connections=0),
        "event_hooks": {"request": [trace_request]},
    }
    if urlsplit(endpoint.base_url).hostname in _LOOPBACK:
        # a proxy of the environment must not be asked for this machine
        options["mounts"] = {"http://": None, "https://": None, "all://": None}
    client = openai.OpenAI(
        api_key=endpoint.api_key or _NO_KEY,
        base_url=endpoint.base_url,
        max_retries=0,
        http_client=openai.DefaultHttpx2Client(**options),
    )
    # The SDK describes the platform in its headers and forks `uname` for it, once. Done here,
    # behind the lock: a thousand greenlets that ask for the first time together would each fork.
    _ = client.default_headers
    return client
