"""The demo model as a server on loopback, in the real streamed wire format.

`python -m providers.demo` serves until it is interrupted. It needs no key and no AI: see
`providers.demo_script`. Asked as `demo:FAULT` it goes wrong on purpose: `providers.demo_faults`.
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, Self

from providers.demo_answer import DemoAnswer
from providers.demo_faults import (
    Fault,
    FaultMemory,
    UnknownFault,
    conversation_key,
    fault_of,
    known_faults,
)
from providers.demo_rewrites import rewritten, without_mistakes
from providers.demo_script import DemoReply, read_request
from providers.demo_wire import MODEL, error_body, reply_chunks, tokens_of, whole_reply

__all__ = ["MODEL", "DemoServer"]

_MAX_BODY_BYTES: Final = 64 * 1024 * 1024
_NOWHERE: Final = "There is nothing here; POST /v1/chat/completions."


class DemoServer:
    """Context in which the demo model answers at `base_url`, on 127.0.0.1.

    Args:
        gap_seconds: pause between the pieces of a reply.
        port: the one to listen on if it is free; else, and for 0, any free one.
    """

    def __init__(self, *, gap_seconds: float = 0.0, port: int = 0) -> None:
        self._over = threading.Event()
        bound = {"gap_seconds": gap_seconds, "memory": FaultMemory(), "over": self._over}
        handler = type("_Handler", (_DemoHandler,), bound)
        try:
            self._server = _QuietServer(("127.0.0.1", port), handler)
        except OSError:
            self._server = _QuietServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="umbel-demo-model", daemon=True
        )

    @property
    def base_url(self) -> str:
        """What to give a client as the address of the endpoint."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _QuietServer(ThreadingHTTPServer):
    """A client that closes its connection is no event; `umbel run` shows its terminal to people."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _DemoHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    gap_seconds = 0.0
    memory: FaultMemory
    over: threading.Event
    timeout = 60

    def log_message(self, *_: object) -> None:
        """Quiet: the run itself shows what happens."""

    def do_GET(self) -> None:
        if self.path.rstrip("/") == "/v1/models":
            names = [MODEL, *(f"{MODEL}:{name}" for name in known_faults())]
            listed = [
                {"id": name, "object": "model", "created": 0, "owned_by": "umbel"} for name in names
            ]
            self._answer().send_json(200, {"object": "list", "data": listed})
        else:
            self._answer().send_json(404, error_body(_NOWHERE))

    def do_POST(self) -> None:
        size = int(self.headers.get("content-length") or 0)
        if size > _MAX_BODY_BYTES:
            self.close_connection = True
            self._answer().send_json(413, error_body("The request is too large."))
            return
        raw = self.rfile.read(size)
        if self.path.rstrip("/") != "/v1/chat/completions":
            self._answer().send_json(404, error_body(_NOWHERE))
            return
        body = _parsed(raw)
        if body is None:
            wrong = error_body("The body is not a JSON object with a list of messages.")
            self._answer().send_json(400, wrong)
            return
        try:
            self._reply(raw, body, fault_of(body.get("model")))
        except UnknownFault as unknown:
            self._answer().send_json(404, error_body(str(unknown), "model_not_found"))

    def _reply(self, raw: bytes, body: dict[str, Any], fault: Fault | None) -> None:
        reply = read_request(body if fault is None else without_mistakes(body))
        if fault is not None and self._goes_wrong(raw, body, fault, reply):
            return
        if body.get("stream"):
            chunks = reply_chunks(reply, tokens_of(raw), body)
            self._answer().send_stream(chunks, self.gap_seconds)
        else:
            self._answer().send_json(200, whole_reply(reply, tokens_of(raw), body))

    def _goes_wrong(self, raw: bytes, body: dict[str, Any], fault: Fault, reply: DemoReply) -> bool:
        """True if the fault was due and is the answer."""
        chunks = rewritten(fault.rewrite, reply_chunks(reply, tokens_of(raw), body))
        run = conversation_key(self.headers.get("x-umbel-request"), body)
        if chunks is None or not self.memory.is_due(fault, run, raw):
            return False
        self._answer().send_fault(fault, chunks, self.gap_seconds)
        return True

    def _answer(self) -> DemoAnswer:
        return DemoAnswer(self, self.over)


def _parsed(raw: bytes) -> dict[str, Any] | None:
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(body, dict) or not isinstance(body.get("messages"), list):
        return None
    return body if all(isinstance(message, dict) for message in body["messages"]) else None


def main() -> None:
    """Serve until interrupted."""
    with DemoServer() as server:
        sys.stdout.write(f"{server.base_url}\n")
        sys.stdout.flush()
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
