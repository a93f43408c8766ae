import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.builtin.evidence import evidence_read
from tools.json_path import Elements, Every, Name, parse_path
from tools.json_scan import Taker, find_values
from tools.json_text import document_of
from tools.result import encode_result
from umbel.errors import InvalidInput
from umbel.testing import call_tool
from umbel.tool import ToolFailed

KEYS = st.sampled_from(["a", "b", 'c"d', "é", "", "x\\y", "\ud83d"])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 10**6)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text('ab"\\{}[],:\n é\ud83d\x00', max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)
STEPS = st.lists(
    KEYS.map(Name)
    | st.integers(0, 3).map(lambda at: Elements(at, at + 1, is_one=True))
    | st.tuples(st.integers(0, 3), st.integers(0, 4)).map(lambda pair: Elements(*pair))
    | st.just(Every()),
    max_size=4,
).map(tuple)


class Collected(Taker):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def begin(self) -> None:
        self.texts.append("")

    def piece(self, text: str) -> None:
        self.texts[-1] += text


def expected(value: Any, steps: tuple[Any, ...]) -> Iterator[Any]:
    """What RFC 9535 selects, from the whole value."""
    if not steps:
        yield value
        return
    chosen: list[Any] = []
    match steps[0]:
        case Name(name) if isinstance(value, dict) and name in value:
            chosen = [value[name]]
        case Elements(start, stop) if isinstance(value, list):
            chosen = value[start:stop]
        case Every() if isinstance(value, dict):
            chosen = list(value.values())
        case Every() if isinstance(value, list):
            chosen = value
    for item in chosen:
        yield from expected(item, steps[1:])


def cut(text: str, size: int) -> Iterator[str]:
    return (text[at : at + size] for at in range(0, len(text), size))


def found(text: str, steps: tuple[Any, ...], size: int) -> list[str]:
    collected = Collected()
    find_values(cut(text, size), steps, collected)
    return collected.texts


@given(VALUES, STEPS, st.integers(1, 40), st.booleans())
def test_what_a_path_selects_is_found_however_the_text_is_cut(
    value: Any, steps: tuple[Any, ...], size: int, is_spaced: bool
) -> None:
    text = json.dumps(value, indent=1 if is_spaced else None)
    texts = [json.loads(one) for one in found(text, steps, size)]
    assert texts == list(expected(value, steps))


@given(VALUES, st.integers(13, 60))
def test_a_text_result_is_read_as_the_text_that_it_is(value: Any, size: int) -> None:
    document = json.dumps(value, ensure_ascii=False)
    stored = encode_result(document).text
    assert "".join(document_of(cut(stored, size))) == document
    assert (
        "".join(document_of(cut(encode_result([value]).text, size))) == encode_result([value]).text
    )


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("$", ()),
        ("$.a.b_1", (Name("a"), Name("b_1"))),
        ("$['a b'][\"c'd\"]", (Name("a b"), Name("c'd"))),
        (r"$['it\'s \"é\" \u00e9']", (Name('it\'s "é" é'),)),
        ("$[0][12]", (Elements(0, 1, True), Elements(12, 13, True))),
        ("$[1:3][:2][4:]", (Elements(1, 3), Elements(0, 2), Elements(4, 10**12))),
        ("$.*[*]", (Every(), Every())),
        ("$ .é [ 0 ] ", (Name("é"), Elements(0, 1, is_one=True))),
    ],
)
def test_paths_are_read(path: str, steps: tuple[Any, ...]) -> None:
    assert parse_path(path) == steps


@pytest.mark.parametrize(
    "path",
    ["a", "", "$..a", "$[-1]", "$[?@.a]", "$[0,1]", "$[::2]", "$.", "$['a]", "$[a]", "$.a" * 40],
)
def test_paths_that_cannot_be_followed_are_refused_in_words(path: str) -> None:
    with pytest.raises(InvalidInput, match="path"):
        parse_path(path)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("hello world", "$.a"),
        ("hello", "$"),
        ('{"a" 1}', "$.a"),
        ('{"a": [1, 2', "$.b"),
        ('{"a": "x', "$.a"),
        ("{1: 2}", "$.a"),
        ('{"a": 1} x', "$.*"),
        ("", "$"),
        ('{"b": 1,, "a": 2}', "$.a"),
        ("[1 2]", "$[1]"),
    ],
)
def test_a_text_that_is_no_json_is_refused_with_the_place(text: str, path: str) -> None:
    with pytest.raises(InvalidInput, match=r"no JSON: .* at character \d+"):
        found(text, parse_path(path), 4)


def test_behind_the_one_value_nothing_is_read() -> None:
    def parts() -> Iterator[str]:
        yield '{"a": [1, 2], '
        raise AssertionError("read too far")

    collected = Collected()
    find_values(parts(), parse_path("$.a[1]"), collected)
    assert collected.texts == ["2"]


STORED = encode_result({"rows": [{"id": n, "name": f"né{n}"} for n in range(3)]}).text


def read(**arguments: Any) -> Any:
    return call_tool(evidence_read, evidence={"c": STORED}, handle="c", **arguments)


def test_a_value_is_read_by_its_path_and_by_page() -> None:
    page = read(path="$.rows[1]")
    assert (page["text"], page["matches"], page["next_offset"]) == (
        '{"id":1,"name":"né1"}',
        1,
        None,
    )
    text, offset = "", 0
    while offset is not None:
        page = read(path="$.rows[*].name", offset=offset, limit=4)
        text, offset = text + page["text"], page["next_offset"]
    assert json.loads(text) == ["né0", "né1", "né2"]
    assert page["total_chars"] == len(text)
    with pytest.raises(ToolFailed, match="behind the end; the value has 19 characters"):
        read(path="$.rows[*].name", offset=20)


def test_a_path_that_leads_nowhere_says_so() -> None:
    page = read(path="$.columns")
    assert (page["found"], page["matches"], page["text"], page["next_offset"]) == (
        False,
        0,
        "",
        None,
    )
    assert page["total_chars"] == len(STORED)


def test_two_places_at_once_are_refused() -> None:
    with pytest.raises(ToolFailed, match="give one of them"):
        read(path="$", find="x")


def test_a_text_that_holds_json_is_read_by_path_too() -> None:
    stored = encode_result('{"a": ["x\\ny"]}').text
    page = call_tool(evidence_read, evidence={"c": stored}, handle="c", path="$.a[0]")
    assert page["text"] == '"x\\ny"'


LINES = encode_result("".join(f"line {n}\n" for n in range(1, 8))).text


def lines(**arguments: Any) -> Any:
    return call_tool(evidence_read, evidence={"c": LINES}, handle="c", **arguments)


def test_lines_are_read_from_one_to_the_next() -> None:
    page = lines(line=2, lines=2)
    assert page["text"] == "line 2\\nline 3\\n"
    assert (page["next_line"], page["found"]) == (4, True)
    text, line = "", 1
    while line is not None:
        page = lines(line=line, lines=3)
        text, line = text + page["text"], page["next_line"]
    assert text == LINES
    assert page["next_offset"] is None


def test_a_long_line_goes_on_by_offset() -> None:
    page = lines(line=3, lines=2, limit=5)
    assert (page["text"], page["next_line"]) == ("line ", None)
    assert lines(offset=page["next_offset"], limit=3)["text"] == "3\\n"


def test_a_line_behind_the_end_is_not_found() -> None:
    page = lines(line=9)
    assert (page["found"], page["text"], page["next_line"]) == (False, "", None)
    assert page["total_chars"] == len(LINES)
