"""The demo model as a server on loopback, in the real streamed wire format.

`python -m providers.demo` serves until it is interrupted. It needs no key and no AI: see
`providers.demo_script`.
"""

import json
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, Self

from providers.demo_script import DemoReply, read_request

MODEL: Final = "demo"
_TEXT_PIECE_CHARS: Final = 12
_ARGUMENT_PIECE_CHARS: Final = 16
_CHARS_PER_TOKEN: Final = 4
_MAX_BODY_BYTES: Final = 64 * 1024 * 1024


class DemoServer:
    """Context in which the demo model answers at `base_url`, on a free port of 127.0.0.1."""

    def __init__(self, *, gap_seconds: float = 0.0) -> None:
        handler = type("_Handler", (_DemoHandler,), {"gap_seconds": gap_seconds})
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
    timeout = 60

    def log_message(self, *_: object) -> None:
        """Quiet: the run itself shows what happens."""

    def do_GET(self) -> None:
        if self.path.rstrip("/") == "/v1/models":
            listed = [{"id": MODEL, "object": "model", "created": 0, "owned_by": "umbel"}]
            self._send_json(200, {"object": "list", "data": listed})
        else:
            self._send_json(404, _error("There is nothing here; POST /v1/chat/completions."))

    def do_POST(self) -> None:
        size = int(self.headers.get("content-length") or 0)
        if size > _MAX_BODY_BYTES:
            self.close_connection = True
            self._send_json(413, _error("The request is too large."))
            return
        raw = self.rfile.read(size)
        if self.path.rstrip("/") != "/v1/chat/completions":
            self._send_json(404, _error("There is nothing here; POST /v1/chat/completions."))
            return
        body = _parsed(raw)
        if body is None:
            self._send_json(400, _error("The body is not a JSON object with a list of messages."))
            return
        reply, tokens = read_request(body), _tokens_of(raw)
        if body.get("stream"):
            self._send_stream(reply, tokens, body)
        else:
            self._send_json(200, _whole(reply, tokens, body))

    def _send_json(self, status: int, value: dict[str, Any]) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _send_stream(self, reply: DemoReply, tokens: int, body: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        pause = threading.Event()
        try:
            for event in stream_events(reply, tokens, body):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
                self.wfile.flush()
                pause.wait(self.gap_seconds)
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True  # the reader has gone


def stream_events(reply: DemoReply, tokens: int, body: dict[str, Any]) -> Iterator[bytes]:
    """The reply as server-sent events, in small pieces, usage and [DONE] at the end."""
    finish = "tool_calls" if reply.calls else "stop"
    yield _chunk({"role": "assistant", "content": ""})
    for piece in _pieces(reply.text, _TEXT_PIECE_CHARS):
        yield _chunk({"content": piece})
    for index, call in enumerate(_calls(reply, body)):
        arguments = call["function"].pop("arguments")
        call["function"]["arguments"] = ""
        yield _chunk({"tool_calls": [{"index": index, **call}]})
        for piece in _pieces(arguments, _ARGUMENT_PIECE_CHARS):
            yield _chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield _chunk({}, finish)
    if (body.get("stream_options") or {}).get("include_usage"):
        yield _event(
            {**_head("chat.completion.chunk"), "choices": [], "usage": _counts(reply, tokens)}
        )
    yield b"data: [DONE]\n\n"


def _whole(reply: DemoReply, tokens: int, body: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.calls:
        message["tool_calls"] = list(_calls(reply, body))
    finish = "tool_calls" if reply.calls else "stop"
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {**_head("chat.completion"), "choices": [choice], "usage": _counts(reply, tokens)}


def _calls(reply: DemoReply, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Calls with ids that count on through the conversation."""
    made = sum(len(message.get("tool_calls") or ()) for message in body["messages"])
    for number, call in enumerate(reply.calls, start=made):
        arguments = json.dumps(call.arguments, ensure_ascii=False)
        function = {"name": call.name, "arguments": arguments}
        yield {"id": f"call_demo_{number}", "type": "function", "function": function}


def _chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return _event({**_head("chat.completion.chunk"), "choices": [choice]})


def _event(value: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


def _head(kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-demo", "object": kind, "created": int(time.time()), "model": MODEL}


def _pieces(text: str, size: int) -> Iterator[str]:
    return (text[start : start + size] for start in range(0, len(text), size))


def _tokens_of(raw: bytes) -> int:
    return len(raw) // _CHARS_PER_TOKEN


def _counts(reply: DemoReply, tokens: int) -> dict[str, int]:
    said = len(reply.text) + sum(len(json.dumps(call.arguments)) for call in reply.calls)
    output = max(said // _CHARS_PER_TOKEN, 1)
    return {
        "prompt_tokens": tokens,
        "completion_tokens": output,
        "total_tokens": tokens + output,
    }


def _parsed(raw: bytes) -> dict[str, Any] | None:
    try:
        body = json.loads(raw)
    except ValueError:
        return None
    if not isinstance(body, dict) or not isinstance(body.get("messages"), list):
        return None
    return body if all(isinstance(message, dict) for message in body["messages"]) else None


def _error(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "code": None}}


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
