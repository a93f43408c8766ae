"""The one way out: what may be asked, and that nothing else is, whatever names and servers say."""

import gzip
import json
import socket
import ssl
from pathlib import Path

import pytest
import trustme

from tests.tools.web.servers import Names, a_web, listening, page, redirect
from tools.web import dialling
from tools.web.client import Web, WebAccess
from umbel.errors import InvalidInput, NotFound
from umbel.tool import ToolFailed
from umbel.web_targets.allowing import AllowList

BADINPUT = Path(__file__).parents[2] / "data/cases/badinput"
LITERALS = json.loads((BADINPUT / "17-ssrf-literals-a.json").read_text())["given"]["url"]
LIMIT = 1_000_000


def read(web: Web, url: str, limit: int = LIMIT) -> bytes:
    with web.open(url) as answer:
        return b"".join(answer.pieces(limit))


def test_an_allowed_server_is_asked_by_its_own_name() -> None:
    names = Names({"site.test": [["127.0.0.1"]]})
    with listening([page(b"hello")]) as server:
        web = a_web([f"site.test:{server.port}"], names)
        assert (
            read(web, f"http://site.test:{server.port}/a b?q=\u00e9#part".replace(" ", "%20"))
            == b"hello"
        )
        request = server.requests[0].decode()
    assert request.startswith("GET /a%20b?q=%C3%A9 HTTP/1.1\r\n")
    assert f"\r\nHost: site.test:{server.port}\r\n" in request
    assert "cookie" not in request.lower()
    assert "authorization" not in request.lower()


MORE_LITERALS = [
    "http://localhost/",
    "http://LOCALHOST./",
    "http://127.0.0.1:80/",
    "https://127.0.0.1/",
    "http://127.127.127.127/",
    "http://0.0.0.0/",
    "http://0x7f.0.0.1/",
    "http://0x7f.1/",
    "http://017700000001/",
    "http://00000177.0.0.1/",
    "http://127.0.1/",
    "http://①②⑦.⓪.⓪.①/",
    "http://\uff11\uff12\uff17\u30020\u30020\u30021/",
    "http://127.0.0.1%2f@example.com/",
    "http://example.com@127.0.0.1/",
    "http://user:secret@example.com/",
    "http://example.com\\@127.0.0.1/",
    "http://127.0.0.1\t/",
    "http://[::]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[::127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::ffff:169.254.169.254]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://[2002:7f00:1::]/",
    "http://[2001:0:7f00:1::]/",
    "http://[fe80::1]/",
    "http://[fe80::1%25eth0]/",
    "http://[fec0::1]/",
    "http://[ff02::1]/",
    "http://100.64.0.1/",
    "http://100.100.100.200/latest/meta-data/",
    "http://192.0.0.192/opc/v2/instance/",
    "http://168.63.129.16/machine/",
    "http://172.16.0.1/",
    "http://192.168.0.1/",
    "http://198.18.0.1/",
    "http://224.0.0.1/",
    "http://255.255.255.255/",
    "http://metadata.google.internal/computeMetadata/v1/",
    "http://8.8.8.8:53/",
    "http://example.com:22/",
    "http://example.com:0/",
    "http://example.com:99999/",
    "http://example.com:80:80/",
    "ftp://example.com/",
    "data:text/html,hello",
    "javascript:alert(1)",
    "jar:http://example.com!/",
    "http:example.com",
    "//example.com/",
    "http:///etc/passwd",
    "http://",
    "",
    "example.com",
    "http://exa mple.com/",
    "http://example.com/\r\nHost: 127.0.0.1",
    "http://a..b/",
]


