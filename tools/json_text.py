"""The JSON text in a stored result: the result itself, or the text that it is, part by part."""

import json
from collections.abc import Iterator
from typing import Final

from umbel.json_text import LONGEST_PAIR, safe_cut
from umbel.tool import EvidenceReader

PART_CHARS: Final = 256_000


def parts_of(reader: EvidenceReader, handle: str, offset: int = 0) -> Iterator[str]:
    """A stored result from `offset` on, in parts.

    Raises:
        NotFound: there is no such result.
        InvalidInput: the offset lies outside of it.
    """
    place: int | None = offset
    while place is not None:
        page = reader.read(handle, place, PART_CHARS)
        yield page.text
        place = page.next_offset


def document_of(parts: Iterator[str]) -> Iterator[str]:
    """What a result says: of a text its characters, of any other value its JSON."""
    first = next(parts, "")
    if not first.startswith('"'):
        yield first
        yield from parts
        return
    waiting = first[1:]
    for part in parts:
        end = safe_cut(waiting, max(0, len(waiting) - LONGEST_PAIR))
        yield _decoded(waiting[:end])
        waiting = waiting[end:] + part
    yield _decoded(waiting.removesuffix('"'))


def _decoded(inner: str) -> str:
    return str(json.loads(f'"{inner}"'))
