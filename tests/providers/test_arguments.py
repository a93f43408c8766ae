from typing import Any

import pytest

from loop.response import ProposedCall
from providers.call_arguments import read_arguments
from tests.providers.wire import call, calls, end, read

TODOS = {"type": "object", "properties": {"todos": {"type": "array", "items": {"type": "object"}}}}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}


def proposed(arguments: Any, name: str = "write_file") -> ProposedCall:
    turn = read(calls(call(arguments, name=name, model_id="a", index=0)), end("tool_calls"))
    return turn.calls[0]


@pytest.mark.parametrize("written", ["", "  \n", "null", "{}", '"{}"', '""'])
def test_blank_and_null_are_an_empty_object(written: str) -> None:
    assert read_arguments(written, {}).text == "{}"


@pytest.mark.parametrize(
    ("written", "fact"),
    [
        ('{"to":"boss@example.com","to":"eve@example.net"}', "'to' appears twice"),
        ('{"amount": NaN}', "NaN"),
        ('{"amount": -Infinity}', "Infinity"),
        ('{"amount": 1e999}', "too large"),
        ('{"n":' + "9" * 5000 + "}", "64 bits"),
        ('{"n":18446744073709551616}', "64 bits"),
        ('{"text":"cut emoji \\ud83d"}', "half a surrogate pair"),
        ('{"text":"nul \\u0000"}', "U+0000"),
        ('{"a":' * 100 + "1" + "}" * 100, "deeper"),
        ("{'a': 1}", "not valid JSON"),
        ('{"a": 1,}', "not valid JSON"),
        ('{"a": 1} trailing', "not valid JSON"),
        ('[{"a": 1}]', "a list"),
        ("42", "a number"),
        ("true", "a truth value"),
        ('"just words"', "not valid JSON"),
        ("undefined", "not valid JSON"),
    ],
)
def test_unusable_arguments_are_named_to_the_model_and_never_guessed(
    written: str, fact: str
) -> None:
    read_back = proposed(written)
    assert (read_back.status, read_back.arguments_text) == ("invalid_arguments", None)
    assert fact in (read_back.problem or "")


def test_object_with_a_key_twice_is_refused_also_when_sent_as_an_object() -> None:
    line = (
        b'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":'
        b'{"name":"write_file","arguments":{"path":"a","path":"b","text":"x"}}}]}}]}\n\n'
    )
    turn = read(line, end("tool_calls"))
    assert turn.calls[0].status == "invalid_arguments"
    assert "'path' appears twice" in (turn.calls[0].problem or "")


def test_halves_of_a_pair_in_two_deltas_are_one_character() -> None:
    turn = read(
        calls(call('{"path":"a","text":"\ud83c', name="write_file", model_id="a", index=0)),
        calls(call('\udf0d"}', index=0)),
        end("tool_calls"),
    )
    assert turn.calls[0].status == "ok"
    assert turn.calls[0].arguments_text == '{"path":"a","text":"\U0001f30d"}'


def test_lone_half_sent_raw_is_repaired_and_refused() -> None:
    read_back = proposed('{"path":"a","text":"\ud83c"}')
    assert read_back.is_repaired
    assert read_back.status == "invalid_arguments"
    assert read_back.raw_arguments == '{"path":"a","text":"\ufffd"}'


def test_raw_control_characters_are_kept() -> None:
    assert read_arguments('{"text":"a\n\tb"}', TEXT).text == '{"text":"a\\n\\tb"}'


def test_inner_text_is_decoded_only_where_the_schema_wants_a_list_or_object() -> None:
    assert read_arguments('{"todos":"[{\\"a\\":1}]"}', TODOS).text == '{"todos":[{"a":1}]}'
    assert read_arguments('{"text":"[1]"}', TEXT).text == '{"text":"[1]"}'
    assert read_arguments('{"todos":"none"}', TODOS).text == '{"todos":"none"}'
    assert read_arguments('{"todos":"{\\"a\\":1}"}', TODOS).text == '{"todos":"{\\"a\\":1}"}'


def test_inner_text_is_decoded_behind_references_and_alternatives() -> None:
    schema = {
        "type": "object",
        "$defs": {"Point": {"type": "object", "properties": {"x": {"type": "number"}}}},
        "properties": {
            "point": {"$ref": "#/$defs/Point"},
            "tags": {"anyOf": [{"type": "array"}, {"type": "null"}]},
            "any": {"anyOf": [{"type": "array"}, {"type": "string"}]},
            "loop": {"$ref": "#/properties/loop"},
        },
    }
    written = '{"point":"{\\"x\\":1}","tags":"[1]","any":"[1]","loop":"[1]"}'
    assert read_arguments(written, schema).text == (
        '{"point":{"x":1},"tags":[1],"any":"[1]","loop":"[1]"}'
    )


def test_canonical_text_keeps_order_and_characters() -> None:
    assert read_arguments('{ "b" : 1.50, "a":"\\u00e9" }', {}).text == '{"b":1.5,"a":"é"}'


@pytest.mark.parametrize(
    "pieces",
    [
        ["{}", '{"city":"Oslo"}'],
        [{}, '{"city":', '"Oslo"}'],
        ['{"city":', '{"city":"Os', '{"city":"Oslo"}'],
        [{"city": "Oslo"}],
        ['{"city":"Oslo"}', ""],
        ['{"city":"Oslo"}', {}],
        [None, "", '{"city":"Oslo"}'],
    ],
)
def test_argument_pieces_of_every_kind_come_to_the_same(pieces: list[Any]) -> None:
    first, *rest = pieces
    turn = read(
        calls(call(first, name="get_weather", model_id="a", index=0)),
        *(calls(call(piece, index=0)) for piece in rest),
        end("tool_calls"),
    )
    assert turn.calls[0].arguments_text == '{"city":"Oslo"}'


def test_long_arguments_in_tiny_pieces_stay_linear() -> None:
    body = "x" * 40_000
    written = f'{{"path":"a","text":"{body}"}}'
    pieces = [written[n : n + 4] for n in range(0, len(written), 4)]
    head = calls(call("", name="write_file", model_id="a", index=0))
    turn = read(head, *(calls(call(piece, index=0)) for piece in pieces), end("tool_calls"))
    assert turn.calls[0].arguments_text == written
