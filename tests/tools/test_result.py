import dataclasses
import datetime
import decimal
import enum
import hashlib
import json
import math
import uuid
from collections import OrderedDict, deque, namedtuple
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from tools.encoding import NotJson
from tools.result import encode_result, error_text, view_of
from umbel.json_text import safe_cut


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Point:
    x: int
    when: datetime.date


class Note(BaseModel):
    text: str
    at: datetime.datetime


Pair = namedtuple("Pair", "left right")


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (None, None),
        (True, True),
        (7, 7),
        (1.5, 1.5),
        ("text", "text"),
        (datetime.datetime(2026, 11, 29, 10, tzinfo=datetime.UTC), "2026-11-29T10:00:00+00:00"),
        (datetime.date(2026, 11, 29), "2026-11-29"),
        (datetime.time(10, 30), "10:30:00"),
        (datetime.timedelta(minutes=1.5), 90.0),
        (decimal.Decimal("12.50"), "12.50"),
        (b"\xff\x00\xfe", {"base64": "/wD+"}),
        (bytearray(b"a"), {"base64": "YQ=="}),
        (memoryview(b"a"), {"base64": "YQ=="}),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (PurePosixPath("a/b"), "a/b"),
        (Path("a/b"), "a/b"),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (Point(1, datetime.date(2026, 1, 2)), {"x": 1, "when": "2026-01-02"}),
        (
            Note(text="a", at=datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)),
            {"text": "a", "at": "2026-01-02T00:00:00+00:00"},
        ),
        ((1, "a"), [1, "a"]),
        (Pair(1, 2), [1, 2]),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"b", "a"}), ["a", "b"]),
        (deque([1]), [1]),
        (range(3), [0, 1, 2]),
        (
            {7: "a", None: "b", True: "c", 2.5: "d"},
            {"7": "a", "true": "c", "null": "b", "2.5": "d"},
        ),
        ({datetime.date(2026, 1, 2): Colour.RED}, {"2026-01-02": "red"}),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        ({"text": "t", "images": [{"tag": "x"}]}, {"text": "t", "images": [{"tag": "x"}]}),
    ],
)
def test_every_common_python_value_has_one_json_form(value: object, plain: object) -> None:
    assert json.loads(encode_result(value).text) == plain


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (2**63, str(2**63)),
        (-(2**200), str(-(2**200))),
    ],
)
def test_numbers_json_cannot_hold_become_text_with_a_note(value: object, text: str) -> None:
    encoded = encode_result({"n": [value]})
    assert json.loads(encoded.text) == {"n": [text]}
    assert len(encoded.notes) == 1
    assert "result.n[0]" in encoded.notes[0]


def test_notes_do_not_grow_without_bound() -> None:
    assert len(encode_result([math.nan] * 1000).notes) == 5


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 0, 10**18])
def test_integers_of_64_bits_stay_numbers(value: int) -> None:
    encoded = encode_result(value)
    assert (json.loads(encoded.text), encoded.notes) == (value, ())


def test_a_nul_and_half_an_emoji_are_stored_visibly_and_come_back() -> None:
    value = "start\x00middle \ud83d end"
    encoded = encode_result(value)
    assert encoded.text == '"start\\u0000middle \\ud83d end"'
    assert encoded.is_escaped
    assert json.loads(encoded.text) == value
    encoded.text.encode()


def test_text_that_only_looks_like_an_escape_is_not_marked() -> None:
    value = "a literal \\u0000 and \\\\u0000"
    encoded = encode_result(value)
    assert not encoded.is_escaped
    assert json.loads(encoded.text) == value


def test_a_real_nul_after_a_backslash_is_marked() -> None:
    assert encode_result("\\\x00").is_escaped


def test_size_and_digest_are_of_the_stored_bytes() -> None:
    encoded = encode_result("ä")
    assert encoded.size_bytes == len('"ä"'.encode())
    assert encoded.sha256 == hashlib.sha256('"ä"'.encode()).hexdigest()


def test_equal_sets_give_equal_texts() -> None:
    names = [f"name{number}" for number in range(50)]
    assert encode_result(set(names)).text == encode_result(dict.fromkeys(names).keys()).text


class Opaque:
    def __repr__(self) -> str:
        return "<secret>"


class Raising(dict[str, int]):
    def items(self) -> Any:
        raise ValueError("no items today")


def circular() -> list[object]:
    inner: list[object] = []
    inner.append(inner)
    return inner


def shared(levels: int) -> object:
    value: object = "x"
    for _ in range(levels):
        value = [value, value]
    return value


