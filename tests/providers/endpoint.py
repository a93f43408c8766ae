"""A bare endpoint on loopback whose every byte a test decides, and the adapter that talks to it."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from loop.request import ModelRequest, UserMessage
from loop.response import Failure, ModelTurn
from providers.chat import ChatProvider
from providers.contract import (
    AbortReason,
    DeltaKind,
    Endpoint,
    StreamControl,
    StreamHandle,
    StreamLimits,
)
from providers.refusals import Refusals
from tests.providers.wire import OFFERED

HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
    b"connection: close\r\n\r\n"
)
REQUEST = ModelRequest(model="m", messages=(UserMessage("hi"),), tools=OFFERED)
PATIENT = StreamLimits(silence_seconds=20, first_event_seconds=20, progress_seconds=20)


@dataclass
class Visit:
    """One connection: what was asked, and the means to answer."""

    connection: socket.socket
    head: bytes
    body: bytes
    over: threading.Event

    def send(self, data: bytes) -> None:
        self.connection.sendall(data)

    def chunk(self, data: bytes) -> None:
        self.send(b"%x\r\n%s\r\n" % (len(data), data))

    def end(self) -> None:
        self.send(b"0\r\n\r\n")

    def drip(self, data: bytes, every_seconds: float) -> None:
        """Send the same bytes again and again until the reader has gone."""
        while not self.over.wait(every_seconds):
            self.chunk(data)

    def hang(self) -> None:
        """Say nothing until the reader has gone."""
        while self.connection.recv(4096):
            pass


@dataclass
class Server:
    """The running endpoint and everything it was asked."""

    base_url: str
    visits: list[Visit] = field(default_factory=list)


@contextmanager
def serving(answer: Callable[[Visit], None]) -> Iterator[Server]:
    """An endpoint that answers every connection by calling `answer` in a thread of its own."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = Server(f"http://127.0.0.1:{listener.getsockname()[1]}/v1")
    over = threading.Event()
    accepter = threading.Thread(target=_accept, args=(listener, server, answer, over), daemon=True)
    accepter.start()
    try:
        yield server
    finally:
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        accepter.join(10)


def _accept(
    listener: socket.socket,
    server: Server,
    answer: Callable[[Visit], None],
    over: threading.Event,
) -> None:
    threads: list[threading.Thread] = []
    while not over.is_set():
        try:
            connection, _ = listener.accept()
        except OSError:
            break
        args = (connection, server, answer, over)
        threads.append(threading.Thread(target=_serve, args=args, daemon=True))
        threads[-1].start()
    for thread in threads:
        thread.join(5)


def _serve(
    connection: socket.socket,
    server: Server,
    answer: Callable[[Visit], None],
    over: threading.Event,
) -> None:
    with connection:
        try:
            head, body = _read_request(connection)
            visit = Visit(connection, head, body, over)
            server.visits.append(visit)
            answer(visit)
        except OSError:
            return  # the reader has gone, which is what many tests are about


def _read_request(connection: socket.socket) -> tuple[bytes, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        data += _received(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        int(line.partition(b":")[2])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length:")
    )
    while len(body) < length:
        body += _received(connection)
    return head, body


def _received(connection: socket.socket) -> bytes:
    data = connection.recv(65536)
    if not data:
        raise ConnectionResetError("the client went away while asking")
    return data


def provider_at(base_url: str, *, api_key: str = "k") -> ChatProvider:
    """An adapter with a memory of its own."""
    return ChatProvider(Endpoint(base_url=base_url, api_key=api_key), refusals=Refusals())


def control(
    limits: StreamLimits = PATIENT,
    *,
    handle: StreamHandle | None = None,
    watch: Callable[[], AbortReason | None] = lambda: None,
    on_delta: Callable[[DeltaKind, str], None] = lambda _kind, _piece: None,
    request_id: str | None = None,
) -> StreamControl:
    """A caller's side of a stream, patient unless told otherwise."""
    return StreamControl(
        handle=handle or StreamHandle(),
        limits=limits,
        on_delta=on_delta,
        watch=watch,
        request_id=request_id,
    )


def rendered(provider: ChatProvider) -> bytes:
    return provider.render(REQUEST, provider.form())


def ask(base_url: str, controls: StreamControl | None = None) -> ModelTurn:
    provider = provider_at(base_url)
    return provider.stream(REQUEST, rendered(provider), controls or control())


def failure(turn: ModelTurn) -> Failure:
    assert turn.failure is not None
    return turn.failure


def says(*parts: bytes, then: Callable[[Visit], None] = Visit.end) -> Callable[[Visit], None]:
    def answer(visit: Visit) -> None:
        visit.send(HEAD)
        for part in parts:
            visit.chunk(part)
        then(visit)

    return answer
