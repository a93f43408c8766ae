from typing import Any

import pytest

from providers.normalise import RequestFacts, normalise
from tests.providers.wire import (
    DONE,
    OFFERED,
    SSE,
    asked,
    call,
    calls,
    chunk,
    end,
    event,
    read,
    read_body,
    text,
)

OSLO = '{"city":"Oslo"}'
WHOLE = call(OSLO, name="get_weather", model_id="a", index=0)
CUT = call('{"city":"Os', name="get_weather", model_id="b", index=1)


def failure_class(*parts: bytes) -> str | None:
    failure = read(*parts).failure
    return failure.error_class if failure else None


def test_length_makes_every_call_incomplete_also_the_whole_ones() -> None:
    turn = read(calls(WHOLE), calls(CUT), end("length"))
    assert asked(turn) == [("get_weather", "incomplete", OSLO), ("get_weather", "incomplete", None)]
    assert (turn.finish, turn.failure) == ("length", None)


def test_cut_text_is_kept_and_marked() -> None:
    turn = read(text("half a sen"), end("length"))
    assert (turn.text, turn.finish, turn.failure) == ("half a sen", "length", None)


@pytest.mark.parametrize("word", ["max_tokens", "model_length", "MAX_TOKENS"])
def test_other_words_for_length_mean_it(word: str) -> None:
    assert read(text("x"), end(word)).finish == "length"


def test_unreadable_call_below_the_limit_is_the_models_mistake() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 63, "total_tokens": 68}
    parts = (calls(CUT), chunk({}, "tool_calls"), event({"choices": [], "usage": usage}), DONE)
    assert asked(read(*parts, facts=RequestFacts(max_tokens=64)))[0][1] == "invalid_arguments"
    assert asked(read(*parts, facts=RequestFacts(max_tokens=63)))[0][1] == "incomplete"
    assert read(*parts, facts=RequestFacts(max_tokens=63)).finish == "length"


def test_stream_that_breaks_off_keeps_what_came_and_runs_nothing() -> None:
    turn = read(text("Let me"), calls(WHOLE))
    assert turn.failure is not None
    assert (turn.failure.error_class, turn.failure.is_retryable) == ("incomplete_stream", True)
    assert (turn.text, turn.finish) == ("Let me", None)
    assert asked(turn) == [("get_weather", "incomplete", OSLO)]


def test_event_cut_in_the_middle_at_the_end_is_no_protocol_error() -> None:
    assert failure_class(text("a"), text("b")[:20]) == "incomplete_stream"


def test_last_event_needs_no_blank_line() -> None:
    assert read(text("a"), end("stop").rstrip()).failure is None
    assert read(text("a"), chunk({}, "stop").rstrip()).failure is None


def test_body_without_a_byte_is_incomplete() -> None:
    assert failure_class(b"") == "incomplete_stream"
    assert failure_class(b": ping\n\n") == "incomplete_stream"


def test_reasoning_alone_is_no_answer() -> None:
    turn = read(chunk({"reasoning_content": "hm"}), end("stop"))
    assert turn.failure is not None
    assert (turn.failure.error_class, turn.reasoning) == ("empty_response", "hm")
    assert failure_class(chunk({"reasoning_content": "hm"}), end("length")) == "empty_response"
    assert failure_class(text(" \n"), end("stop")) == "empty_response"


def test_filter_without_a_word_is_not_worth_repeating() -> None:
    turn = read(end("content_filter"))
    assert turn.failure is not None
    assert (turn.failure.error_class, turn.failure.is_retryable) == ("content_filter", False)


def test_filtered_answer_runs_nothing() -> None:
    turn = read(calls(WHOLE), end("content_filter"))
    assert (turn.finish, asked(turn)[0][1]) == ("content_filter", "incomplete")


def test_refusal_is_an_answer_of_its_own() -> None:
    turn = read(chunk({"refusal": "I can't "}), chunk({"refusal": "do that."}), end("stop"))
    assert (turn.text, turn.finish, turn.failure) == ("I can't do that.", "refusal", None)
    message = {"role": "assistant", "content": None, "refusal": "No."}
    whole = read_body({"choices": [{"message": message, "finish_reason": "stop"}]})
    assert (whole.text, whole.finish, whole.failure) == ("No.", "refusal", None)


def test_tool_calls_label_without_a_call_is_a_plain_answer() -> None:
    assert read(text("Hi"), end("tool_calls")).finish == "stop"


@pytest.mark.parametrize("word", ["error", "insufficient_system_resource", "network_error"])
def test_endings_that_mean_a_broken_server_are_failures(word: str) -> None:
    assert failure_class(text("x"), end(word)) == "server"


def test_call_the_server_could_not_read_is_the_models_mistake() -> None:
    assert failure_class(end("MALFORMED_FUNCTION_CALL")) == "model_output"


def test_nothing_after_done_counts() -> None:
    assert read(text("a"), end("stop"), text("b")).text == "a"


