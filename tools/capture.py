"""From what a tool gives to what is kept: short text in its outcome, the rest written beside it."""

from collections.abc import Sequence
from typing import Protocol

from loop.outcome import Chunked, Returned
from loop.pictures import Picture
from tools.chunks import Chunk, ChunkedText
from tools.result import EncodedResult


class CaptureLost(Exception):
    """The call is not this worker's any more: somebody else says what came of it."""


class CaptureWriter(Protocol):
    """Writes what does not fit into the outcome of one call, before that outcome."""

    @property
    def capture_id(self) -> str:
        """Under which it is written: another one for every try of a call."""
        ...

    def write_chunk(self, chunk: Chunk) -> None:
        """Write the next part of the result's text.

        Raises:
            CaptureLost: the call is not this worker's any more.
        """
        ...

    def write_picture(self, number: int, picture: Picture) -> None:
        """Write a picture, counted from 1.

        Raises:
            CaptureLost: the call is not this worker's any more.
        """
        ...


class MemoryCapture:
    """A `CaptureWriter` for trials: keeps the text."""

    capture_id = "capture_trial"

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self.pictures: list[Picture] = []

    def write_chunk(self, chunk: Chunk) -> None:
        """Keep a part."""
        self.chunks.append(chunk)

    def write_picture(self, number: int, picture: Picture) -> None:  # noqa: ARG002 - in order
        """Keep a picture."""
        self.pictures.append(picture)


def keep_value(
    encoded: EncodedResult, pictures: Sequence[Picture], writer: CaptureWriter
) -> Returned:
    """The outcome of a tool that returned one value.

    Raises:
        CaptureLost: see `CaptureWriter`.
    """
    text = ChunkedText(writer.write_chunk)
    text.add(encoded.text)
    text.end()
    for number, picture in enumerate(pictures, 1):
        writer.write_picture(number, picture)
    return kept(text, writer, is_escaped=encoded.is_escaped, has_pictures=bool(pictures))


def kept(
    text: ChunkedText, writer: CaptureWriter, *, is_escaped: bool, has_pictures: bool = False
) -> Returned:
    """The outcome whose text has ended."""
    return Returned(
        text.beginning,
        is_escaped,
        writer.capture_id if text.is_chunked or has_pictures else None,
        Chunked(text.total_chars, text.sha256) if text.is_chunked else None,
    )
