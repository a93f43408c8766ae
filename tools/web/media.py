"""What kind of text an answer is, and its characters."""

import codecs
import re
from dataclasses import dataclass
from typing import Final

from umbel.tool import ToolFailed

_CHARSET: Final = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_META_CHARSET: Final = re.compile(
    rb"<meta[^>]{0,500}?charset\s*=\s*[\"']?([A-Za-z0-9_.:-]{1,40})", re.I
)
_META_BYTES: Final = 4096
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Python knows codecs that are no charsets, some of them slow on purpose or able to unpack.
_CHARSETS: Final = re.compile(
    r"utf-?8|us-ascii|ascii|utf-?16(le|be)?|iso-?8859-\d{1,2}|latin-?1|windows-125\d|cp125\d"
    r"|koi8-[ru]|gb2312|gbk|gb18030|big5(-hkscs)?|euc-(jp|kr)|shift[_-]jis|iso-2022-jp|macintosh"
)
_TEXT_TYPES: Final = re.compile(
    r"text/.+|application/(json|xml|yaml|x-yaml|toml|javascript|x-javascript|x-ndjson|sql|xhtml\+xml"
    r"|.+\+(json|xml|yaml))"
)
_HTML_TYPES: Final = ("text/html", "application/xhtml+xml")
_HTML_START: Final = re.compile(
    rb"\s*(<!--.{0,2000}?-->\s*)?<(!doctype html|html|head|body)\b", re.I | re.S
)


@dataclass(frozen=True, slots=True)
class Media:
    """What an answer says it is."""

    type: str
    """Such as `text/html`; empty if it does not say."""
    charset: str | None

    @property
    def is_text(self) -> bool:
        """Whether it can be read; what does not say what it is may be."""
        return not self.type or _TEXT_TYPES.fullmatch(self.type) is not None

    def is_html(self, data: bytes) -> bool:
        """Whether its text stands between tags of HTML."""
        return self.type in _HTML_TYPES or (
            not self.type and _HTML_START.match(data, 0, _META_BYTES) is not None
        )


def media_of(content_type: str) -> Media:
    """The parts of a `Content-Type` header."""
    found = _CHARSET.search(content_type)
    return Media(content_type.partition(";")[0].strip().lower()[:100], found[1] if found else None)


def text_of(data: bytes, media: Media) -> str:
    """The characters of an answer; bytes that are none become U+FFFD.

    The beginning of the data says more about its charset than the header, and that more than a
    `meta` element.

    Raises:
        ToolFailed: it is no text.
    """
    text = data.decode(_codec_of(data, media), errors="replace")
    if "\0" in text:
        raise ToolFailed("The page is no text: it holds binary data.")
    return text


def _codec_of(data: bytes, media: Media) -> str:
    for mark, codec in _BOMS:
        if data.startswith(mark):
            return codec
    meta = _META_CHARSET.search(data, 0, _META_BYTES)
    named = media.charset or (meta[1].decode("ascii") if meta else None)
    if named is not None and _CHARSETS.fullmatch(named.lower()):
        return {"macintosh": "mac-roman", "gb2312": "gb18030"}.get(named.lower(), named.lower())
    return "utf-8"
