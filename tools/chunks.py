"""Encoded results in parts: short ones stay whole, long ones go out in chunks as they come."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from umbel.json_text import LONGEST_PAIR, count_line_ends, safe_cut

CHUNK_CHARS: Final = 262_144
"""Characters of a result that are written, read and held in memory at once."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a long result. It never ends inside an escape."""

    start_char: int
    start_line: int
    """Line ends before it: escapes `\\n` of its JSON text."""
    body: str


class ChunkedText:
    """Takes the text of a result piece by piece; holds about a chunk of it in memory."""

    def __init__(self, write: Callable[[Chunk], None]) -> None:
        self._write = write
        self._waiting: list[str] = []
        self._waiting_chars = 0
        self._sha = hashlib.sha256()
        self._lines = 0
        self.total_chars = 0
        """Characters taken so far."""
        self.beginning = ""
        """The whole text once it has ended, or the first chunk of it."""
        self.is_chunked = False
        """Whether chunks were written."""

    def add(self, text: str) -> None:
        """Take the next part of the result."""
        self._waiting.append(text)
        self._waiting_chars += len(text)
        self.total_chars += len(text)
        if self._waiting_chars > CHUNK_CHARS + LONGEST_PAIR:
            self._write_full()

    def end(self) -> None:
        """Write what is left, unless it is all and short."""
        rest = "".join(self._waiting)
        if self.is_chunked:
            self._write_chunk(rest, self.total_chars - len(rest))
        else:
            self.beginning = rest

    @property
    def sha256(self) -> str:
        """Of the UTF-8 bytes of all chunks, in hex."""
        return self._sha.hexdigest()

    def _write_full(self) -> None:
        """Write whole chunks; at the end of what waits a pair of escapes may be incomplete."""
        text = "".join(self._waiting)
        base, at = self.total_chars - len(text), 0
        while len(text) - at > CHUNK_CHARS + LONGEST_PAIR:
            end = safe_cut(text, at + CHUNK_CHARS)
            self._write_chunk(text[at:end], base + at)
            at = end
        self._waiting = [text[at:]]
        self._waiting_chars = len(text) - at

    def _write_chunk(self, body: str, start_char: int) -> None:
        if not self.is_chunked:
            self.is_chunked, self.beginning = True, body
        self._sha.update(body.encode())
        self._write(Chunk(start_char, self._lines, body))
        self._lines += count_line_ends(body)
