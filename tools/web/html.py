"""An HTML page as Markdown, by html-to-markdown: what is hidden in a page is left out."""

import re
from dataclasses import dataclass
from html import unescape
from typing import Final

from umbel.tool import ToolFailed

MAX_BYTES: Final = 4 * 1024 * 1024
"""Of HTML, which has to be in memory as a whole to be understood."""
_TITLE: Final = re.compile(r"<title\b[^>]{0,200}>([^<]{0,2000})", re.IGNORECASE)
_TITLE_WITHIN: Final = 64 * 1024
_TITLE_CHARS: Final = 300


@dataclass(frozen=True, slots=True)
class Readable:
    """A page as it is handed out."""

    title: str | None
    text: str


def readable(html: str, url: str, *, is_whole: bool) -> Readable:
    """Title and text of a page, in Markdown with complete links.

    Args:
        html: the page.
        url: where it came from.
        is_whole: with menus, margins and forms; without them if they are not all there is.

    Raises:
        ToolFailed: the library is not installed, or there is no text in the page.
    """
    title = _TITLE.search(html, 0, _TITLE_WITHIN)
    text = "" if is_whole else _markdown(html, url, is_whole=False)
    text = text or _markdown(html, url, is_whole=True)
    if not text:
        raise ToolFailed(
            "The page holds no text; it may be made by a script when a browser opens it."
        )
    return Readable(" ".join(unescape(title[1]).split())[:_TITLE_CHARS] if title else None, text)


def _markdown(html: str, url: str, *, is_whole: bool) -> str:
    try:
        from html_to_markdown import ConversionOptions, PreprocessingOptions, convert
    except ImportError as error:
        raise ToolFailed(
            "HTML cannot be read on this worker; its operator has to install umbel[web]."
        ) from error
    cleaning = PreprocessingOptions(enabled=not is_whole, preset="aggressive")
    options = ConversionOptions(
        extract_metadata=False,  # it would stand before the text
        base_url=url,
        inline_data_media="alt_text_only",
        exclude_selectors=["svg"],
        compact_tables=True,
        preprocessing=cleaning,
    )
    return (convert(html, options).content or "").strip()