def test_azure_annotations_without_a_delta_are_harmless() -> None:
    note: dict[str, Any] = {"index": 0, "content_filter_results": {}, "content_filter_offsets": {}}
    turn = read(text("Hi"), event({"choices": [note]}), chunk(None), end("stop"))
    assert (turn.text, turn.finish, turn.extra) == ("Hi", "stop", {})


def test_message_beside_deltas_is_not_said_twice() -> None:
    again = {"choices": [{"delta": {}, "message": {"content": "Hello"}, "finish_reason": "stop"}]}
    assert read(text("Hel"), text("lo"), event(again), DONE).text == "Hello"
    assert read(event(again), DONE).text == "Hello"


def test_events_without_blank_lines_between_them_are_told_apart() -> None:
    glued = text("a").replace(b"\n\n", b"\n") + text("b").replace(b"\n\n", b"\n") + end("stop")
    assert read(glued).text == "ab"


@pytest.mark.parametrize("noise", [b"data: ping\n\n", b"event: ping\ndata: {\"type\":\"ping\"}\n\n",
                                   b"data: {}\n\n", b"data: null\n\n", b"data: 5\n\n"])  # fmt: skip
def test_noise_between_events_is_ignored(noise: bytes) -> None:
    turn = read(noise, text("a"), noise, end("stop"))
    assert (turn.text, turn.failure) == ("a", None)


def test_broken_event_in_the_middle_is_a_protocol_error() -> None:
    assert failure_class(text("a"), b'data: {"choices":[{"del\n\n', text("c"), end()) == "protocol"


@pytest.mark.parametrize(
    "headers", [{}, {"content-type": "text/plain"}, {"content-type": "application/json"}]
)
def test_event_stream_under_a_wrong_type_is_recognised(headers: dict[str, str]) -> None:
    raw = [b"".join((b": hi\n\n", text("ok"), end("stop")))]
    turn = normalise(raw, status=200, headers=headers, offered=OFFERED)
    assert (turn.text, turn.failure) == ("ok", None)


def test_json_under_the_type_of_an_event_stream_is_recognised() -> None:
    error = {"error": {"message": "busy", "code": 503}}
    turn = read_body(error, headers=SSE)
    assert turn.failure is not None
    assert turn.failure.error_class == "server"
    answer = {"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]}
    assert read_body(answer, headers=SSE).text == "ok"


@pytest.mark.parametrize("body", ["<!doctype html><title>Login</title>", '{"hello": "world"}'])
def test_something_else_entirely_is_a_protocol_error(body: str) -> None:
    turn = read_body(body, headers={"content-type": "text/html"})
    assert turn.failure is not None
    assert turn.failure.error_class == "protocol"


def test_usage_of_a_failed_answer_is_booked() -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    turn = read(
        text("x"), event({"choices": [], "usage": usage}), event({"error": {"message": "no"}})
    )
    assert turn.failure is not None
    assert (turn.usage.input_tokens, turn.usage.output_tokens) == (7, 3)


def details(**more: Any) -> dict[str, Any]:
    return {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14, **more}


@pytest.mark.parametrize(
    ("readings", "wanted"),
    [
        ([details(prompt_tokens_details={"cached_tokens": 8})], (10, 4, 14, 8, None)),
        ([details(completion_tokens_details={"reasoning_tokens": 3})], (10, 4, 14, None, 3)),
        ([details(cached_tokens=6)], (10, 4, 14, 6, None)),
        ([details(prompt_tokens_details=None)], (10, 4, 14, None, None)),
        ([details(prompt_tokens_details={"cached_tokens": 0})], (10, 4, 14, 0, None)),
        ([details(prompt_tokens_details={"cached_tokens": 8}), details()], (10, 4, 14, 8, None)),
        ([{"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}], (None,) * 5),
        ([details(), {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}],
         (10, 4, 14, None, None)),
        ([{"prompt_tokens": 10}, {"completion_tokens": 4}], (10, 4, 14, None, None)),
        ([{"input_tokens": 10, "output_tokens": 4}], (10, 4, 14, None, None)),
        ([{"completion_tokens": 4, "total_tokens": 14}], (10, 4, 14, None, None)),
        ([{"prompt_tokens": "x", "completion_tokens": True, "total_tokens": None}], (None,) * 5),
        ([None, "none", []], (None,) * 5),
    ],
)  # fmt: skip
def test_usage_is_what_the_endpoint_said(readings: list[Any], wanted: tuple[Any, ...]) -> None:
    events = (event({"choices": [], "usage": reading}) for reading in readings)
    usage = read(text("x"), *events, end()).usage
    assert wanted == (
        usage.input_tokens,
        usage.output_tokens,
        usage.total_tokens,
        usage.cached_input_tokens,
        usage.reasoning_tokens,
    )


def test_usage_inside_a_choice_is_found() -> None:
    inside = {"index": 0, "delta": {}, "finish_reason": "stop", "usage": details()}
    assert read(text("x"), event({"choices": [inside]}), DONE).usage.input_tokens == 10
