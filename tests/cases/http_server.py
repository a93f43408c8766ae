"""A small threaded HTTP server: streams model answers, and answers the workers' reports."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.cases.scripted_model import Answer

Route = Callable[[bytes, str], Answer]
"""Body and the purpose header to an answer."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, find: Callable[[str], Route | None]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.find = find

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that was killed is nothing to report."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        route = self.server.find(self.path)
        if route is None:
            self._send(Answer(404, body=b'{"error":{"message":"no such route"}}'))
            return
        self._send(route(body, self.headers.get("X-Umbel-Purpose", "main")))

    def log_message(self, format: str, *args: object) -> None:
        """Requests are recorded by the routes."""

    def _send(self, answer: Answer) -> None:
        if answer.body is None and answer.chunks is None:
            self.close_connection = True
            return
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.body is not None:
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)
            return
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for chunk in answer.chunks or ():
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")


@contextlib.contextmanager
def serving(find: Callable[[str], Route | None]) -> Iterator[str]:
    """Serve on loopback during the block; yields the address.

    Args:
        find: the route of a path, None for an unknown one.
    """
    server = _Server(find)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
