import contextlib
import sys

import pytest

from tools.web.html import readable
from umbel.tool import ToolFailed

URL = "https://site.test/dir/page"
PAGE = """<!doctype html><html><head><title>Plants of
  the &amp; family</title><style>p {color: red}</style></head><body>
<nav><a href="/home">Home</a></nav><header>Banner</header>
<article><h1>Plants</h1><p>Umbels are <a href="../wiki/Apiaceae">flowers</a>.</p>
<table><tr><th>Name</th><th>Size</th></tr><tr><td>Carrot</td><td>1 m</td></tr></table>
<ul><li>one</li><li>two</li></ul><pre>code = 1</pre>
<img src="data:image/png;base64,AAAA" alt="dot"><img src="x.png" alt="pic">
<p hidden>ignore this</p><p style="display:none">and this</p><template>and that</template>
<script>alert("no")</script></article>
<aside>Margin</aside><footer>Imprint</footer></body></html>"""


def test_the_main_part_is_markdown_with_whole_links() -> None:
    page = readable(PAGE, URL, is_whole=False)
    assert page.title == "Plants of the & family"
    assert page.text.startswith("# Plants\n")
    assert "[flowers](https://site.test/wiki/Apiaceae)" in page.text
    assert "| Carrot | 1 m |" in page.text
    assert "code = 1" in page.text
    assert "![pic](https://site.test/dir/x.png)" in page.text
    for left_out in ("Home", "Imprint", "base64", "alert", "color", "ignore", "and this", "that"):
        assert left_out not in page.text


def test_the_whole_page_has_its_menus_and_still_nothing_hidden() -> None:
    text = readable(PAGE, URL, is_whole=True).text
    assert "[Home](https://site.test/home)" in text
    assert "Imprint" in text
    for left_out in ("ignore", "and this", "alert", "color"):
        assert left_out not in text


def test_a_page_of_menus_alone_is_read_as_a_whole() -> None:
    page = readable(
        '<html><body><nav><a href="/a">First</a></nav></body></html>', URL, is_whole=False
    )
    assert page.text == "[First](https://site.test/a)"
    assert page.title is None


@pytest.mark.parametrize("html", ["", "<html></html>", "<body><script>x()</script></body>"])
def test_a_page_without_text_says_so(html: str) -> None:
    with pytest.raises(ToolFailed, match="holds no text"):
        readable(html, URL, is_whole=False)


@pytest.mark.parametrize(
    "html",
    [
        "<div>" * 100_000 + "x",
        "<table><tr><td>" * 30_000 + "x",
        "<" * 1_000_000,
        "<p " + "a=1 " * 200_000 + ">x</p>",
        "<!-- a -->" * 100_000 + "<p>x",
        "<title>" * 100_000,
        "<a href='/a'>w</a>" * 20_000,
    ],
    ids=["deep", "tables", "angles", "attributes", "comments", "titles", "links"],
)
def test_a_hostile_page_is_an_answer_or_an_error_and_no_crash(html: str) -> None:
    with contextlib.suppress(ToolFailed):
        assert readable(html, URL, is_whole=False).text


def test_without_the_library_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "html_to_markdown", None)
    with pytest.raises(ToolFailed, match=r"umbel\[web\]"):
        readable(PAGE, URL, is_whole=False)
