"""Serves recorded answers over HTTP, with the transport behaviour that replay.json asks for.

split: at most so many bytes a write. gap_ms: pause between writes. events: one write per event.
drip: [text, every_ms, count] after the body, then silence. abort: reset the connection at the end.
headers: more response headers.
"""

import re
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from tests.providers.cases import Case


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    cases: ClassVar[Mapping[str, Case]] = {}

    def log_message(self, *_: object) -> None:
        """Tests read results, not logs."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length") or 0))
        case = self.cases[self.path.split("/")[1]]
        status, headers, body = case.wire
        if (case.path / "wire.json").exists():
            self._send_head(status, {**headers, "content-length": str(len(body))})
            self.wfile.write(body)
            return
        self._send_head(status, {**headers, "transfer-encoding": "chunked"})
        try:
            self._stream(body, case.replay)
        except OSError:
            self.close_connection = True  # the reader had enough

    def _send_head(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _stream(self, body: bytes, behaviour: dict[str, Any]) -> None:
        for number, part in enumerate(_parts(body, behaviour)):
            if number:
                _pause(behaviour.get("gap_ms", 0))
            self._write_chunk(part)
        text, every_ms, count = behaviour.get("drip") or ("", 0, 0)
        for _ in range(count):
            _pause(every_ms)
            self._write_chunk(text.encode())
        if behaviour.get("abort"):
            self._reset()
        else:
            self.wfile.write(b"0\r\n\r\n")

    def _write_chunk(self, part: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
        self.wfile.flush()

    def _reset(self) -> None:
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.close_connection = True
        self.connection.close()

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except (OSError, ValueError):
            self.close_connection = True

    def finish(self) -> None:
        try:
            super().finish()
        except (OSError, ValueError):
            self.close_connection = True


def _parts(body: bytes, behaviour: dict[str, Any]) -> list[bytes]:
    size = behaviour.get("split")
    if size:
        return [body[start : start + size] for start in range(0, len(body), size)]
    if behaviour.get("events"):
        return [part for part in re.split(rb"(?<=\n\n)", body) if part]
    return [body] if body else []


def _pause(milliseconds: float) -> None:
    """Recorded time between two writes; it is part of the recording."""
    threading.Event().wait(milliseconds / 1000)


@contextmanager
def replaying(cases: list[Case]) -> Iterator[str]:
    """The address under which `/NAME/v1` answers as the case NAME does."""
    handler = type("_BoundHandler", (_Handler,), {"cases": {case.name: case for case in cases}})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
