import pytest

from tools.web.media import media_of, text_of
from umbel.tool import ToolFailed


@pytest.mark.parametrize(
    ("data", "content_type", "text"),
    [
        ("grün".encode(), "text/plain; charset=utf-8", "grün"),
        ("grün".encode(), "text/plain", "grün"),
        ("grün".encode("latin-1"), 'text/plain; Charset="ISO-8859-1"', "grün"),
        ("grün".encode("cp1252"), "text/html;charset=windows-1252", "grün"),
        ("日本".encode("shift_jis"), "text/plain; charset=Shift_JIS", "日本"),
        ("中文".encode("gb18030"), "text/plain; charset=gb2312", "中文"),
        ("grün".encode("utf-16"), "text/plain; charset=iso-8859-1", "grün"),
        (b"\xef\xbb\xbfx", "text/plain", "x"),
        (b"<meta charset='iso-8859-1'>gr\xfcn", "text/html", "<meta charset='iso-8859-1'>grün"),
        (b"gr\xfcn", "text/plain", "gr\ufffdn"),
    ],
)
def test_characters_are_what_the_page_says_they_are(
    data: bytes, content_type: str, text: str
) -> None:
    assert text_of(data, media_of(content_type)) == text


@pytest.mark.parametrize(
    "charset",
    ["zlib", "bz2", "hex", "rot13", "unicode_escape", "punycode", "idna", "utf-7", "x" * 99],
)
def test_what_python_can_decode_but_no_page_is_written_in_is_not_used(charset: str) -> None:
    assert text_of(b"plain \\x41", media_of(f"text/plain; charset={charset}")) == "plain \\x41"


@pytest.mark.parametrize(
    ("content_type", "is_text"),
    [
        ("text/html; charset=utf-8", True),
        ("TEXT/Markdown", True),
        ("application/json", True),
        ("application/problem+json", True),
        ("application/atom+xml", True),
        ("", True),
        ("application/pdf", False),
        ("image/png", False),
        ("application/octet-stream", False),
        ("multipart/x-mixed-replace; boundary=x", False),
    ],
)
def test_only_text_is_read(content_type: str, is_text: bool) -> None:
    assert media_of(content_type).is_text is is_text


@pytest.mark.parametrize(
    ("content_type", "data", "is_html"),
    [
        ("text/html", b"hello", True),
        ("application/xhtml+xml", b"hello", True),
        ("", b" \n<!DOCTYPE html><p>", True),
        ("", b"<!-- made by x --><html>", True),
        ("", b"hello <html>", False),
        ("text/plain", b"<html>", False),
    ],
)
def test_html_is_what_says_so_or_looks_so(content_type: str, data: bytes, is_html: bool) -> None:
    assert media_of(content_type).is_html(data) is is_html


def test_binary_data_is_no_text() -> None:
    with pytest.raises(ToolFailed, match="binary"):
        text_of(b"\x89PNG\x00\x01", media_of(""))
