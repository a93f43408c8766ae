"""Text as PostgreSQL can store it: joined first, then paired, then repaired.

A model's emoji may arrive as two halves of a surrogate pair in two deltas; only after joining can
anybody tell a pair from a lone half.
"""

import re
from typing import Final

REPLACEMENT: Final = "\ufffd"
_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_SUSPECT: Final = re.compile("[\ud800-\udfff\x00]")


def storable(text: str) -> tuple[str, bool]:
    """The text with surrogate pairs joined and lone halves and U+0000 replaced by U+FFFD.

    Returns:
        The text, and whether characters had to be replaced.
    """
    if not _SUSPECT.search(text):
        return text, False
    paired = _PAIR.sub(_join_pair, text)
    repaired = _SUSPECT.sub(REPLACEMENT, paired)
    return repaired, repaired != paired


def _join_pair(pair: re.Match[str]) -> str:
    return pair[0].encode("utf-16", "surrogatepass").decode("utf-16")


class TextPieces:
    """Text collected from many deltas; cheap to add to, joined once."""

    def __init__(self) -> None:
        self._pieces: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def add(self, piece: str) -> None:
        """Append one delta's piece."""
        if piece:
            self._pieces.append(piece)

    def joined(self) -> str:
        """All pieces in their order, not yet repaired."""
        return "".join(self._pieces)
