"""Loopback servers that say exactly what a test gives them, and count who came."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from tools.web.client import Web, WebAccess
from umbel.web_targets.allowing import AllowList

Serve = Callable[[socket.socket, bytes], None]
"""Answers one request on its connection; what was sent comes with it."""


@dataclass(slots=True)
class Server:
    """A listener on loopback."""

    address: str
    port: int
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    threads: list[threading.Thread] = field(default_factory=list)


@contextlib.contextmanager
def listening(
    serve: Serve | Sequence[bytes],
    *,
    address: str = "127.0.0.1",
    certificates: ssl.SSLContext | None = None,
) -> Iterator[Server]:
    """A server during the block.

    Args:
        serve: what it does; or whole answers, one for each connection, the last one for the rest.
        address: where it listens.
        certificates: makes it speak TLS.
    """
    listener = socket.create_server((address, 0))
    server = Server(address, listener.getsockname()[1])
    answer = serve if callable(serve) else _answers(server, serve)

    def carry(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), _opened(connection, certificates) as opened:
            request = _request(opened)
            server.requests.append(request)
            answer(opened, request)

    acceptor = threading.Thread(target=_accept, args=(listener, server, carry))
    acceptor.start()
    try:
        yield server
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for thread in (acceptor, *server.threads):
            thread.join(10)


def _accept(
    listener: socket.socket, server: Server, carry: Callable[[socket.socket], None]
) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listener.accept()
            server.connections += 1
            server.threads.append(threading.Thread(target=carry, args=(connection,)))
            server.threads[-1].start()


@contextlib.contextmanager
def _opened(
    connection: socket.socket, certificates: ssl.SSLContext | None
) -> Iterator[socket.socket]:
    with contextlib.ExitStack() as stack:
        stack.enter_context(connection)
        if certificates is not None:
            connection = stack.enter_context(certificates.wrap_socket(connection, server_side=True))
        yield connection


def page(
    body: bytes,
    media_type: str | None = "text/plain; charset=utf-8",
    *headers: str,
    status: int = 200,
) -> bytes:
    """A whole answer."""
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}", *headers]
    if media_type is not None:
        lines.append(f"Content-Type: {media_type}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def redirect(location: str, status: int = 302, *headers: str, body: bytes = b"") -> bytes:
    """An answer that leads elsewhere."""
    return page(body, None, f"Location: {location}", *headers, status=status)


@dataclass(slots=True)
class Names:
    """A resolver whose answers a test gives; counts what it is asked."""

    answers: dict[str, list[list[str]]]
    """By name: what it is told each time, the last for ever."""
    asked: list[str] = field(default_factory=list)

    def __call__(self, name: str, port: int) -> Sequence[str]:
        self.asked.append(name)
        if name not in self.answers:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        answers = self.answers[name]
        return answers.pop(0) if len(answers) > 1 else answers[0]


def a_web(allow: Sequence[str] = (), names: Names | None = None) -> Web:
    """The web with these doors open, its names told by the test."""
    return Web(WebAccess(AllowList.of(allow), resolve=names or Names({})), lambda: None)


def _answers(server: Server, given: Sequence[bytes]) -> Serve:
    def answer(connection: socket.socket, _: bytes) -> None:
        connection.sendall(given[min(len(server.requests), len(given)) - 1])

    return answer


def _request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65_536)
        if not piece:
            break
        data += piece
    return data