@pytest.mark.parametrize("url", [*LITERALS, *MORE_LITERALS])
def test_no_spelling_of_a_closed_place_opens_a_socket(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[object] = []
    monkeypatch.setattr(socket, "create_connection", lambda *_, **__: opened.append(1))
    names = Names(
        {
            "localhost": [["127.0.0.1", "::1"]],
            "metadata.google.internal": [["169.254.169.254"]],
            "example.com": [["93.184.216.34"]],
        }
    )
    with pytest.raises(InvalidInput):
        read(a_web(names=names), url)
    assert opened == []


def test_a_port_that_is_open_at_one_host_is_not_open_at_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[object] = []
    monkeypatch.setattr(socket, "create_connection", lambda *_, **__: opened.append(1))
    names = Names({"public.test": [["93.184.216.34"]]})
    with pytest.raises(InvalidInput, match=r"Port 8080 of public\.test .*public\.test:8080"):
        read(a_web(["wiki.test:8080"], names), "http://public.test:8080/")
    assert opened == []


@pytest.mark.parametrize("inner", ["127.0.0.1", "10.0.0.5", "169.254.169.254", "fd00::1", "::1"])
def test_a_name_with_one_closed_address_among_public_ones_is_not_asked(inner: str) -> None:
    names = Names({"mixed.test": [["93.184.216.34", inner]]})
    with pytest.raises(InvalidInput, match="not on the public web") as caught:
        read(a_web(names=names), "http://mixed.test/")
    assert inner not in str(caught.value), "the inside of a network is nobody's business"


def test_a_name_that_is_told_otherwise_the_second_time_is_not_asked_a_second_time() -> None:
    with listening([page(b"the public one")], address="127.0.0.2") as outside:
        names = Names({"rebound.test": [["127.0.0.2"], ["127.0.0.1"]]})
        web = a_web([f"127.0.0.2:{outside.port}"], names)
        assert read(web, f"http://rebound.test:{outside.port}/") == b"the public one"
        assert names.asked == ["rebound.test"]
        with pytest.raises(InvalidInput):
            read(web, f"http://rebound.test:{outside.port}/")
        assert outside.connections == 1


def test_what_the_machine_itself_would_look_up_is_never_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    lookup = socket.getaddrinfo

    def overheard(host: str, *rest: object, **more: object) -> object:
        asked.append(host)
        return lookup(host, *rest, **more)  # type: ignore[arg-type]  # passed on as it came

    monkeypatch.setattr(socket, "getaddrinfo", overheard)
    with listening([page(b"x")]) as server:
        names = Names({"site.test": [["127.0.0.1"]]})
        read(a_web([f"site.test:{server.port}"], names), f"http://site.test:{server.port}/")
    assert set(asked) <= {"127.0.0.1"}, "only the checked address itself"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed_and_the_last_place_is_told(status: int) -> None:
    with listening([redirect("/b?x=1", status), page(b"there")]) as server:
        with a_web([f"127.0.0.1:{server.port}"]).open(
            f"http://127.0.0.1:{server.port}/a"
        ) as answer:
            assert answer.url == f"http://127.0.0.1:{server.port}/b?x=1"
            assert b"".join(answer.pieces(LIMIT)) == b"there"
        assert [r.split()[1] for r in server.requests] == [b"/a", b"/b?x=1"]


@pytest.mark.parametrize(
    "location",
    [
        "http://169.254.169.254/latest/meta-data/iam/",
        "file:///etc/passwd",
        "//127.0.0.1/",
        "http://[::1]:6379/",
        "http://0x7f000001/",
        "http://inside.test/",
        "http://user:secret@site.test/",
        "gopher://127.0.0.1:6379/_FLUSHALL",
        "http://[::1/",
        "https://site.test:6379/",
    ],
)
@pytest.mark.parametrize("hops", [0, 1])
def test_every_redirect_is_checked_as_the_first_address_was(location: str, hops: int) -> None:
    names = Names({"site.test": [["127.0.0.1"]], "inside.test": [["10.0.0.5"]]})
    with listening(lambda c, r: None) as forbidden:
        leading = [redirect("/again")] * hops
        given = location.replace(":6379", f":{forbidden.port}")
        with listening([*leading, redirect(given, 307)]) as server:
            with pytest.raises(InvalidInput) as caught:
                read(a_web([f"site.test:{server.port}"], names), f"http://site.test:{server.port}/")
            assert len(server.requests) == hops + 1
    assert forbidden.connections == 0
    assert "secret" not in str(caught.value)


def test_a_redirect_without_end_is_left_after_five() -> None:
    with listening([redirect("/again")]) as server:
        with pytest.raises(ToolFailed, match="more than 5 times"):
            read(a_web([f"127.0.0.1:{server.port}"]), f"http://127.0.0.1:{server.port}/")
        assert server.connections == 6


def test_a_bomb_on_a_redirect_is_not_even_read() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    leading = redirect("/b", 302, "Content-Encoding: gzip", body=bomb)
    with listening([leading, page(b"there")]) as server:
        assert (
            read(a_web([f"127.0.0.1:{server.port}"]), f"http://127.0.0.1:{server.port}/")
            == b"there"
        )


def test_proxies_of_the_environment_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening([page(b"proxied")]) as proxy, listening([page(b"direct")]) as server:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        web = a_web([f"127.0.0.1:{server.port}"])
        assert read(web, f"http://127.0.0.1:{server.port}/") == b"direct"
    assert proxy.connections == 0


@pytest.mark.parametrize(
    ("status", "kind"), [(404, NotFound), (410, NotFound), (403, ToolFailed), (500, ToolFailed),
                         (304, ToolFailed), (204, ToolFailed), (302, ToolFailed)],
)  # fmt: skip
def test_a_status_other_than_success_is_no_page(status: int, kind: type[Exception]) -> None:
    with (
        listening([page(b"inner secret", status=status)]) as server,
        pytest.raises(kind, match=str(status)) as caught,
    ):
        read(a_web([f"127.0.0.1:{server.port}"]), f"http://127.0.0.1:{server.port}/")
    assert "inner secret" not in str(caught.value)


def test_a_certificate_must_be_of_the_name_that_was_asked() -> None:
    authority = trustme.CA()
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("right.test").configure_cert(served)
    names = Names({"right.test": [["127.0.0.1"]], "wrong.test": [["127.0.0.1"]]})
    with listening([page(b"sealed")], certificates=served) as server:
        access = WebAccess(AllowList.of([f"127.0.0.1:{server.port}"]), resolve=names)
        authority.configure_trust(access.certificates)
        web = Web(access, lambda: None)
        assert read(web, f"https://right.test:{server.port}/") == b"sealed"
        with pytest.raises(ToolFailed, match="no valid certificate"):
            read(web, f"https://wrong.test:{server.port}/")
        with pytest.raises(ToolFailed, match="no valid certificate"):
            read(web, f"https://127.0.0.1:{server.port}/")
        assert len(server.requests) == 1


def test_a_server_nobody_vouches_for_is_not_read() -> None:
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(served)
    with listening([page(b"sealed")], certificates=served) as server:
        with pytest.raises(ToolFailed, match="no valid certificate"):
            read(a_web([f"127.0.0.1:{server.port}"]), f"https://127.0.0.1:{server.port}/")
        assert server.requests == []


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"", "did not answer"),
        (b"SSH-2.0-OpenSSH_9.9\r\n", "did not answer"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
            "did not answer",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello", "did not answer"),
        (b"HTTP/1.1 200 OK\r\n" + b"X-Long: " + b"a" * 200_000 + b"\r\n\r\n", "header|did not"),
        (b"HTTP/1.1 200 OK\r\n" + b"X-Many: a\r\n" * 20_000 + b"\r\n", "header|did not"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 20_000, "header"),
    ],
)
def test_what_is_no_answer_of_a_web_server_ends_soon(answer: bytes, said: str) -> None:
    with listening([answer]) as server, pytest.raises(ToolFailed, match=said):
        read(a_web([f"127.0.0.1:{server.port}"]), f"http://127.0.0.1:{server.port}/")


