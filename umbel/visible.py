"""Text shown so that nothing in it hides or passes for something else, and that it can be undone.

What cannot be seen, what turns the direction of writing, what looks like a letter of another script
in the same word or name, and letters in an unusual composition stand as
`⟨U+202E RIGHT-TO-LEFT OVERRIDE⟩`. The bracket itself is written so, too: nothing passes for a mark.
What no mark can show: letters of one script that look alike (`l`, `I`), and a whole text in letters
of another one.
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

_OPEN: Final = "\u27e8"
_CLOSE: Final = "\u27e9"
_MARK: Final = re.compile(f"{_OPEN}U\\+([0-9A-F]{{4,6}})[^{_CLOSE}]*{_CLOSE}")
# Of JSON text `\n` is no letter of the word behind it.
_WORD: Final = re.compile(r"\\[\\bfnrt]|\w+")
_NAME: Final = re.compile(r"\w+(?:[.@:/+\-\\]+\w+)+")
_PLAIN_SCRIPTS: Final = frozenset({"LATIN", "DIGIT"})
_LIKE_LATIN: Final = frozenset(
    "АВЕЅІЈКМНОРСТУХҮԌԚԜаекорсухѕіјһӏүԁԛԝ"  # Cyrillic
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹϳϲαγηικνορυωχ"  # Greek
)
"""Letters that pass for Latin ones."""
_SCRIPTS_LIKE_LATIN: Final = frozenset(
    {
        *("ARMENIAN", "CANADIAN", "CARIAN", "CHEROKEE", "COPTIC", "DESERET", "ELBASAN"),
        *("FULLWIDTH", "GOTHIC", "LISU", "LYCIAN", "LYDIAN", "MATHEMATICAL", "OLD", "OSAGE"),
        *("TIFINAGH", "VAI", "WARANG"),
    }
)
"""Scripts and styles with many of them; words of these are rare enough to mark them whole."""
_BRAILLE_BLANK: Final = "\u2800"
"""A sign that leaves its place empty, and no rule of Unicode's says so."""
_IGNORABLE: Final = (
    (0x00AD, 0x00AD),
    (0x034F, 0x034F),
    (0x061C, 0x061C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFF8),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
)
"""`Default_Ignorable_Code_Point` of Unicode 17, which Python does not know: shown as nothing."""


def visible(text: str) -> str:
    """The text with everything hidden or deceptive marked; line breaks and tabs stay."""
    deceptive = frozenset(_deceptive(text))
    return "".join(
        _marked(char) if at in deceptive or _is_hidden(char) else char
        for at, char in enumerate(text)
    )


def marks(text: str) -> tuple[str, ...]:
    """What `visible` marks, each kind once, in the order of the text."""
    found = (
        f"U+{match[1]} {_name(chr(int(match[1], 16)))}" for match in _MARK.finditer(visible(text))
    )
    return tuple(dict.fromkeys(found))


def original(shown: str) -> str:
    """The text that `visible` was given."""
    return _MARK.sub(lambda match: chr(int(match[1], 16)), shown)


def is_ignorable(char: str) -> bool:
    """Whether a character is shown as nothing at all, whatever it means."""
    return any(first <= ord(char) <= last for first, last in _IGNORABLE)


def _is_hidden(char: str) -> bool:
    if char in "\n\t ":
        return False
    # Control, format, surrogate, private, unassigned; separators that are no plain space.
    is_odd = unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp")
    return is_odd or char in (_OPEN, _BRAILLE_BLANK) or is_ignorable(char)


def _deceptive(text: str) -> Iterator[int]:
    """Places of what is seen and looks like something else."""
    if not text.isascii():
        yield from _mixed(text)
        yield from _posing(text)
        yield from _decomposed(text)


def _mixed(text: str) -> Iterator[int]:
    """Places of letters in a word that has letters of several scripts; Latin is left alone."""
    for word in _WORD.finditer(text):
        scripts = _scripts(word)
        if len(set(scripts.values())) > 1:
            yield from (at for at, of in scripts.items() if of not in _PLAIN_SCRIPTS)


def _posing(text: str) -> Iterator[int]:
    """Places of whole parts of a name that pass for Latin beside real Latin, as before `.com`."""
    for name in _NAME.finditer(text):
        parts = [_scripts(part, name.start()) for part in _WORD.finditer(name[0])]
        if any("LATIN" in part.values() for part in parts):
            for part in parts:
                if part and all(_passes(text[at], of) for at, of in part.items()):
                    yield from part


def _passes(char: str, script: str) -> bool:
    return char in _LIKE_LATIN or script in _SCRIPTS_LIKE_LATIN


def _decomposed(text: str) -> Iterator[int]:
    """Places of characters that Unicode writes otherwise, and that look as if it had been done."""
    start = 0
    for end in range(1, len(text) + 1):
        if end < len(text) and _joins(text[end]):
            continue
        if _is_unusual(text[start:end]):
            yield from (at for at in range(start, end) if at > start or _is_unusual(text[at]))
        start = end


def _is_unusual(cluster: str) -> bool:
    return not unicodedata.is_normalized("NFC", cluster)


def _joins(char: str) -> bool:
    """Whether it is drawn upon the character before it: accents, vowel signs, parts of Hangul."""
    return unicodedata.category(char).startswith("M") or "\u1160" <= char <= "\u11ff"


def _scripts(word: re.Match[str], offset: int = 0) -> dict[int, str]:
    """Place of each letter, and its script."""
    if word[0].startswith("\\"):
        return {}
    start = offset + word.start()
    return {start + at: _script(char) for at, char in enumerate(word[0]) if char.isalpha()}


def _script(char: str) -> str:
    """`LATIN`, `CYRILLIC`, …: the first word of its name, near enough."""
    return "LATIN" if char.isascii() else _name(char).partition(" ")[0]


def _marked(char: str) -> str:
    return f"{_OPEN}U+{ord(char):04X} {_name(char)}{_CLOSE}"


def _name(char: str) -> str:
    return unicodedata.name(char, "UNNAMED")
