import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from providers.demo import DemoServer
from providers.detect import find_local_model


@contextmanager
def listing(models: Sequence[object], delay_seconds: float = 0.0) -> Iterator[int]:
    """A server that lists models, on a free port."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Quiet."""

        def do_GET(self) -> None:
            threading.Event().wait(delay_seconds)
            data = json.dumps({"object": "list", "data": models}).encode()
            try:
                self.send_response(200 if self.path == "/v1/models" else 404)
                self.end_headers()
                self.wfile.write(data)
            except OSError:
                return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port: int = closed.getsockname()[1]
        return port


def test_running_server_is_found_with_its_chat_model() -> None:
    models = [{"id": "nomic-embed-text"}, {"id": "bge-m3"}, {"id": "qwen3:8b"}]
    with listing(models) as port:
        found = find_local_model([("other", closed_port()), ("ollama", port)])
    assert found is not None
    assert (found.model, found.endpoint.name) == ("qwen3:8b", "ollama")
    assert found.endpoint.base_url == f"http://127.0.0.1:{port}/v1"


def test_preferred_server_wins_also_when_it_answers_later() -> None:
    with listing([{"id": "slow"}], 0.15) as first, listing([{"id": "fast"}]) as second:
        found = find_local_model([("a", first), ("b", second)])
    assert found is not None
    assert found.model == "slow"


def test_nothing_is_found_where_nothing_suits() -> None:
    with listing([]) as empty, listing([{"id": "bge-m3"}]) as embeddings, listing([5]) as odd:
        ports = [("a", empty), ("b", embeddings), ("c", odd), ("d", closed_port())]
        assert find_local_model(ports) is None
    assert find_local_model([]) is None


def test_servers_that_do_not_answer_cost_less_than_half_a_second() -> None:
    with ExitStack() as stack:
        mute = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(4)]
        ports = [("mute", server.getsockname()[1]) for server in mute]
        start = time.monotonic()
        assert find_local_model(ports) is None
        assert time.monotonic() - start < 0.5


def test_demo_server_is_one_too() -> None:
    with DemoServer() as server:
        port = int(server.base_url.rsplit(":", 1)[1].partition("/")[0])
        found = find_local_model([("demo", port)])
    assert found is not None
    assert found.model == "demo"
