"""The tool as a model calls it."""

import gzip
import hashlib
import json
import re
from typing import Any

import pytest

from loop.outcome import Errored, Returned
from tests.tools.web.servers import listening, page, redirect
from tools.builtin.web import web_read
from tools.trial import TrialContext, try_tool
from tools.web.client import WebAccess
from umbel.testing import call_tool
from umbel.tool import ToolFailed
from umbel.web_targets.allowing import AllowList


def outcome(url: str, port: int, **arguments: object) -> tuple[Returned | Errored, TrialContext]:
    access = WebAccess(AllowList.of([f"127.0.0.1:{port}"]))
    context = TrialContext(web_access=access)
    found = try_tool(web_read, {"url": url, **arguments}, context)
    assert isinstance(found, Returned | Errored)
    return found, context


def result(answers: list[bytes], path: str = "/", **arguments: object) -> dict[str, Any]:
    with listening(answers) as server:
        found, _ = outcome(f"http://127.0.0.1:{server.port}{path}", server.port, **arguments)
    assert isinstance(found, Returned), found
    read: dict[str, Any] = json.loads(found.text)
    read["port"] = server.port
    return read


def error(answers: list[bytes]) -> dict[str, str]:
    with listening(answers) as server:
        found, _ = outcome(f"http://127.0.0.1:{server.port}/", server.port)
    assert isinstance(found, Errored), found
    said: dict[str, str] = json.loads(found.text)["error"]
    return said


HTML = b"<html><head><title>Carrots</title></head><body><nav>Menu</nav><p>Orange.</p></body></html>"


def test_a_page_is_read_with_what_is_known_about_it() -> None:
    read = result([redirect("/moved?x=1"), page(HTML, "text/html; charset=utf-8")], "/old")
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", read.pop("captured_on"))
    port = read.pop("port")
    assert read == {
        "title": "Carrots",
        "url": f"http://127.0.0.1:{port}/moved?x=1",
        "requested_url": f"http://127.0.0.1:{port}/old",
        "media_type": "text/html",
        "text": "Orange.",
    }


def test_the_whole_of_a_page_has_its_menu() -> None:
    assert "Menu" in result([page(HTML, "text/html")], whole=True)["text"]


@pytest.mark.parametrize(
    ("body", "media_type"),
    [(b"# A\n<b>kept</b>", "text/markdown"), (b'{"a": 1}', "application/json"), (b"plain", None)],
)
def test_other_text_is_given_as_it_is(body: bytes, media_type: str | None) -> None:
    read = result([page(body, media_type)])
    assert read["text"] == body.decode()
    assert read["title"] is None
    assert read["media_type"] == media_type


def test_a_compressed_page_is_opened() -> None:
    packed = gzip.compress(HTML)
    assert result([page(packed, "text/html", "Content-Encoding: gzip")])["text"] == "Orange."


def test_what_is_no_text_is_refused_before_it_is_loaded() -> None:
    said = error([page(b"%PDF-1.7", "application/pdf")])
    assert said["code"] == "tool_failed"
    assert "'application/pdf'" in said["message"]


@pytest.mark.parametrize("media_type", ["text/html", "text/plain", None])
def test_a_page_that_is_too_large_is_left(media_type: str | None) -> None:
    bomb = gzip.compress(b"<html>" + b"a" * 20_000_000)
    said = error([page(bomb, media_type, "Content-Encoding: gzip")])
    assert "more than" in said["message"]


def test_refusals_teach_and_missing_pages_have_their_own_code() -> None:
    assert error([page(b"", status=404)])["code"] == "not_found"
    with pytest.raises(ToolFailed, match=r"this machine.*UMBEL_WEB_ALLOW"):
        call_tool(web_read, url="http://127.0.0.1/")
    with pytest.raises(ToolFailed, match=r"Port 6379 .*UMBEL_WEB_ALLOW, such as example\.com:6379"):
        call_tool(web_read, url="http://example.com:6379/")


def test_every_piece_that_comes_is_progress() -> None:
    with listening([page(b"a" * 200_000)]) as server:
        _, context = outcome(f"http://127.0.0.1:{server.port}/", server.port)
    assert len(context.notes) > 5


@pytest.mark.parametrize(
    ("headers", "revision"),
    [
        (('ETag: "a7"', "Last-Modified: Mon, 02 Mar 2026 10:00:00 GMT"), '"a7"'),
        (("Last-Modified: Mon, 02 Mar 2026 10:00:00 GMT",), "Mon, 02 Mar 2026 10:00:00 GMT"),
        ((f"ETag: {'x' * 201}",), hashlib.sha256(b"hello").hexdigest()),
        ((), hashlib.sha256(b"hello").hexdigest()),
    ],
)
def test_the_page_is_a_source_in_the_revision_that_its_server_names(
    headers: tuple[str, ...], revision: str
) -> None:
    with listening([redirect("/b"), page(b"hello", "text/plain", *headers)]) as server:
        _, context = outcome(f"http://127.0.0.1:{server.port}/a", server.port)
    assert context.sources.revisions == {f"page:http://127.0.0.1:{server.port}/b": revision}


def test_a_page_with_a_very_long_address_is_read_and_is_no_source() -> None:
    with listening([page(b"hello", "text/plain")]) as server:
        url = f"http://127.0.0.1:{server.port}/{'a' * 2500}"
        found, context = outcome(url, server.port)
    assert isinstance(found, Returned)
    assert context.sources.revisions == {}


def test_a_page_that_is_read_again_unchanged_is_the_same_result() -> None:
    with listening([page(HTML, "text/html")]) as server:
        first, second = (
            outcome(f"http://127.0.0.1:{server.port}/", server.port)[0] for _ in range(2)
        )
    assert first == second
