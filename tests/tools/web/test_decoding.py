import gzip
import tracemalloc
import zlib
from collections.abc import Iterator

import pytest

from tools.web.decoding import decoded
from umbel.tool import ToolFailed

TEXT = b"Umbel carries a request. " * 4000


def whole(body: bytes, encoding: str, limit: int = 10_000_000, size: int = 1000) -> bytes:
    pieces = (body[at : at + size] for at in range(0, len(body), size))
    return b"".join(decoded(pieces, encoding, limit))


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        (TEXT, ""),
        (TEXT, "identity"),
        (gzip.compress(TEXT), "gzip"),
        (gzip.compress(TEXT), " X-GZIP "),
        (gzip.compress(TEXT[:777]) + gzip.compress(TEXT[777:]), "gzip"),
        (zlib.compress(TEXT), "deflate"),
    ],
)
@pytest.mark.parametrize("size", [1, 1000, 10_000_000])
def test_a_body_is_what_it_was_before(body: bytes, encoding: str, size: int) -> None:
    assert whole(body, encoding, size=size) == TEXT


def test_a_bomb_is_stopped_at_the_limit_in_little_memory() -> None:
    deflate = zlib.compressobj(wbits=zlib.MAX_WBITS + 16)

    def ten_gigabytes() -> Iterator[bytes]:
        for _ in range(10_240):
            yield deflate.compress(b"\0" * 1024 * 1024)

    tracemalloc.start()
    with pytest.raises(ToolFailed, match="more than 2,000,000 bytes"):
        for _ in decoded(ten_gigabytes(), "gzip", 2_000_000):
            pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8_000_000


def test_one_piece_that_grows_a_thousandfold_is_handed_on_in_small_ones() -> None:
    body = gzip.compress(b"\0" * 60_000_000)
    sizes: list[int] = []
    with pytest.raises(ToolFailed, match="more than"):
        sizes.extend(len(piece) for piece in decoded([body], "gzip", 2_000_000))
    assert sizes
    assert max(sizes) <= 64 * 1024


def test_members_without_content_are_counted_as_what_is_sent() -> None:
    endless = iter(lambda: gzip.compress(b"") * 1000, None)
    with pytest.raises(ToolFailed, match="more than"):
        list(decoded(endless, "gzip", 1_000_000))


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "compress", "x" * 500])
def test_an_encoding_that_was_not_asked_for_is_not_opened(encoding: str) -> None:
    with pytest.raises(ToolFailed, match="not asked for"):
        whole(b"\x00" * 100, encoding)


@pytest.mark.parametrize(
    "body", [b"no gzip at all", gzip.compress(TEXT)[:-9], gzip.compress(TEXT)[:20] + b"x" * 50]
)
def test_broken_compression_is_an_error(body: bytes) -> None:
    with pytest.raises(ToolFailed, match="compression"):
        whole(body, "gzip")


def test_a_body_that_is_too_long_as_it_is_is_left() -> None:
    with pytest.raises(ToolFailed, match="more than 100 bytes"):
        whole(b"a" * 101, "", limit=100)
    assert whole(b"a" * 100, "", limit=100) == b"a" * 100
