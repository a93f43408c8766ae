import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.chunks import Chunk, ChunkedText
from umbel.json_text import after_line_end, count_line_ends

# Everything that may be torn: escapes of every kind, pairs of them, runs of backslashes.
PIECES = st.text(st.sampled_from('a\\"\n\t\x00é😀\ud83d\ude00'), max_size=40)


def encoded(text: str) -> str:
    raw = json.dumps(text, ensure_ascii=False)
    return "".join(f"\\u{ord(c):04x}" if "\ud800" <= c <= "\udfff" else c for c in raw)


def chunked(monkeypatch: pytest.MonkeyPatch, text: str, parts: int, size: int) -> list[Chunk]:
    monkeypatch.setattr("tools.chunks.CHUNK_CHARS", size)
    chunks: list[Chunk] = []
    result = ChunkedText(chunks.append)
    step = max(1, len(text) // parts)
    for start in range(0, len(text), step):
        result.add(text[start : start + step])
    result.end()
    assert result.total_chars == len(text)
    assert result.is_chunked == bool(chunks)
    if chunks:
        assert result.beginning == chunks[0].body
        assert result.sha256 == hashlib.sha256(text.encode()).hexdigest()
    else:
        assert result.beginning == text
    return chunks


@given(st.lists(PIECES, max_size=12).map("".join), st.integers(1, 9), st.integers(13, 60))
def test_chunks_are_the_text_and_tear_no_escape(text: str, parts: int, size: int) -> None:
    whole = encoded(text)
    with pytest.MonkeyPatch.context() as patched:
        chunks = chunked(patched, whole, parts, size)
    if not chunks:
        assert len(whole) <= size + 12
        return
    assert "".join(chunk.body for chunk in chunks) == whole
    place = lines = 0
    for chunk in chunks:
        assert (chunk.start_char, chunk.start_line) == (place, lines)
        assert 0 < len(chunk.body) <= size + 12
        body = chunk.body
        alone = body if chunk is chunks[0] else f'"{body}'
        json.loads(alone if chunk is chunks[-1] else f'{alone}"')
        place, lines = place + len(body), lines + count_line_ends(body)
    assert lines == text.count("\n")


def test_a_pair_of_escapes_is_in_one_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    for before in range(14):
        whole = encoded("a" * before + "\ud83d\ude00" + "b" * 30)
        for chunk in chunked(monkeypatch, whole, 3, 13):
            assert ("\\ud83d" in chunk.body) == ("\\ude00" in chunk.body)


def test_a_short_text_is_not_chunked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chunked(monkeypatch, '"short"', 1, 20) == []


@given(PIECES)
def test_lines_are_found_behind_their_ends(text: str) -> None:
    whole = encoded(text)
    ends = text.count("\n")
    assert count_line_ends(whole) == ends
    for number in range(1, ends + 1):
        place = after_line_end(whole, number)
        assert place is not None
        assert json.loads(f'{whole[:place]}"').count("\n") == number
        assert whole[:place].endswith("\\n")
    assert after_line_end(whole, ends + 1) is None
