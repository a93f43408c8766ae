import json
import socket
import threading
import time
from collections.abc import Callable

import pytest

from loop.response import Failure, ModelTurn
from providers.chat import ChatProvider
from providers.contract import AbortReason, Endpoint, StreamControl, StreamHandle, StreamLimits
from tests.providers.endpoint import HEAD, REQUEST, Visit, control, provider_at, serving
from tests.providers.wire import DONE, call, calls, chunk, end, event, text
from umbel.errors import Misconfigured


def rendered(provider: ChatProvider) -> bytes:
    return provider.render(REQUEST, provider.form())


QUICK = StreamLimits(silence_seconds=0.3, first_event_seconds=0.3, progress_seconds=0.3)


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


def silent_before_headers(visit: Visit) -> None:
    visit.hang()


@pytest.mark.parametrize(
    "answer",
    [
        silent_before_headers,
        says(then=Visit.hang),
        says(then=lambda visit: visit.drip(b": keep-alive\n\n", 0.05)),
        says(text("a"), then=Visit.hang),
        says(text("a"), then=lambda visit: visit.drip(b": keep-alive\n\n", 0.05)),
        says(text("a"), then=lambda visit: visit.drip(b"d", 0.05)),
        says(text("a"), then=lambda visit: visit.drip(chunk({"content": ""}), 0.05)),
        says(text("a"), then=lambda visit: visit.drip(event({"choices": []}), 0.05)),
    ],
    ids=["before headers", "behind headers", "comments first", "silence", "comments",
         "single bytes", "empty deltas", "empty events"],
)  # fmt: skip
def test_stream_without_progress_is_cut_as_stalled(answer: Callable[[Visit], None]) -> None:
    with serving(answer) as server:
        start = time.monotonic()
        found = failure(ask(server.base_url, control(QUICK)))
        took = time.monotonic() - start
    assert (found.error_class, found.is_retryable) == ("stall", True)
    assert 0.25 < took < 3.0


def test_slow_stream_that_makes_progress_is_left_alone() -> None:
    def trickle(visit: Visit) -> None:
        visit.send(HEAD)
        for _ in range(8):
            visit.over.wait(0.1)
            visit.chunk(text("a"))
        visit.chunk(end())
        visit.end()

    with serving(trickle) as server:
        turn = ask(server.base_url, control(QUICK))
    assert (turn.text, turn.failure) == ("aaaaaaaa", None)


def test_comments_keep_a_queued_request_alive_until_its_first_event() -> None:
    def queue(visit: Visit) -> None:
        visit.send(HEAD)
        for _ in range(8):
            visit.over.wait(0.1)
            visit.chunk(b": queued\n\n")
        visit.chunk(text("now") + end())
        visit.end()

    limits = StreamLimits(silence_seconds=0.3, first_event_seconds=5, progress_seconds=0.3)
    with serving(queue) as server:
        assert ask(server.base_url, control(limits)).text == "now"


@pytest.mark.parametrize(
    ("answer", "has_text"),
    [(silent_before_headers, False), (says(text("Work"), then=Visit.hang), True)],
    ids=["before headers", "in the middle"],
)
def test_abort_wakes_the_reader_within_milliseconds(
    answer: Callable[[Visit], None], *, has_text: bool
) -> None:
    reached = threading.Event()

    def announced(visit: Visit) -> None:
        reached.set()
        answer(visit)

    said = threading.Event()
    handle = StreamHandle()
    turns: list[tuple[float, ModelTurn]] = []

    def read(base_url: str) -> None:
        turn = ask(base_url, control(handle=handle, on_delta=lambda *_: said.set()))
        turns.append((time.monotonic(), turn))

    with serving(announced) as server:
        reader = threading.Thread(target=read, args=(server.base_url,))
        reader.start()
        assert (said if has_text else reached).wait(20)
        aborted_at = time.monotonic()
        handle.abort("stop")
        reader.join(20)
    woke_at, turn = turns[0]
    assert woke_at - aborted_at < 0.5
    assert failure(turn).error_class == "aborted"
    assert turn.text == ("Work" if has_text else "")
    assert turn.usage.is_estimated == has_text


def test_abort_before_the_start_sends_nothing() -> None:
    handle = StreamHandle()
    handle.abort("drain")
    with serving(says(text("x"), end())) as server:
        turn = ask(server.base_url, control(handle=handle))
    assert failure(turn).error_class == "aborted"
    assert server.visits == []


def test_abort_behind_the_finish_keeps_the_paid_answer() -> None:
    handle = StreamHandle()
    parts = (text("whole"), chunk({}, "stop"), text("more"))

    def on_delta(_kind: str, piece: str) -> None:
        if piece == "more":
            handle.abort("steer")

    with serving(says(*parts, then=Visit.hang)) as server:
        turn = ask(server.base_url, control(handle=handle, on_delta=on_delta))
    assert (turn.failure, turn.finish) == (None, "stop")


def test_owner_is_asked_while_the_stream_is_open_and_can_end_it() -> None:
    answers: list[AbortReason | None] = [None, "lease_lost"]
    limits = StreamLimits(silence_seconds=20, first_event_seconds=20, progress_seconds=20)
    handle = StreamHandle()
    with serving(says(text("a"), then=Visit.hang)) as server:
        turn = ask(server.base_url, control(limits, handle=handle, watch=lambda: answers.pop(0)))
    assert failure(turn).error_class == "aborted"
    assert (handle.reason, answers) == ("lease_lost", [])


def test_failing_look_up_of_the_owner_does_not_stop_the_clocks() -> None:
    def broken() -> AbortReason | None:
        raise ConnectionError("redis is down")

    limits = StreamLimits(silence_seconds=1.3, first_event_seconds=1.3, progress_seconds=1.3)
    with serving(says(text("a"), then=Visit.hang)) as server:
        assert failure(ask(server.base_url, control(limits, watch=broken))).error_class == "stall"


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
