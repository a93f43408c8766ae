"""Reading on in a result that the prompt shows only in part: a page, whatever its length."""

import json
from typing import Annotated, Any, Final

from pydantic import Field

from tools.json_path import parse_path, selects_one
from tools.json_scan import Taker, find_values
from tools.json_text import document_of, parts_of
from umbel.errors import InvalidInput
from umbel.tool import EvidencePage, EvidenceReader, ToolContext, tool

MAX_CHARS: Final = 32_000
MAX_LINES: Final = 10_000


@tool(effect="read", placement="inline", repeatable=True, version="2")
def evidence_read(  # noqa: PLR0913 - the ways to name a place in a result
    context: ToolContext,
    handle: Annotated[str, Field(min_length=1, max_length=200)],
    offset: Annotated[int, Field(ge=0)] = 0,
    limit: Annotated[int, Field(ge=1, le=MAX_CHARS)] = 8000,
    find: Annotated[str, Field(min_length=1, max_length=500)] | None = None,
    line: Annotated[int, Field(ge=1)] | None = None,
    lines: Annotated[int, Field(ge=1, le=MAX_LINES)] = 100,
    path: Annotated[str, Field(min_length=1, max_length=1000)] | None = None,
) -> dict[str, Any]:
    r"""Read a page of an earlier result that was shown cut; next_offset is null at its end.

    Results are JSON: in a text result a line ends with the two characters \n. Give at most one of
    find, line and path.

    Args:
        context: The run's side of things; the model does not see it.
        handle: The handle that the notice of the cut names.
        offset: First character to read, from 0; with path a character of the value it leads to.
        limit: How many characters to read at most.
        find: Start the page at the next place, from offset on, where this literal text stands.
        line: Start the page at this line, counted from 1.
        lines: With line: how many lines to read at most.
        path: Read the value at this JSONPath, such as $.rows[0].name; of several an array. Allowed
            are names, indexes from 0, slices and *; a text result is read as the JSON that it is.
    """
    if sum(way is not None for way in (find, line, path)) > 1:
        raise InvalidInput("find, line and path name different places: give one of them.")
    reader = _Alive(context)
    if find is not None:
        return _found(reader, handle, offset, limit, find)
    if line is not None:
        return _lines(reader, handle, line, lines, limit)
    if path is not None:
        return _value(reader, handle, path, offset, limit)
    return _page(handle, reader.read(handle, offset, limit))


class _Alive:
    """The results of a thread; every page that is read says that the tool is alive."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context

    def read(self, handle: str, offset: int, limit: int) -> EvidencePage:
        self._context.progress()
        return self._context.evidence.read(handle, offset, limit)

    def find_line(self, handle: str, line: int) -> int | None:
        return self._context.evidence.find_line(handle, line)


def _page(handle: str, page: EvidencePage) -> dict[str, Any]:
    return {
        "handle": handle,
        "offset": page.offset,
        "next_offset": page.next_offset,
        "total_chars": page.total_chars,
        "sha256": page.sha256,
        "captured_at": page.captured_at,
        "text": page.text,
    }


def _nothing(reader: EvidenceReader, handle: str, offset: int) -> dict[str, Any]:
    """The page of a place that is not there."""
    page = _page(handle, reader.read(handle, 0, 1))
    return {**page, "offset": offset, "next_offset": None, "text": "", "found": False}


def _found(
    reader: EvidenceReader, handle: str, offset: int, limit: int, wanted: str
) -> dict[str, Any]:
    place = _find(reader, handle, offset, wanted)
    if place is None:
        return _nothing(reader, handle, offset)
    return {**_page(handle, reader.read(handle, place, limit)), "found": True}


def _lines(
    reader: EvidenceReader, handle: str, line: int, lines: int, limit: int
) -> dict[str, Any]:
    """Whole lines, unless they are longer than a page: then next_offset goes on inside."""
    start = reader.find_line(handle, line)
    if start is None:
        return {**_nothing(reader, handle, 0), "line": line, "next_line": None}
    end = reader.find_line(handle, line + lines)
    chars = limit if end is None else min(limit, end - start)
    page = _page(handle, reader.read(handle, start, max(chars, 1)))
    is_whole = start + len(page["text"]) == end
    return {**page, "found": True, "line": line, "next_line": line + lines if is_whole else None}


class _Window(Taker):
    """The part of the found text that is asked for, and how long the text is."""

    def __init__(self, offset: int, limit: int, *, is_one: bool) -> None:
        self._offset = offset
        self._end = offset + limit
        self._is_one = is_one
        self._pieces: list[str] = []
        self.matches = 0
        self.total_chars = 0

    def begin(self) -> None:
        """Another value begins."""
        if not self._is_one:
            self.piece("," if self.matches else "[")
        self.matches += 1

    def piece(self, text: str) -> None:
        """The next piece of it."""
        start = self.total_chars
        self.total_chars += len(text)
        if start < self._end and self.total_chars > self._offset:
            self._pieces.append(text[max(0, self._offset - start) : self._end - start])

    def end(self) -> None:
        """All has been found."""
        if not self._is_one and self.matches:
            self.piece("]")

    @property
    def text(self) -> str:
        """What is asked for."""
        return "".join(self._pieces)


def _value(
    reader: EvidenceReader, handle: str, path: str, offset: int, limit: int
) -> dict[str, Any]:
    """A page of the JSON text of the value at a path, or of the array of the values."""
    steps = parse_path(path)
    window = _Window(offset, limit, is_one=selects_one(steps))
    find_values(document_of(parts_of(reader, handle)), steps, window)
    window.end()
    if not window.matches:
        return {**_nothing(reader, handle, offset), "path": path, "matches": 0}
    if offset > window.total_chars:
        raise InvalidInput(
            f"offset {offset} lies behind the end; the value has {window.total_chars} characters."
        )
    end = offset + len(window.text)
    return {
        **_page(handle, reader.read(handle, 0, 1)),
        "path": path,
        "matches": window.matches,
        "offset": offset,
        "next_offset": end if end < window.total_chars else None,
        "total_chars": window.total_chars,
        "text": window.text,
        "found": True,
    }


def _find(reader: EvidenceReader, handle: str, offset: int, wanted: str) -> int | None:
    """The offset of the next hit; results are stored as JSON, so its escaped form counts, too."""
    forms = {wanted, json.dumps(wanted, ensure_ascii=False)[1:-1]}
    kept = max(len(form) for form in forms) - 1
    carried, base = "", offset
    for part in parts_of(reader, handle, offset):
        text = carried + part
        hits = [at for form in forms if (at := text.find(form)) >= 0]
        if hits:
            return base + min(hits)
        carried = text[-kept:] if kept else ""
        base += len(text) - len(carried)
    return None
