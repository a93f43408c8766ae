"""Text shown so that nothing in it hides or passes for something else, and that it can be undone.

What cannot be seen, what turns the direction of writing, and what looks like a letter of another
script in the same word stands as `⟨U+202E RIGHT-TO-LEFT OVERRIDE⟩`. The bracket itself is written
so, too: two texts that differ never look the same.
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

_OPEN: Final = "\u27e8"
_CLOSE: Final = "\u27e9"
_MARK: Final = re.compile(f"{_OPEN}U\\+([0-9A-F]{{4,6}})[^{_CLOSE}]*{_CLOSE}")
_WORD: Final = re.compile(r"\w+")
_PLAIN_SCRIPTS: Final = frozenset({"LATIN", "DIGIT"})
_BLANK: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters and signs that leave their place empty."""
_VARIATIONS: Final = range(0xFE00, 0xFE10)


def visible(text: str) -> str:
    """The text with everything hidden or deceptive marked; line breaks and tabs stay."""
    mixed = frozenset(_mixed(text))
    return "".join(
        _marked(char) if at in mixed or _is_hidden(char) else char for at, char in enumerate(text)
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


def _is_hidden(char: str) -> bool:
    if char in "\n\t ":
        return False
    # Control, format, surrogate, private, unassigned; separators that are no plain space.
    is_odd = unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp")
    return is_odd or char == _OPEN or char in _BLANK or ord(char) in _VARIATIONS


def _mixed(text: str) -> Iterator[int]:
    """Places of letters in a word that has letters of several scripts; Latin is left alone."""
    for word in _WORD.finditer(text):
        scripts = {at: _script(char) for at, char in enumerate(word[0]) if char.isalpha()}
        if len(set(scripts.values())) > 1:
            yield from (word.start() + at for at, of in scripts.items() if of not in _PLAIN_SCRIPTS)


def _script(char: str) -> str:
    """`LATIN`, `CYRILLIC`, …: the first word of its name, near enough."""
    return "LATIN" if char.isascii() else _name(char).partition(" ")[0]


def _marked(char: str) -> str:
    return f"{_OPEN}U+{ord(char):04X} {_name(char)}{_CLOSE}"


def _name(char: str) -> str:
    return unicodedata.name(char, "UNNAMED")
