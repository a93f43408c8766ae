"""Reading on in a result that the prompt shows only in part."""

import json
from typing import Annotated, Any, Final

from pydantic import Field

from umbel.tool import EvidencePage, EvidenceReader, ToolContext, tool

MAX_CHARS: Final = 32_000
_SCAN_CHARS: Final = 256_000


@tool(effect="read", placement="inline", repeatable=True)
def evidence_read(
    context: ToolContext,
    handle: Annotated[str, Field(min_length=1, max_length=200)],
    offset: Annotated[int, Field(ge=0)] = 0,
    limit: Annotated[int, Field(ge=1, le=MAX_CHARS)] = 8000,
    find: Annotated[str, Field(min_length=1, max_length=500)] | None = None,
) -> dict[str, Any]:
    """Read a page of an earlier result that was shown cut; next_offset is null at its end.

    Args:
        context: The run's side of things; the model does not see it.
        handle: The handle that the notice of the cut names.
        offset: First character to read, from 0.
        limit: How many characters to read at most.
        find: Start the page at the next place, from offset on, where this literal text stands.
    """
    reader = context.evidence
    if find is None:
        return _page(handle, reader.read(handle, offset, limit))
    found = _find(reader, handle, offset, find)
    if found is None:
        total_chars = reader.read(handle, offset, 1).total_chars
        return {
            "handle": handle,
            "offset": offset,
            "next_offset": None,
            "total_chars": total_chars,
            "text": "",
            "found": False,
        }
    return {**_page(handle, reader.read(handle, found, limit)), "found": True}


def _page(handle: str, page: EvidencePage) -> dict[str, Any]:
    return {
        "handle": handle,
        "offset": page.offset,
        "next_offset": page.next_offset,
        "total_chars": page.total_chars,
        "text": page.text,
    }


def _find(reader: EvidenceReader, handle: str, offset: int, wanted: str) -> int | None:
    """The offset of the next hit; results are stored as JSON, so its escaped form counts, too."""
    forms = {wanted, json.dumps(wanted, ensure_ascii=False)[1:-1]}
    kept = max(len(form) for form in forms) - 1
    carried, base, position = "", offset, offset
    while True:
        page = reader.read(handle, position, _SCAN_CHARS)
        text = carried + page.text
        hits = [at for form in forms if (at := text.find(form)) >= 0]
        if hits:
            return base + min(hits)
        if page.next_offset is None or page.next_offset <= position:
            return None
        carried = text[-kept:] if kept else ""
        base = page.next_offset - len(carried)
        position = page.next_offset