def test_a_silent_server_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialling, "WAIT_SECONDS", 0.2)

    def say_nothing(connection: socket.socket, _: bytes) -> None:
        connection.recv(1)  # until the client leaves

    with listening(say_nothing) as server, pytest.raises(ToolFailed, match="was silent"):
        read(a_web([f"127.0.0.1:{server.port}"]), f"http://127.0.0.1:{server.port}/")


def test_a_server_that_drips_is_left_by_its_pace_and_every_drop_is_progress() -> None:
    clock, said = [0.0], []
    pace = dialling.Pace("site.test", lambda: said.append(1), now=lambda: clock[0])
    for _ in range(60):
        assert pace.wait_seconds() > 0
        clock[0] += 1.0
        pace.took(10)
    assert len(said) == 60
    clock[0] += 1.0
    with pytest.raises(ToolFailed, match="bytes a second"):
        pace.wait_seconds()


def test_a_long_answer_at_a_fair_pace_may_take_as_long_as_it_needs() -> None:
    clock = [0.0]
    pace = dialling.Pace("site.test", lambda: None, now=lambda: clock[0])
    pace.is_in_header = False
    for _ in range(10_000):
        assert pace.wait_seconds() == dialling.WAIT_SECONDS
        clock[0] += 1.0
        pace.took(2 * dialling.LEAST_BYTES_PER_SECOND)


def test_what_cannot_be_reached_is_an_error_without_addresses() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    names = Names({"site.test": [["127.0.0.1"]]})
    with pytest.raises(ToolFailed, match="cannot be reached") as caught:
        read(a_web([f"site.test:{port}"], names), f"http://site.test:{port}/")
    assert "127.0.0.1" not in str(caught.value)
    with pytest.raises(ToolFailed, match=r"nowhere\.test cannot be looked up"):
        read(a_web(), "http://nowhere.test/")
