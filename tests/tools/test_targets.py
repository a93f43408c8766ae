"""What a call would change is found however it is spelt."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.targets import targets_of
from umbel.strict_json import Json
from umbel.target_name import target_name


@pytest.mark.parametrize(
    "spelling",
    [
        ".env",
        "./.env",
        "a/../.env",
        ".//.env",
        " .ENV ",
        "\uff0eenv",
        ".\\.env",
        ".env/",
        ".e\u200bnv\ufeff",
        "x/y/../../.\u212anv".replace("\u212a", "e"),
    ],
)
def test_every_spelling_is_the_same_name(spelling: str) -> None:
    assert target_name(spelling) == ".env"


@given(st.text())
def test_a_normal_name_stays_as_it_is(name: str) -> None:
    assert target_name(target_name(name)) == target_name(name)


def test_only_the_arguments_that_a_tool_names_count() -> None:
    arguments: dict[str, Json] = {"path": "a/./b", "text": "prod", "also": ["c", "a/b"]}
    assert targets_of(arguments, ("path", "also", "missing")) == ("a/b", "c")


def test_of_a_tool_that_names_none_every_text_and_number_counts() -> None:
    arguments: dict[str, Json] = {"a": {"prod": ["x", {"y": "z"}]}, "n": 1, "b": None, "c": True}
    assert targets_of(arguments, None) == ("prod", "x", "y", "z", "1")


def test_a_number_that_names_a_target_is_its_text() -> None:
    arguments: dict[str, Json] = {"account": 42, "also": [42.0, 0.5, -7]}
    assert targets_of(arguments, ["account", "also"]) == ("42", "0.5", "-7")
