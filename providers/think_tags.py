"""Reasoning that a server left in the text as a leading `<think>` block, split off live."""

import re
from typing import Final, Literal, TypeAlias

from providers.storable import TextPieces

Piece: TypeAlias = tuple[Literal["text", "reasoning"], str]

_NAMES: Final = ("think", "thinking", "thought")
_OPENING: Final = tuple(f"<{name}>" for name in _NAMES)
_UNOPENED: Final = re.compile(r"\A(.*?)(?:\A|\n)[ \t]*</think>[ \t]*(?:\n+|\Z)", re.DOTALL)


class ThinkSplitter:
    """Text pieces in, text and reasoning pieces out; a tag may be split over pieces.

    Only a block at the very start is reasoning: later tags are something the model talks about.
    White space behind a block belongs to nobody.
    """

    def __init__(self) -> None:
        self.reasoning = TextPieces()
        self.text = TextPieces()
        self._held = ""
        self._closing: str | None = None
        self._has_started = False
        self._had_block = False

    def feed(self, piece: str) -> list[Piece]:
        """What is certain after this piece."""
        if self._has_started:
            return self._emit("text", piece)
        self._held += piece
        return self._inside() if self._closing else self._at_start()

    def finish(self) -> list[Piece]:
        """What was held back, the text being over."""
        held, self._held = self._held, ""
        if self._closing:
            return self._emit("reasoning", held)
        self._has_started = True
        return self._emit("text", held.lstrip() if self._had_block else held)

    def _at_start(self) -> list[Piece]:
        bare = self._held.lstrip()
        tag = next((tag for tag in _OPENING if bare.startswith(tag)), None)
        if tag is not None:
            self._held = bare[len(tag) :]
            self._closing = f"</{tag[1:]}"
            self._had_block = True
            return self._inside()
        if any(tag.startswith(bare) for tag in _OPENING):
            return []
        return self.finish()

    def _inside(self) -> list[Piece]:
        assert self._closing is not None  # noqa: S101 - narrows the type for the checker
        before, found, after = self._held.partition(self._closing)
        if found:
            self._held, self._closing = after, None
            return self._emit("reasoning", before) + self._at_start()
        sure_chars = len(self._held) - _overlap(self._held, self._closing)
        sure, self._held = self._held[:sure_chars], self._held[sure_chars:]
        return self._emit("reasoning", sure)

    def _emit(self, kind: Literal["text", "reasoning"], piece: str) -> list[Piece]:
        if not piece:
            return []
        (self.text if kind == "text" else self.reasoning).add(piece)
        return [(kind, piece)]


def split_unopened(text: str) -> tuple[str, str]:
    """Reasoning and answer of a text whose opening tag stood in the prompt's template.

    Applies only where `</think>` ends a line of its own, outside code; else the reasoning is empty.
    """
    found = _UNOPENED.match(text)
    if found is None or found[1].count("```") % 2:
        return "", text
    return found[1].strip(), text[found.end() :].lstrip()


def _overlap(text: str, tag: str) -> int:
    """How many characters at the end of the text may be the beginning of the tag."""
    longest = min(len(text), len(tag) - 1)
    return next((size for size in range(longest, 0, -1) if text.endswith(tag[:size])), 0)
