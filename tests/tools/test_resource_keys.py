"""The name of what a change touches, from a tool's template and the arguments of a call."""

from dataclasses import replace

import pytest

import umbel
from tests.factories import a_tool
from tools.builtin.files import write_file
from tools.definition import from_function
from tools.resource_keys import resource_key
from umbel.errors import Misconfigured

WIDE = {"type": "object", "properties": {"a": {}, "b": {}}}


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        ({"a": "ann"}, "account:ann"),
        ({"a": "  ANN "}, "account:ann"),
        ({"a": 7}, "account:7"),
        ({"a": 7.0}, "account:7"),
        ({"a": "x{b}"}, "account:x{b}"),
        ({"a": None}, None),
        ({"a": True}, None),
        ({"a": ["ann"]}, None),
        ({}, None),
    ],
)
def test_a_key_is_the_template_with_the_arguments_in_one_spelling(
    arguments: dict[str, object], key: str | None
) -> None:
    assert resource_key("account:{a}", arguments, None) == key  # type: ignore[arg-type]  # any JSON


def test_files_of_two_folders_are_two_things_and_two_spellings_of_one_file_are_one() -> None:
    template = from_function(write_file).resource_key
    assert template is not None
    keys = [
        resource_key(template, {"path": path}, folder)
        for path, folder in (("n.md", "/a"), ("./x/../n.md", "/a"), ("n.md", "/b"), ("m.md", "/a"))
    ]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3
    assert resource_key(template, {"path": "n.md"}, None) is None


def test_a_long_key_is_short_enough_for_an_index_and_still_its_own() -> None:
    keys = {resource_key("{a}", {"a": "x" * 5_000 + end}, None) for end in ("1", "2")}
    assert len(keys) == 2
    assert all(key is not None and len(key) < 300 for key in keys)


@pytest.mark.parametrize(
    ("key", "fault"),
    [
        ("file:{c}", r"names \['c'\], which are none of its arguments"),
        ("file:{a!r}", "no plain name"),
        ("file:{a.b}", "no plain name"),
        ("file:{a:9}", "no plain name"),
        ("file:{}", "no plain name"),
        ("file:{a", "expected '}'"),
        (" ", "it is empty"),
    ],
)
def test_a_template_that_cannot_work_stops_the_start(key: str, fault: str) -> None:
    with pytest.raises(Misconfigured, match=fault):
        replace(a_tool("write", effect="mutation", schema=WIDE), resource_key=key)


def test_only_a_mutation_has_a_key() -> None:
    with pytest.raises(Misconfigured, match="only a mutation has a resource_key"):
        replace(a_tool("touch", effect="idempotent", schema=WIDE), resource_key="file:{a}")


def test_a_run_keeps_the_template_of_its_tool() -> None:
    @umbel.tool(resource_key="account:{name}")
    def pay(name: str) -> str:
        """Pay somebody."""
        return name

    assert from_function(pay).frozen()["resource_key"] == "account:{name}"
    assert "resource_key" not in a_tool("write", effect="mutation").frozen()
