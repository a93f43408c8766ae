"""An answer's body as it was before compression, never more of it than is wanted."""

import zlib
from collections.abc import Iterable, Iterator
from typing import Final

from umbel.tool import ToolFailed

ACCEPTED: Final = "gzip"
"""What servers are asked for. The standard library can stop in the middle of it."""
_GZIP_OR_ZLIB: Final = 32 + zlib.MAX_WBITS
_PIECE_BYTES: Final = 64 * 1024


def decoded(pieces: Iterable[bytes], encoding: str, limit_bytes: int) -> Iterator[bytes]:
    """The body in pieces of at most 64 KiB.

    Args:
        pieces: the body as it was sent.
        encoding: the `Content-Encoding` header; empty if there is none.
        limit_bytes: of the body before compression, and of what is sent.

    Raises:
        ToolFailed: there is more than that, it is broken, or in an encoding not asked for.
    """
    match encoding.strip().lower():
        case "" | "identity":
            plain = _limited(pieces, limit_bytes)
        case "gzip" | "x-gzip" | "deflate":
            plain = _limited(_inflated(_limited(pieces, limit_bytes)), limit_bytes)
        case other:
            raise ToolFailed(
                f"The answer is compressed as {other[:50]!r}, which was not asked for and is not "
                "opened."
            )
    return plain


def _limited(pieces: Iterable[bytes], limit_bytes: int) -> Iterator[bytes]:
    left = limit_bytes
    for piece in pieces:
        left -= len(piece)
        if left < 0:
            raise ToolFailed(
                f"The page has more than {limit_bytes:,} bytes, which is more than is read. Ask "
                "for a smaller part of it, if the site has one."
            )
        yield piece


def _inflated(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """What comes out of gzip or zlib, a bounded piece at a time; several members are one body."""
    inflate, is_begun = zlib.decompressobj(_GZIP_OR_ZLIB), False
    for piece in pieces:
        waiting = piece
        while waiting:
            is_begun = True
            try:
                plain = inflate.decompress(waiting, _PIECE_BYTES)
            except zlib.error as error:
                raise ToolFailed("The answer's compression is broken.") from error
            if plain:
                yield plain
            waiting = inflate.unconsumed_tail
            if inflate.eof:
                waiting = inflate.unused_data
                inflate, is_begun = zlib.decompressobj(_GZIP_OR_ZLIB), False
    if is_begun:
        raise ToolFailed("The answer ended in the middle of its compression.")
