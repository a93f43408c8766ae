"""Results that come as a stream of pieces: the text of a JSON string, written while it grows.

`str` pieces are text; `bytes` are UTF-8, and what is no UTF-8 in them becomes half surrogates, as
Python's `surrogateescape` does: nothing is lost, and the stored text says so by its escapes.
"""

import codecs
import json
from collections.abc import Callable, Iterator
from typing import Final, TypeGuard

from loop.outcome import Returned
from tools.capture import CaptureLost, CaptureWriter, kept
from tools.chunks import CHUNK_CHARS, ChunkedText
from tools.encoding import NotJson
from tools.failure import Failure, failure_of
from tools.result import storable

MAX_STREAM_CHARS: Final = 2**30
"""Characters of a streamed result that are kept."""
_UTF8: Final = codecs.getincrementaldecoder("utf-8")


def is_stream(value: object) -> TypeGuard[Iterator[object]]:
    """Whether a tool's result comes in pieces: a generator, an open file, any other iterator."""
    return isinstance(value, Iterator)


class StreamedResult:
    """A result that comes in pieces, and what has become of it."""

    def __init__(self, writer: CaptureWriter) -> None:
        self._writer = writer
        self._text = ChunkedText(writer.write_chunk)
        self._encoder = _PieceEncoder()
        self._problem: Failure | None = None
        self._add(iter('"'))

    def take(self, piece: object) -> bool:
        """Take the next piece; False: the result cannot be kept any more."""
        if self._problem is None:
            self._add(self._encoder.encode(piece))
        return self._problem is None

    def end(self) -> Returned | Failure:
        """The outcome, or why there is no result to keep."""
        if self._problem is None:
            self._add(self._encoder.end())
        if self._problem is None:
            self._attempt(self._text.end)
        return self._problem or kept(self._text, self._writer, is_escaped=self._encoder.is_escaped)

    def _add(self, parts: Iterator[str]) -> None:
        def add() -> None:
            for part in parts:
                self._text.add(part)

        self._attempt(add)

    def _attempt(self, write: Callable[[], None]) -> None:
        try:
            write()
        except (NotJson, CaptureLost) as error:
            self._problem = failure_of(error)


class _PieceEncoder:
    """Pieces of a text as parts of one JSON string; the parts follow each other without a gap."""

    def __init__(self) -> None:
        self._decoder = _UTF8("surrogateescape")
        self._chars = 0
        self.is_escaped = False
        """U+0000, half surrogate pairs or bytes that are no UTF-8 were in it."""

    def encode(self, piece: object) -> Iterator[str]:
        """The parts of the next piece, each of about a chunk at most.

        Raises:
            NotJson: it is neither text nor bytes, or the stream has become too long.
        """
        match piece:
            case str():
                yield from self._parts(self._decoder.decode(b"", final=True))
                yield from self._parts(piece)
            case bytes() | bytearray():
                data = memoryview(piece)
                for start in range(0, len(data), CHUNK_CHARS):
                    yield from self._parts(self._decoder.decode(data[start : start + CHUNK_CHARS]))
            case _:
                raise NotJson(
                    f"a piece of the streamed result is of type {type(piece).__name__}: "
                    "yield str or bytes"
                )

    def end(self) -> Iterator[str]:
        """What stands behind the last part."""
        yield from self._parts(self._decoder.decode(b"", final=True))
        yield '"'

    def _parts(self, text: str) -> Iterator[str]:
        for start in range(0, len(text), CHUNK_CHARS):
            part = text[start : start + CHUNK_CHARS]
            self._chars += len(part)
            if self._chars > MAX_STREAM_CHARS:
                raise NotJson(f"the streamed result has more than {MAX_STREAM_CHARS} characters")
            raw = json.dumps(part, ensure_ascii=False)[1:-1]
            encoded = storable(raw)
            self.is_escaped |= encoded != raw or "\0" in part
            yield encoded
