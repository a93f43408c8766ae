import ipaddress

import pytest

from umbel.errors import InvalidInput
from umbel.web_targets.hosts import parse_host


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("Example.COM", "example.com"),
        ("example.com.", "example.com"),
        ("my_host-1.example", "my_host-1.example"),
        ("localhost", "localhost"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("\uff45xample\u3002com", "example.com"),
        ("1.2.3.example", "1.2.3.example"),
        ("0x7f.example", "0x7f.example"),
    ],
)
def test_a_name_has_one_form(text: str, host: str) -> None:
    assert parse_host(text) == host


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("①②⑦.⓪.⓪.①", "127.0.0.1"),
        ("\uff11\uff12\uff17\u30020\u30020\u30021", "127.0.0.1"),
        ("[::1]", "::1"),
        ("[0:0:0:0:0:0:0:1]", "::1"),
        ("[::FFFF:7f00:1]", "::ffff:127.0.0.1"),
        ("[::ffff:127.0.0.1]", "::ffff:127.0.0.1"),
    ],
)
def test_an_address_is_an_address_in_whatever_letters(text: str, address: str) -> None:
    assert parse_host(text) == ipaddress.ip_address(address)


@pytest.mark.parametrize(
    "text",
    [
        "2130706433", "0x7f000001", "0x7F.1", "0177.0.0.1", "127.1", "127.0.1", "0", "00.0.0.0",
        "127.0.0.1.1", "256.0.0.1", "017700000001", "0x", "1.2.3.0x4", "①", "127.0.0.08",
        "[::1%25lo]", "[fe80::1%eth0]", "[::1", "[127.0.0.1]", "[]", "[::g]", "::1",
        "", ".", "a..b", ".a", "-a.example", "a-.example", "a b", "a%2eb", "127%2e0%2e0%2e1",
        "a\x00b", "a/b", "a" * 64, "a." * 127 + "ab", "exa\u200bmple.\u202ecom", "\ud800.example",
        "xn--a.example\u3002\uff0f",
    ],
)  # fmt: skip
def test_what_programs_would_read_differently_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_host(text)
