from typing import Any

import pytest

from providers.normalise import RequestFacts
from tests.providers.wire import asked, call, calls, chunk, end, read, read_body

OSLO = '{"city":"Oslo"}'
ROME = '{"city":"Rome"}'
ok = ("get_weather", "ok", OSLO)


def test_calls_without_index_are_told_apart_by_id() -> None:
    turn = read(
        calls(call('{"city":', name="get_weather", model_id="a")),
        calls(call('"Oslo"}', model_id="a")),
        calls(call(ROME, name="get_weather", model_id="b")),
        end("tool_calls"),
    )
    assert asked(turn) == [ok, ("get_weather", "ok", ROME)]


def test_pieces_without_index_and_id_go_on_with_the_last_call() -> None:
    turn = read(
        calls(call("", name="get_weather", model_id="a")),
        calls(call('{"city":')),
        calls(call('"Oslo"}')),
        end("tool_calls"),
    )
    assert asked(turn) == [ok]


def test_whole_calls_without_index_and_id_are_each_their_own() -> None:
    turn = read(
        calls(call(OSLO, name="get_weather")),
        calls(call(OSLO, name="get_weather")),
        calls(call({}, name="now")),
        calls(call({}, name="now")),
        end("tool_calls"),
    )
    assert asked(turn) == [ok, ok, ("now", "ok", "{}"), ("now", "ok", "{}")]
    assert len({call.model_id for call in turn.calls}) == 4


def test_nameless_calls_of_one_delta_are_continued_by_their_place() -> None:
    turn = read(
        calls(call("", name="get_weather", model_id="a"), call("", name="list_dir", model_id="b")),
        calls(call('{"city":'), call('{"path":')),
        calls(call('"Oslo"}'), call('"/"}')),
        end("tool_calls"),
    )
    assert asked(turn) == [ok, ("list_dir", "ok", '{"path":"/"}')]


def test_id_that_comes_late_belongs_to_the_call_of_its_index() -> None:
    turn = read(
        calls(call("", name="get_weather", index=0)),
        calls(call(OSLO, model_id="late", index=0)),
        end("tool_calls"),
    )
    assert [c.model_id for c in turn.calls] == ["late"]
    assert asked(turn) == [ok]


def test_whole_calls_on_one_index_without_ids_are_each_their_own() -> None:
    turn = read(
        calls(call(OSLO, name="get_weather", index=0)),
        calls(call(ROME, name="get_weather", index=0)),
        calls(call('{"path":"/"}', name="list_dir", index=0)),
        end("tool_calls"),
    )
    assert [c.arguments_text for c in turn.calls] == [OSLO, ROME, '{"path":"/"}']


def test_name_and_snapshot_repeated_on_an_index_are_one_call() -> None:
    pieces = ['{"city":', OSLO, OSLO]
    turn = read(
        *(calls(call(piece, name="get_weather", index=0)) for piece in pieces), end("tool_calls")
    )
    assert asked(turn) == [ok]


def test_index_may_start_anywhere_and_be_a_string() -> None:
    turn = read(
        calls(call("", name="get_weather", model_id="a", index="1")),
        calls(call(OSLO, index="1")),
        calls(call("{}", name="now", model_id="b", index=5)),
        end("tool_calls"),
    )
    assert asked(turn) == [ok, ("now", "ok", "{}")]


def test_name_in_pieces_is_put_together() -> None:
    turn = read(
        calls(call(name="get_", model_id="a", index=0)),
        calls(call(name="weather", index=0)),
        calls(call(OSLO, index=0)),
        end("tool_calls"),
    )
    assert asked(turn) == [ok]


def test_growing_name_replaces_what_it_repeats() -> None:
    turn = read(
        calls(call(name="get_", model_id="a", index=0)),
        calls(call(OSLO, name="get_weather", index=0)),
        end("tool_calls"),
    )
    assert asked(turn) == [ok]


@pytest.mark.parametrize(
    "written",
    ["functions.get_weather", "default_api:get_weather", " get_weather ", "get_weather<|channel|>x",
     "functions.get_weather<|constrain|>json"],
)  # fmt: skip
def test_decorated_name_means_the_offered_tool(written: str) -> None:
    assert asked(read(calls(call(OSLO, name=written, index=0)), end())) == [ok]


def test_call_without_name_and_arguments_is_nothing() -> None:
    turn = read(calls(call("", name="", model_id="a", index=0), {}), end("tool_calls"))
    assert turn.failure is not None
    assert turn.failure.error_class == "empty_response"


def test_call_without_a_name_is_answered_as_an_unknown_tool() -> None:
    turn = read(calls(call(OSLO, model_id="a", index=0)), end("tool_calls"))
    assert asked(turn) == [("", "unknown_tool", OSLO)]
    assert "get_weather" in (turn.calls[0].problem or "")


def test_id_of_the_conversation_is_not_given_again() -> None:
    facts = RequestFacts(ids_already_used=frozenset(("call_0", "made_1")))
    turn = read(calls(call("{}", name="now", model_id="call_0", index=0)), end(), facts=facts)
    assert turn.calls[0].model_id not in facts.ids_already_used


def test_old_function_call_is_a_call() -> None:
    turn = read(
        chunk({"function_call": {"name": "get_weather", "arguments": ""}}),
        chunk({"function_call": {"arguments": '{"city":'}}),
        chunk({"function_call": {"arguments": '"Oslo"}'}}),
        end("function_call"),
    )
    assert asked(turn) == [ok]
    assert turn.finish == "tool_calls"


def test_calls_of_a_whole_message_are_each_their_own() -> None:
    entries = [
        call(OSLO, name="get_weather", model_id="x"),
        call({"city": "Oslo"}, name="get_weather"),
    ]
    message = {"role": "assistant", "content": None, "tool_calls": entries}
    turn = read_body({"choices": [{"message": message, "finish_reason": "tool_calls"}]})
    assert asked(turn) == [ok, ok]


def test_null_where_a_list_of_calls_should_be_is_no_call() -> None:
    turn = read(chunk({"content": "hi", "tool_calls": None, "function_call": None}), end())
    assert (turn.text, turn.calls) == ("hi", ())


def test_extra_of_a_call_is_kept_from_every_delta() -> None:
    turn = read(
        calls(call("{}", name="now", model_id="a", index=0, extra_content={"s": 1})),
        calls(call(index=0, signature="xyz")),
        end("tool_calls"),
    )
    assert turn.calls[0].extra == {"extra_content": {"s": 1}, "signature": "xyz"}


@pytest.mark.parametrize("more", [{"index": 0}, {}])
def test_id_made_anew_for_every_piece_does_not_break_a_call(more: dict[str, Any]) -> None:
    turn = read(
        calls(call('{"city":', name="get_weather", model_id="a", **more)),
        calls(call('"Oslo"', model_id="b", **more)),
        calls(call("}", model_id="c", **more)),
        end("tool_calls"),
    )
    assert asked(turn) == [ok]
    assert turn.calls[0].model_id == "a"


def test_name_repeated_behind_whole_arguments_is_no_second_call() -> None:
    turn = read(
        calls(call(OSLO, name="get_weather", model_id="a", index=0)),
        calls(call(name="get_weather", model_id="a", index=0)),
        calls(call("", name="get_weather", index=0)),
        end("tool_calls"),
    )
    assert asked(turn) == [ok]
