import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.arguments import ArgumentProblems, check_arguments
from tools.schema import compiled

PAY: dict[str, Any] = {
    "type": "object",
    "properties": {
        "amount": {"type": "number", "minimum": 1},
        "count": {"type": "integer"},
        "to": {"type": "string", "maxLength": 10},
        "mode": {"enum": ["fast", "slow"]},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "lines": {
            "type": "array",
            "items": {"type": "object", "properties": {"price": {"type": "number"}}},
        },
        "urgent": {"type": "boolean"},
    },
    "required": ["to"],
    "additionalProperties": False,
}
CASES = Path(__file__).parents[1] / "data" / "cases" / "badinput"


def problems_of(arguments: str, schema: dict[str, Any] = PAY) -> tuple[str, ...]:
    result = check_arguments(schema, arguments)
    assert isinstance(result, ArgumentProblems), result
    return result.problems


def test_fitting_arguments_come_back_as_they_are() -> None:
    text = '{"to":"bo","amount":1.5,"count":2,"note":null,"lines":[{"price":1}],"urgent":true}'
    assert check_arguments(PAY, text) == json.loads(text)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"to": 3}, "to: 3 is an integer, expected string"),
        ({"to": "a", "count": 1.0}, "count: 1.0 is a number, expected integer"),
        ({"to": "a", "count": True}, "count: true is a boolean, expected integer"),
        ({"to": "a", "count": "12"}, 'count: "12" is a string, expected integer'),
        ({"to": "a", "amount": True}, "amount: true is a boolean, expected number"),
        ({"to": "a", "urgent": 1}, "urgent: 1 is an integer, expected boolean"),
        ({"to": "a", "urgent": "true"}, 'urgent: "true" is a string, expected boolean'),
        ({"to": None}, "to: null is null, expected string"),
        ({}, 'arguments: missing ["to"]'),
        ({"to": "a", "mode": "mid"}, 'mode: "mid" must be one of ["fast","slow"]'),
        ({"to": "a", "amount": 0}, "amount: 0 must be at least 1"),
        ({"to": "a", "note": 3}, "note: 3 is an integer, expected string or null"),
        (
            {"to": "a", "lines": [{"price": 1}, {"price": "x"}]},
            'lines[1].price: "x" is a string, expected number',
        ),
        ({"to": "a" * 11}, f'to: "{"a" * 11}" must have at most this many characters: 10'),
    ],
)
def test_a_fault_is_said_with_its_place_what_is_wrong_and_what_is_expected(
    arguments: dict[str, Any], expected: str
) -> None:
    assert problems_of(json.dumps(arguments)) == (expected,)


def test_an_unexpected_argument_is_named_with_the_allowed_ones() -> None:
    (problem,) = problems_of('{"to":"a","too":"b"}')
    assert problem.startswith('arguments: unexpected ["too"]; allowed: ["amount",')


def test_a_fault_deep_in_an_alternative_is_named() -> None:
    schema = {
        "type": "object",
        "properties": {
            "target": {
                "anyOf": [
                    {"type": "object", "properties": {"id": {"type": "integer"}}},
                    {"type": "null"},
                ]
            }
        },
    }
    (problem,) = problems_of('{"target":{"id":"7"}}', schema)
    assert '"7" is a string, expected integer' in problem


def test_three_problems_at_most_are_said() -> None:
    arguments = {"to": 1, "count": "a", "mode": 2, "urgent": 3, "amount": "x"}
    assert len(problems_of(json.dumps(arguments))) == 3


@pytest.mark.parametrize("text", ["[]", "3", '"a"', "null", "true"])
def test_anything_but_an_object_is_refused(text: str) -> None:
    assert "must be a JSON object" in problems_of(text)[0]


def test_a_long_value_is_not_repeated() -> None:
    for arguments in ({"to": ["x" * 5000]}, {"to": "a", "y" * 5000: 1}, {"to": "x" * 5000}):
        (problem,) = problems_of(json.dumps(arguments))
        assert len(problem) < 500


def test_integers_stay_strict_behind_a_reference_and_a_named_dialect() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"inner": {"$ref": "#"}, "n": {"$ref": "#/$defs/n"}},
        "$defs": {"n": {"$schema": "http://json-schema.org/draft-07/schema#", "type": "integer"}},
    }
    assert problems_of('{"n":1.0}', schema) == ("n: 1.0 is a number, expected integer",)
    (problem,) = problems_of('{"inner":{"n":1.0}}', schema)
    assert problem == "inner.n: 1.0 is a number, expected integer"


def test_a_boolean_is_not_the_constant_one() -> None:
    schema = {"type": "object", "properties": {"n": {"const": 1}}}
    assert problems_of('{"n":true}', schema) == ("n: true must be 1",)


@pytest.mark.parametrize(
    ("items", "is_unique"),
    [
        ([1, 2], True),
        ([1, True, "1", None], True),
        ([1, 1.0], False),
        ([{"a": 1, "b": 2}, {"b": 2, "a": 1.0}], False),
        ([[1], [1]], False),
        ([{"a": 1}, {"a": 2}], True),
    ],
)
def test_equal_items_are_found(items: list[object], is_unique: bool) -> None:
    schema = {"type": "object", "properties": {"items": {"type": "array", "uniqueItems": True}}}
    result = check_arguments(schema, json.dumps({"items": items}))
    assert isinstance(result, dict) == is_unique
    if isinstance(result, ArgumentProblems):
        assert result.problems[0].endswith("must have no equal items: true")


def test_thousands_of_objects_are_compared_in_a_moment() -> None:
    schema = {"type": "object", "properties": {"items": {"type": "array", "uniqueItems": True}}}
    text = json.dumps({"items": [{"n": number} for number in range(3300)]})
    started = time.perf_counter()
    assert isinstance(check_arguments(schema, text), dict)
    assert time.perf_counter() - started < 2  # pair by pair it takes far longer


def test_deep_recursive_arguments_are_judged_without_a_crash() -> None:
    schema = {"type": "object", "properties": {"inner": {"$ref": "#"}}, "maxProperties": 1}
    depth = 60
    assert check_arguments(schema, '{"inner":' * depth + "{}" + "}" * depth) is not None


def test_a_schema_is_compiled_once() -> None:
    assert compiled(PAY) is compiled(json.loads(json.dumps(PAY)))


@pytest.mark.parametrize(
    "name",
    [
        "03-lone-surrogate-model-args",
        "05-nan-amount",
        "07-int-5000-digits-args",
        "11-duplicate-key",
    ],
)
def test_bad_input_arguments_are_refused_before_anybody_is_asked(name: str) -> None:
    case = json.loads((CASES / f"{name}.json").read_text())["given"]
    text = case.get("arguments_raw") or _generated(case["generate"])
    assert isinstance(check_arguments({"type": "object"}, text), ArgumentProblems)


def _generated(recipe: dict[str, Any]) -> str:
    return str(recipe["prefix"] + recipe["unit"] * recipe["times"] + recipe["suffix"])


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)
def test_any_json_is_judged_never_crashed_on(value: object) -> None:
    result = check_arguments(PAY, json.dumps(value))
    assert isinstance(result, dict) or all(len(problem) < 700 for problem in result.problems)