@pytest.mark.parametrize(
    ("value", "fact"),
    [
        (Opaque(), "Opaque"),
        ({"a": [Opaque()]}, r"result\.a\[0\]"),
        (object, "type"),
        ((item for item in "ab"), "generator"),
        (1j, "complex"),
        ({(1, 2): 3}, "key of type tuple"),
        ({1: "a", "1": "b"}, "two keys"),
        (circular(), "nested deeper"),
        ([10**5000], "4,300 digits"),
        (Raising(a=1), "raised ValueError"),
        (Exception("no"), "Exception"),
    ],
)
def test_what_has_no_json_form_is_refused_by_place_and_type(value: object, fact: str) -> None:
    with pytest.raises(NotJson, match=fact) as caught:
        encode_result(value)
    assert "secret" not in str(caught.value)


def test_shared_values_that_unfold_without_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.encoding.MAX_VALUES", 10_000)
    with pytest.raises(NotJson, match="more than 10000 values"):
        encode_result(shared(60))


def test_a_result_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.result.MAX_RESULT_BYTES", 100)
    encode_result("x" * 98)
    with pytest.raises(NotJson, match="101 bytes"):
        encode_result("x" * 99)


ANY_TEXT = st.text(st.characters(exclude_categories=()))
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | ANY_TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner),
    max_leaves=20,
)


def as_utf16(value: object) -> object:
    """Two halves that meet are one character in every JSON reader."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    if isinstance(value, list):
        return [as_utf16(item) for item in value]
    if isinstance(value, dict):
        return {as_utf16(key): as_utf16(item) for key, item in value.items()}
    return value


@given(JSON_VALUES)
def test_what_is_written_is_read_back_and_can_be_stored(value: object) -> None:
    encoded = encode_result(value)
    assert "\x00" not in encoded.text
    encoded.text.encode()
    assert json.loads(encoded.text) == as_utf16(value)


@given(ANY_TEXT)
def test_exactly_the_unstorable_characters_are_marked(text: str) -> None:
    is_unstorable = any(char == "\x00" or "\ud800" <= char <= "\udfff" for char in text)
    assert encode_result(text).is_escaped == is_unstorable


def test_an_error_text_is_json_that_says_code_and_message() -> None:
    text = error_text("not_found", "no \x00 \ud83d file")
    assert json.loads(text) == {"error": {"code": "not_found", "message": "no \x00 \ud83d file"}}
    text.encode()


def test_a_result_that_fits_is_shown_whole_and_is_json() -> None:
    text = encode_result({"a": "b" * 90}).text
    assert view_of(text, len(text), "call_1") == text


def test_a_cut_view_says_what_is_missing_and_how_to_read_on() -> None:
    text = encode_result("x" * 5_242_878).text
    view = view_of(text, 16_000, "call_1")
    assert view.startswith(text[:16_000])
    assert view[16_000:] == (
        "\n[cut: showing characters 0-15999 of 5242880, 5226880 are missing; "
        'read on with evidence_read {"handle":"call_1","offset":16000}]'
    )


@pytest.mark.parametrize(
    ("text", "position", "cut"),
    [
        ("abcdef", 3, 3),
        (r"ab\u0000cd", 3, 2),
        (r"ab\u0000cd", 7, 2),
        (r"ab\u0000cd", 8, 8),
        (r"ab\ncd", 3, 2),
        (r"ab\ncd", 4, 4),
        (r"ab\\u0000", 4, 4),
        (r"ab\\u0000", 6, 6),
        (r"ab\\\u0000", 6, 4),
        (r"a\ud83d\ude00b", 7, 1),
        (r"a\ud83d\ude00b", 10, 1),
        (r"a\ud83d\ude00b", 13, 13),
        (r"a\ud83d\ud83db", 7, 7),
        (r"a\\ud83d\ude00b", 8, 8),
        (r"\u0000", 3, 0),
    ],
)
def test_a_cut_never_falls_inside_an_escape(text: str, position: int, cut: int) -> None:
    assert safe_cut(text, position) == cut


@given(ANY_TEXT, st.integers(1, 60))
def test_the_shown_part_of_a_cut_string_is_a_beginning_of_it(value: str, limit: int) -> None:
    text = encode_result(value).text
    view = view_of(text, limit, "call_1")
    if view == text:
        return
    shown = view.rpartition("\n[cut: ")[0]
    assert text.startswith(shown)
    assert len(shown) <= limit
    if shown:
        beginning = json.loads(shown + '"')
        assert as_utf16(value).startswith(beginning)  # type: ignore[attr-defined]
