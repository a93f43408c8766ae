"""Writes one answer of the demo model to its connection, well or as badly as a fault wants it."""

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from itertools import count
from typing import Any, Final

from providers.demo_faults import Fault
from providers.demo_wire import DONE, Chunk, event_of

_KEEP_ALIVE: Final = b": keep-alive\n\n"
_DRIP_SECONDS: Final = 0.5
_JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class DemoAnswer:
    """The writing side of one request."""

    handler: BaseHTTPRequestHandler
    over: threading.Event
    """The server is closing."""

    def send_json(
        self, status: int, value: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> None:
        """A whole answer."""
        self._send_whole(status, {"content-type": _JSON, **(headers or {})}, _dumped(value))

    def send_stream(self, chunks: list[Chunk], gap_seconds: float) -> None:
        """The events, [DONE], and the end of the body."""
        self._send_head()
        try:
            for chunk in chunks:
                self._send(event_of(chunk))
                self.over.wait(gap_seconds)
            self._send(DONE)
            self.handler.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.handler.close_connection = True  # the reader has gone

    def send_fault(self, fault: Fault, chunks: list[Chunk], gap_seconds: float) -> None:
        """The answer that the fault makes of the events."""
        try:
            if fault.silent:
                self._hold(b"")
            elif fault.page:
                headers = {"content-type": "text/html", **fault.headers}
                self._send_whole(fault.status, headers, fault.page.encode())
            elif fault.status != 200:
                self.send_json(fault.status, fault.body, fault.headers)
            else:
                self._send_faulty_stream(fault, chunks, gap_seconds + fault.gap_seconds)
        except OSError:
            self.handler.close_connection = True

    def _send_faulty_stream(self, fault: Fault, chunks: list[Chunk], gap_seconds: float) -> None:
        self._send_head()
        for number in count():
            if number == fault.keep or number == len(chunks):
                break
            if fault.comments:
                self._send(_KEEP_ALIVE)
            self._send(event_of(chunks[number]))
            self.over.wait(gap_seconds)
        if fault.then == "reset":
            self._reset()
            return
        if fault.then == "drip":
            self._hold(_KEEP_ALIVE)
            return
        if fault.last:
            self._send(event_of(dict(fault.last)))
        elif not fault.then:
            self._send(DONE)
        self.handler.wfile.write(b"0\r\n\r\n")

    def _send_head(self) -> None:
        self.handler.send_response(200)
        self.handler.send_header("content-type", "text/event-stream")
        self.handler.send_header("transfer-encoding", "chunked")
        self.handler.end_headers()

    def _send_whole(self, status: int, headers: Mapping[str, str], data: bytes) -> None:
        self.handler.send_response(status)
        for name, value in headers.items():
            self.handler.send_header(name, value)
        self.handler.send_header("content-length", str(len(data)))
        self.handler.end_headers()
        self.handler.wfile.write(data)

    def _send(self, data: bytes) -> None:
        self.handler.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.handler.wfile.flush()

    def _hold(self, drip: bytes) -> None:
        """Keep the connection open, dripping or silent, until the reader or the server has gone."""
        connection = self.handler.connection
        self.handler.close_connection = True
        connection.settimeout(_DRIP_SECONDS)
        while not self.over.is_set():
            with contextlib.suppress(TimeoutError):
                if not connection.recv(1024):
                    return
            if drip:
                self._send(drip)

    def _reset(self) -> None:
        """End the connection as a crashed peer does."""
        self.handler.close_connection = True
        linger = struct.pack("ii", 1, 0)
        self.handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.handler.connection.close()


def _dumped(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value).encode()
