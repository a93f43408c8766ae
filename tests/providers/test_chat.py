import json
import socket
import threading
import zlib

import pytest

from loop.response import ModelTurn
from providers.chat import ChatProvider
from providers.contract import Endpoint
from tests.providers.endpoint import (
    HEAD,
    REQUEST,
    Visit,
    ask,
    control,
    failure,
    provider_at,
    rendered,
    says,
    serving,
)
from tests.providers.wire import DONE, call, calls, chunk, end, text
from umbel.errors import Misconfigured


def test_the_bytes_sent_are_the_bytes_rendered() -> None:
    with serving(says(text("hello"), end())) as server:
        provider = provider_at(server.base_url, api_key="sk-1")
        body = rendered(provider)
        turn = provider.stream(REQUEST, body, control(request_id="run_1:s2:a1"))
    visit = server.visits[0]
    head = visit.head.lower()
    assert (turn.text, turn.failure) == ("hello", None)
    assert visit.body == body
    assert b"post /v1/chat/completions " in head
    assert b"authorization: bearer sk-1" in head
    assert b"x-umbel-request: run_1:s2:a1" in head


def test_deltas_are_shown_as_they_come() -> None:
    seen: list[tuple[str, str]] = []
    parts = (
        chunk({"reasoning": "hm"}),
        text("<thi"),
        text("nk>so</think>\n\nLet"),
        text(" me"),
        calls(call("", name="get_weather", model_id="a", index=0)),
        calls(call("{}", index=0)),
        end("tool_calls"),
    )
    with serving(says(*parts)) as server:
        ask(server.base_url, control(on_delta=lambda kind, piece: seen.append((kind, piece))))
    assert seen == [
        ("reasoning", "hm"),
        ("reasoning", "so"),
        ("text", "Let"),
        ("text", " me"),
        ("call", "get_weather"),
    ]


def test_nothing_is_retried_by_the_transport() -> None:
    def refuse(visit: Visit) -> None:
        visit.send(b"HTTP/1.1 503 Busy\r\nretry-after: 7\r\ncontent-length: 0\r\n\r\n")

    with serving(refuse) as server:
        found = failure(ask(server.base_url))
    assert (found.error_class, found.retry_after_seconds, found.http_status) == ("server", 7.0, 503)
    assert len(server.visits) == 1


def test_nobody_there_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    found = failure(ask(f"http://127.0.0.1:{port}/v1"))
    assert (found.error_class, found.is_retryable) == ("unreachable", True)


@pytest.mark.parametrize(
    "url",
    ["", "nonsense", "ftp://127.0.0.1/v1", "http://[::bad/v1", "http:///v1", "http://h:99999/"],
)
def test_address_that_cannot_work_is_refused_at_once(url: str) -> None:
    with pytest.raises(Misconfigured, match="base URL"):
        provider_at(url)


def test_connection_closed_before_any_byte_is_unreachable() -> None:
    with serving(lambda _visit: None) as server:
        found = failure(ask(server.base_url))
    assert (found.error_class, found.is_retryable) == ("unreachable", True)


def test_connection_broken_in_the_middle_keeps_text_and_an_estimate() -> None:
    with serving(says(text("half a sentence"), then=lambda _visit: None)) as server:
        turn = ask(server.base_url)
    assert failure(turn).error_class == "incomplete_stream"
    assert turn.text == "half a sentence"
    assert turn.usage.is_estimated
    assert turn.usage.output_tokens == 4


def test_connection_broken_behind_the_finish_is_a_whole_answer() -> None:
    parts = (text("whole"), chunk({}, "stop"))
    with serving(says(*parts, then=lambda _visit: None)) as server:
        turn = ask(server.base_url)
    assert (turn.text, turn.finish, turn.failure) == ("whole", "stop", None)


def test_answer_is_over_at_done_though_the_connection_stays_open() -> None:
    with serving(says(text("ok"), end(), then=Visit.hang)) as server:
        assert ask(server.base_url).text == "ok"


def test_compressed_stream_is_read_as_it_comes() -> None:
    pack = zlib.compressobj(wbits=31)
    head = HEAD.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n")

    def squeeze(visit: Visit) -> None:
        visit.send(head)
        for part in (text("o"), text("k"), end()):
            visit.chunk(pack.compress(part) + pack.flush(zlib.Z_SYNC_FLUSH))
        visit.hang()  # the answer is over at [DONE], unpacked piece by piece

    with serving(squeeze) as server:
        turn = ask(server.base_url)
    assert (turn.text, turn.failure) == ("ok", None)
    assert b"accept-encoding: gzip" in server.visits[0].head.lower()


def test_stand_in_for_a_key_masks_no_words() -> None:
    def refuse(visit: Visit) -> None:
        error = b'{"error":{"message":"unknown key kind"}}'
        visit.send(b"HTTP/1.1 401 No\r\ncontent-length: %d\r\n\r\n%s" % (len(error), error))

    with serving(refuse) as server:
        assert failure(ask(server.base_url)).message == "unknown key kind"


def test_field_that_an_endpoint_refuses_by_name_is_not_sent_again() -> None:
    message = "Unrecognized request argument supplied: stream_options"

    def strict(visit: Visit) -> None:
        if b"stream_options" in visit.body:
            error = json.dumps({"error": {"message": message}}).encode()
            head = (
                b"HTTP/1.1 400 Bad\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
            )
            visit.send(head % len(error) + error)
        else:
            says(text("ok"), end())(visit)

    with serving(strict) as server:
        provider = provider_at(server.base_url)
        first = provider.stream(REQUEST, rendered(provider), control())
        second = provider.stream(REQUEST, rendered(provider), control())
    assert (failure(first).error_class, failure(first).is_retryable) == ("bad_request", True)
    assert second.text == "ok"


def test_key_in_an_error_message_is_masked() -> None:
    def refuse(visit: Visit) -> None:
        error = b'{"error":{"message":"bad key sk-secret-1"}}'
        visit.send(b"HTTP/1.1 401 No\r\ncontent-length: %d\r\n\r\n%s" % (len(error), error))

    with serving(refuse) as server:
        provider = provider_at(server.base_url, api_key="sk-secret-1")
        found = failure(provider.stream(REQUEST, rendered(provider), control()))
    assert (found.error_class, found.message) == ("auth", "bad key ***")


def test_key_that_no_header_can_carry_is_an_auth_failure() -> None:
    provider = provider_at("http://127.0.0.1:9/v1", api_key="ключ")
    found = failure(provider.stream(REQUEST, rendered(provider), control()))
    assert (found.error_class, found.is_retryable) == ("auth", False)


def test_many_streams_share_one_client() -> None:
    with serving(says(text("ok"), DONE)) as server:
        turns: list[ModelTurn] = []
        readers = [threading.Thread(target=lambda: turns.append(ask(server.base_url)))
                   for _ in range(12)]  # fmt: skip
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(20)
    assert [turn.text for turn in turns] == ["ok"] * 12


def test_proxy_of_the_environment_is_not_asked_for_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with serving(says(text("ok"), end())) as server:
        assert ask(server.base_url).text == "ok"


def test_endpoint_shows_its_key_nowhere() -> None:
    endpoint = Endpoint(base_url="https://user:pw@host/v1", api_key="sk-secret-1", name="mine")
    assert "sk-secret-1" not in repr(endpoint)
    assert ChatProvider(endpoint).endpoint_name == "chat:mine@host"
