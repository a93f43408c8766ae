import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from providers.demo import MODEL, DemoServer
from tests.doctor.looking import look_at
from umbel.cli.doctor.finding import Finding
from umbel.settings import load_settings

KEY = "sk-marker-of-a-key"


@contextmanager
def endpoint(status: int, body: object) -> Iterator[str]:
    """The base URL of a server that answers every GET alike."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        finally:
            server.shutdown()
            thread.join()


def model_at(base_url: str, **values: str) -> Finding:
    return look_at("model", load_settings({"UMBEL_CONFIG": ""}, model_base_url=base_url, **values))


def listed(*names: str) -> dict[str, object]:
    return {"object": "list", "data": [{"id": name, "object": "model"} for name in names]}


def test_a_refused_key_names_the_variable_and_never_the_key() -> None:
    with endpoint(401, {"error": {"message": f"Incorrect API key provided: {KEY}"}}) as url:
        finding = model_at(url, model="large", api_key=KEY)
    assert finding.state == "problem"
    assert "refuses the key (401)" in finding.found
    assert finding.remedy == (
        "Set OPENAI_API_KEY or UMBEL_API_KEY to a key that this endpoint accepts."
    )
    assert KEY not in repr(finding)


def test_a_missing_key_is_told_from_a_wrong_one() -> None:
    with endpoint(401, {}) as url:
        assert "wants a key (401)" in model_at(url, model="large").found


def test_a_model_that_is_not_served_names_the_ones_that_are() -> None:
    with endpoint(200, listed("large", "small")) as url:
        finding = model_at(url, model="lagre")
        assert finding.state == "problem"
        assert "has no model 'lagre'" in finding.found
        assert "to one of: large, small. Did you mean 'large'?" in str(finding.remedy)
        assert model_at(url, model="large").state == "ok"
        assert "to one of: large, small" in str(model_at(url).remedy)


def test_the_demo_is_called_a_script() -> None:
    with DemoServer() as demo:
        finding = model_at(demo.base_url, model=MODEL)
    assert finding.state == "ok"
    assert finding.found.startswith("the demo, a script and no AI")


def test_wire_and_profile_of_an_endpoint_are_said() -> None:
    with endpoint(200, listed("large")) as url:
        assert "Chat Completions wire, default profile" in model_at(url, model="large").found


@pytest.mark.parametrize(
    ("status", "state", "remedy"),
    [
        (404, "warning", "some servers list no models"),
        (429, "warning", "raise your quota"),
        (503, "problem", "Look at the model server's log"),
        (302, "problem", "redirects are not followed"),
    ],
)
def test_other_answers_have_remedies_of_their_own(status: int, state: str, remedy: str) -> None:
    with endpoint(status, {}) as url:
        finding = model_at(url, model="large")
    assert finding.state == state
    assert remedy in str(finding.remedy)


def test_an_answer_that_is_no_list_of_models_is_a_problem() -> None:
    with endpoint(200, {"hello": "world"}) as url:
        assert "answers something else" in model_at(url, model="large").found


def test_nobody_there_and_no_tls_there_are_two_faults() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        gone = model_at(f"http://127.0.0.1:{unused.getsockname()[1]}/v1", model="large")
    assert "cannot be reached" in gone.found
    assert gone.remedy == "Start the model server, or correct UMBEL_MODEL_BASE_URL."
    with endpoint(200, {}) as url:
        plain = model_at(url.replace("http:", "https:"), model="large")
    assert "TLS failed" in plain.found
    assert "SSL_CERT_FILE" in str(plain.remedy)
