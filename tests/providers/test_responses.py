import json
from collections.abc import Callable

import pytest

from loop.response import ModelTurn
from providers.contract import Endpoint, StreamControl, StreamLimits
from providers.refusals import Refusals
from providers.responses import ResponsesProvider
from providers.wires import provider_for
from tests.providers.case_runner import read_pieces
from tests.providers.cases import CASES, Case, read_cases
from tests.providers.endpoint import HEAD, REQUEST, Visit, control, failure, says, serving
from umbel.errors import Misconfigured

RECORDED = {case.name[4:]: case for case in read_cases(CASES / "responses")}
STREAMS = [case for case in RECORDED.values() if (case.path / "wire.sse").exists()]
LIMITS = StreamLimits(silence_seconds=20, first_event_seconds=20, progress_seconds=1.0)


def body_of(name: str) -> bytes:
    return RECORDED[name].wire[2]


def ask(base_url: str, controls: StreamControl | None = None) -> ModelTurn:
    provider = ResponsesProvider(Endpoint(base_url=base_url, api_key="k"), refusals=Refusals())
    body = provider.render(REQUEST, provider.form())
    return provider.stream(REQUEST, body, controls or control())


def test_request_goes_to_its_own_path_and_deltas_are_shown_as_they_come() -> None:
    seen: list[tuple[str, str]] = []
    raw = body_of("commentary-then-reasoning-then-call")
    with serving(says(raw)) as server:
        turn = ask(
            server.base_url, control(on_delta=lambda kind, piece: seen.append((kind, piece)))
        )
    assert server.visits[0].head.startswith(b"POST /v1/responses ")
    assert json.loads(server.visits[0].body)["store"] is False
    assert seen == [("text", "Let me look."), ("text", "Still looking."), ("call", "list_dir")]
    assert turn.text == "Let me look.\n\nStill looking."


def test_answer_is_over_at_its_terminal_event_though_the_connection_stays_open() -> None:
    with serving(says(body_of("text"), then=Visit.hang)) as server:
        assert ask(server.base_url).text == "Hello there"


@pytest.mark.parametrize("case", STREAMS, ids=lambda case: case.name)
def test_no_call_runs_without_the_terminal_event(case: Case) -> None:
    body = case.wire[2]
    ends = [body.rfind(sign) for sign in (b"response.completed", b"response.incomplete")]
    turn = read_pieces(case, [body[: max(*ends, 0)]])
    assert turn.failure is not None
    assert {call.status for call in turn.calls} <= {"incomplete"}


def until(name: str, sign: bytes) -> bytes:
    """A recorded stream up to the event behind the first that holds the sign."""
    body = body_of(name)
    return body[: body.index(b"\n\n", body.index(sign)) + 2]


def test_model_that_reasons_unseen_is_not_taken_for_stalled() -> None:
    reasoning = until("commentary-then-reasoning-then-call", b'"id":"rs_1"')
    rest = body_of("commentary-then-reasoning-then-call")[len(reasoning) :]

    def think(visit: Visit) -> None:
        visit.send(HEAD)
        visit.chunk(reasoning)
        visit.over.wait(2.0)
        visit.chunk(rest)
        visit.end()

    with serving(think) as server:
        turn = ask(server.base_url, control(LIMITS))
    assert (turn.failure, len(turn.calls)) == (None, 1)


def queue_events(visit: Visit) -> None:
    visit.drip(b'event: response.in_progress\ndata: {"type":"response.in_progress"}\n\n', 0.05)


@pytest.mark.parametrize(
    ("start", "then"),
    [
        (until("text", b"output_text.delta"), Visit.hang),
        (until("text", b"output_text.delta"), queue_events),
        (until("text", b"output_text.delta"), lambda visit: visit.drip(b": keep\n\n", 0.05)),
    ],
    ids=["silence", "events that say nothing", "comments"],
)
def test_stream_that_stops_in_the_middle_is_cut_and_booked(
    start: bytes, then: Callable[[Visit], None]
) -> None:
    with serving(says(start, then=then)) as server:
        turn = ask(server.base_url, control(LIMITS))
    assert failure(turn).error_class == "stall"
    assert turn.text == "Hel"
    assert turn.usage.is_estimated
    assert turn.usage.output_tokens == 1


def test_encrypted_reasoning_that_a_model_refuses_is_not_asked_for_again() -> None:
    message = "Encrypted content is not supported with this model."

    def strict(visit: Visit) -> None:
        if b"encrypted_content" in visit.body:
            error = json.dumps({"error": {"message": message}}).encode()
            head = (
                b"HTTP/1.1 400 No\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
            )
            visit.send(head % len(error) + error)
        else:
            says(body_of("text"))(visit)

    with serving(strict) as server:
        endpoint = Endpoint(base_url=server.base_url, api_key="k")
        provider = ResponsesProvider(endpoint, refusals=Refusals())
        turns = [
            provider.stream(REQUEST, provider.render(REQUEST, provider.form()), control())
            for _ in range(2)
        ]
    assert failure(turns[0]).is_retryable
    assert turns[1].text == "Hello there"


def test_request_is_written_again_in_the_form_it_was_sent_in() -> None:
    provider = ResponsesProvider(Endpoint("https://api.openai.com/v1", "k"), refusals=Refusals())
    form = json.loads(json.dumps(provider.form()))
    assert form["endpoint"] == "responses:default@api.openai.com"
    assert provider.render(REQUEST, form) == provider.render(REQUEST, provider.form())


def test_wire_is_chosen_by_name_or_by_the_endpoint() -> None:
    openai, local = (
        Endpoint("https://api.openai.com/v1", "k"),
        Endpoint("http://127.0.0.1:9/v1", ""),
    )
    names = [
        provider_for(openai).endpoint_name,
        provider_for(local).endpoint_name,
        provider_for(openai, wire="chat").endpoint_name,
        provider_for(local, wire="responses").endpoint_name,
    ]
    assert [name.partition(":")[0] for name in names] == ["responses", "chat", "chat", "responses"]
    with pytest.raises(Misconfigured):
        provider_for(Endpoint("ftp://x", ""))
