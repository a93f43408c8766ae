"""Reading a page of the web."""

import hashlib
import time
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from pydantic import Field

from tools.web.html import MAX_BYTES as MAX_HTML_BYTES
from tools.web.html import Readable, readable
from tools.web.media import Media, media_of, text_of
from umbel.source_name import MAX_NAME_CHARS, MAX_REVISION_CHARS
from umbel.tool import ToolContext, ToolFailed, tool
from umbel.web import WebAnswer

MAX_TEXT_BYTES: Final = 8 * 1024 * 1024
_ACCEPT: Final = "text/html, application/json;q=0.9, text/*;q=0.8, */*;q=0.1"
_STALL_SECONDS: Final = 60.0
"""More than a server may be silent; the rest of a read is computing."""


@tool(effect="read", placement="task", stall_seconds=_STALL_SECONDS)
def web_read(
    context: ToolContext,
    url: Annotated[str, Field(min_length=1, max_length=4096)],
    whole: bool = False,  # noqa: FBT001, FBT002 -- the model gives arguments by name
) -> dict[str, Any]:
    """Read one page of the public web: its title and main text in Markdown, or a plain text file.

    Args:
        context: The run's side of things; the model does not see it.
        url: Absolute http or https URL.
        whole: All text of an HTML page, with menus and lists of links, not only the main part.
    """
    with context.web.open(url, accept=_ACCEPT) as answer:
        media = media_of(answer.headers.get("content-type", ""))
        data = _body_of(answer, media)
        page = _page_of(data, media, answer.url, is_whole=whole)
        _name_source(context, answer, page.text)
        return {
            "title": page.title,
            "url": answer.url,
            "requested_url": url,
            "media_type": media.type or None,
            # No more than the day: a page that is read again unchanged is the same result. The
            # record knows the moment.
            "captured_on": datetime.fromtimestamp(time.time(), UTC).date(),
            "text": page.text,
        }


def _body_of(answer: WebAnswer, media: Media) -> bytes:
    """The whole body.

    Raises:
        ToolFailed: it is no text by its own word, or too large.
    """
    if not media.is_text:
        raise ToolFailed(
            f"{answer.url[:300]} is {media.type!r}; only pages and files of text are read."
        )
    limit = MAX_HTML_BYTES if "html" in media.type else MAX_TEXT_BYTES
    return b"".join(answer.pieces(limit))


def _page_of(data: bytes, media: Media, url: str, *, is_whole: bool) -> Readable:
    text = text_of(data, media)
    if not media.is_html(data):
        return Readable(None, text)
    if len(data) > MAX_HTML_BYTES:
        raise ToolFailed(f"The page has more than {MAX_HTML_BYTES:,} bytes of HTML.")
    return readable(text, url, is_whole=is_whole)


def _name_source(context: ToolContext, answer: WebAnswer, text: str) -> None:
    """Let the result rest on the page, in the revision that its server names, or else as it is."""
    named = answer.headers.get("etag") or answer.headers.get("last-modified") or ""
    is_usable = 0 < len(named) <= MAX_REVISION_CHARS and named.isprintable()
    revision = named if is_usable else hashlib.sha256(text.encode()).hexdigest()
    if len(answer.url) + len("page:") <= MAX_NAME_CHARS:  # nobody tells of one with a longer name
        context.source("page", answer.url, revision)
