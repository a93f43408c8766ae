"""What an owner is shown cannot hide anything, and is exactly what is sent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from umbel.visible import marks, original, visible

TEXTS = st.text(st.characters(exclude_categories=()), max_size=60)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("pay 7", "pay 7"),
        ("tab\tand\nline", "tab\tand\nline"),
        ("a\u202eb", "a\u27e8U+202E RIGHT-TO-LEFT OVERRIDE\u27e9b"),
        ("a\u200bb", "a\u27e8U+200B ZERO WIDTH SPACE\u27e9b"),
        ("a\u00a0b", "a\u27e8U+00A0 NO-BREAK SPACE\u27e9b"),
        ("\x1b[2J", "\u27e8U+001B UNNAMED\u27e9[2J"),
        ("\r", "\u27e8U+000D UNNAMED\u27e9"),
        ("\U000e0041", "\u27e8U+E0041 TAG LATIN CAPITAL LETTER A\u27e9"),
        ("a\ufe0fb", "a\u27e8U+FE0F VARIATION SELECTOR-16\u27e9b"),
        ("x\u3164y", "x\u27e8U+3164 HANGUL FILLER\u27e9y"),
        ("p\u0430ypal", "p\u27e8U+0430 CYRILLIC SMALL LETTER A\u27e9ypal"),
        ("\u03bfk.com", "\u27e8U+03BF GREEK SMALL LETTER OMICRON\u27e9k.com"),
        (
            "\u043f\u0440\u0438\u0432\u0435\u0442 world",
            "\u043f\u0440\u0438\u0432\u0435\u0442 world",
        ),
        ("na\u00efve", "na\u00efve"),
        (
            "\u27e8U+0041 A\u27e9",
            "\u27e8U+27E8 MATHEMATICAL LEFT ANGLE BRACKET\u27e9U+0041 A\u27e9",
        ),
    ],
)
def test_what_hides_is_shown_by_its_name(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(TEXTS)
def test_what_is_shown_tells_exactly_what_the_text_is(text: str) -> None:
    assert original(visible(text)) == text


@given(TEXTS)
def test_nothing_of_what_is_shown_is_hidden_or_moves_the_cursor(text: str) -> None:
    shown = visible(text)
    assert all(char.isprintable() or char in "\n\t" for char in shown)
    assert bool(marks(text)) == (shown != text)


def test_each_kind_of_mark_is_named_once() -> None:
    assert marks("a\u200bb\u200bc\u202e") == (
        "U+200B ZERO WIDTH SPACE",
        "U+202E RIGHT-TO-LEFT OVERRIDE",
    )
