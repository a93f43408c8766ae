"""What an owner is shown cannot hide anything, and is exactly what is sent."""

import unicodedata
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from umbel.visible import marks, original, visible

# Default_Ignorable_Code_Point of Unicode 17, as DerivedCoreProperties.txt lists it.
IGNORABLE = tuple(
    chr(point)
    for point in chain(
        (0xAD, 0x34F, 0x61C, 0x3164, 0xFEFF, 0xFFA0),
        range(0x115F, 0x1161),
        range(0x17B4, 0x17B6),
        range(0x180B, 0x1810),
        range(0x200B, 0x2010),
        range(0x202A, 0x202F),
        range(0x2060, 0x2070),
        range(0xFE00, 0xFE10),
        range(0xFFF0, 0xFFF9),
        range(0x1BCA0, 0x1BCA4),
        range(0x1D173, 0x1D17B),
        range(0xE0000, 0xE1000),
    )
)
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
        # A whole part in Cyrillic that passes for Latin before a Latin end; one that does not.
        (
            "\u0430\u0430.com",
            "\u27e8U+0430 CYRILLIC SMALL LETTER A\u27e9" * 2 + ".com",
        ),
        ("\u043e\u0442\u0447\u0451\u0442.pdf", "\u043e\u0442\u0447\u0451\u0442.pdf"),
        ("\u043e\u0441\u0430 sat", "\u043e\u0441\u0430 sat"),
        # A letter and its accent apart, one of two signs for the same, parts of a Korean syllable.
        ("caf\u00e9", "caf\u00e9"),
        ("cafe\u0301", "cafe\u27e8U+0301 COMBINING ACUTE ACCENT\u27e9"),
        ("\u212b", "\u27e8U+212B ANGSTROM SIGN\u27e9"),
        ("\u1100\u1161", "\u1100\u27e8U+1161 HANGUL JUNGSEONG A\u27e9"),
        # In JSON text the n of a line break is no letter of the word behind it.
        ('{"a":"\\n\u0434\u0430"}', '{"a":"\\n\u0434\u0430"}'),
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


def test_nothing_that_is_shown_as_nothing_stays_unmarked() -> None:
    assert [hex(ord(char)) for char in IGNORABLE if f"U+{ord(char):04X}" not in visible(char)] == []


@given(TEXTS, st.sampled_from(IGNORABLE), st.integers(0, 60))
def test_one_more_character_that_is_shown_as_nothing_is_seen(
    text: str, char: str, place: int
) -> None:
    changed = text[:place] + char + text[place:]
    assert visible(changed).count(f"\u27e8U+{ord(char):04X} ") == text.count(char) + 1


@given(TEXTS)
def test_two_spellings_of_the_same_letters_never_look_the_same(text: str) -> None:
    apart = unicodedata.normalize("NFD", text)
    one, other = visible(text), visible(apart)
    assert text == apart or unicodedata.normalize("NFC", one) != unicodedata.normalize("NFC", other)


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
