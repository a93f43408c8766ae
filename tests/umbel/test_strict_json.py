import json
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from umbel.strict_json import (
    InvalidJson,
    Json,
    Limits,
    MalformedJson,
    UnstorableText,
    canonical,
    dump,
    parse,
)

STORABLE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | STORABLE,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(STORABLE, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_every_storable_value_comes_back_the_same(value: Json) -> None:
    assert parse(dump(value)) == value
    assert parse(canonical(value)) == value
    assert dump(parse(dump(value))) == dump(value)


@given(st.text(max_size=60))
def test_any_text_is_either_read_or_refused_as_invalid(text: str) -> None:
    try:
        value = parse(text)
    except InvalidJson:
        return
    assert json.loads(text) == value


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"a":1,"a":2}', "'a' appears twice"),
        ('{"a":{"b":1,"b":1}}', "'b' appears twice"),
        ('[{"\\u0061":1,"a":2}]', "'a' appears twice"),
        ("NaN", "NaN is not"),
        ("[Infinity]", "Infinity is not"),
        ("-Infinity", "-Infinity is not"),
        ("1e999", "too large"),
        ("-1e999", "too large"),
        ("9223372036854775808", "64 bits"),
        ("-9223372036854775809", "64 bits"),
        ("1" * 5_000, "64 bits"),
        ('{"n":' + "9" * 5_000 + "}", "64 bits"),
    ],
)
def test_what_readers_would_understand_differently_is_refused(text: str, told: str) -> None:
    with pytest.raises(InvalidJson, match=told):
        parse(text)


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 0, -1])
def test_whole_numbers_of_64_bits_are_exact(number: int) -> None:
    assert parse(str(number)) == number


@pytest.mark.parametrize(
    "text", ['"\\u0000"', '"\\ud83d"', '{"\\ud83d":1}', '["a\\u0000b"]', '"\\udc00\\ud800"']
)
def test_characters_that_no_database_can_store_are_named_as_such(text: str) -> None:
    with pytest.raises(UnstorableText):
        parse(text)


def test_a_whole_surrogate_pair_is_one_character() -> None:
    assert parse('"\\ud83d\\ude00"') == "😀"


@pytest.mark.parametrize(
    "text", ["", " ", "{", '{"a":', '{"a":1,}', "[1,]", "01", "+1", "'a'", "nul", '"a\nb"', "1 2"]
)
def test_what_is_not_json_is_malformed(text: str) -> None:
    with pytest.raises(MalformedJson):
        parse(text)


def test_raw_control_characters_are_read_only_when_asked_for() -> None:
    assert parse('"a\nb"', lenient_controls=True) == "a\nb"
    with pytest.raises(UnstorableText):
        parse('"a\x00b"', lenient_controls=True)


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":'])
def test_deep_nesting_is_refused_before_it_can_exhaust_the_parser(opening: str) -> None:
    with pytest.raises(InvalidJson, match="nested deeper than 64"):
        parse(opening * 200_000)


def test_the_deepest_allowed_nesting_is_read() -> None:
    text = "[" * 64 + "]" * 64
    assert json.dumps(parse(text)) == text
    with pytest.raises(InvalidJson):
        parse("[" + text + "]")


def test_brackets_inside_strings_do_not_count() -> None:
    text = json.dumps("[" * 500 + '"' + "{" * 500 + "\\")
    assert parse(text) == json.loads(text)


def test_limits_of_size_are_errors_and_never_a_cut() -> None:
    limits = Limits(depth=3, nodes=5, string_chars=4)
    assert parse('["abcd",1,2,3]', limits=limits) == ["abcd", 1, 2, 3]
    for text in ('["abcde"]', "[1,2,3,4,5]", "[[[[]]]]", '{"abcde":1}'):
        with pytest.raises(InvalidJson):
            parse(text, limits=limits)


@pytest.mark.parametrize(
    "text",
    [
        '"' + "\\" * 300_001,
        '"' * 300_001,
        '"a' * 150_000,
        "[" + '"\\u00",' * 60_000,
        "[1," * 60 + "1," * 200_000,
    ],
    ids=["backslashes", "quotes", "open-strings", "cut-escapes", "many-numbers"],
)
def test_hostile_texts_are_refused_quickly(text: str) -> None:
    began = time.monotonic()
    with pytest.raises(InvalidJson):
        parse(text)
    assert time.monotonic() - began < 2


def test_the_recursion_limit_is_never_met() -> None:
    assert sys.getrecursionlimit() < 200_000
    with pytest.raises(InvalidJson):
        parse("{" * 100_000 + '"a":1' + "}" * 100_000)


def test_text_forms_are_compact_and_readable() -> None:
    value: Json = {"b": [1.0, "é😀"], "a": None}
    assert dump(value) == '{"b":[1.0,"é😀"],"a":null}'
    assert canonical(value) == '{"a":null,"b":[1.0,"é😀"]}'
    with pytest.raises(ValueError, match="Out of range"):
        dump(float("nan"))
