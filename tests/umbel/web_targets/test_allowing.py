import ipaddress

import pytest

from umbel.errors import InvalidInput, Misconfigured
from umbel.settings import load_settings
from umbel.web_targets.allowing import AllowList


def opens(entry: str, host: str, port: int, address: str) -> bool:
    return AllowList.of([entry]).opens(host, port, ipaddress.ip_address(address))


@pytest.mark.parametrize(
    ("entry", "host", "port", "address"),
    [
        ("wiki.example", "wiki.example", 80, "10.0.0.1"),
        ("Wiki.Example", "wiki.example", 443, "10.0.0.1"),
        ("wiki.example:8080", "wiki.example", 8080, "10.0.0.1"),
        ("localhost:5000", "localhost", 5000, "::1"),
        ("10.1.2.3", "10.1.2.3", 80, "10.1.2.3"),
        ("10.1.2.3:81", "any.example", 81, "10.1.2.3"),
        ("10.0.0.0/8", "any.example", 443, "10.9.9.9"),
        ("10.0.0.0/8:8080", "any.example", 8080, "10.9.9.9"),
        ("10.0.0.0/8", "any.example", 80, "::ffff:10.9.9.9"),
        ("[::1]", "::1", 80, "::1"),
        ("[::1]:8080", "::1", 8080, "::1"),
        ("::1", "::1", 80, "::1"),
        ("fd00::/8", "any.example", 80, "fd00::7"),
        ("[fd00::/8]:8080", "any.example", 8080, "fd00::7"),
    ],
)
def test_an_entry_opens_what_it_names(entry: str, host: str, port: int, address: str) -> None:
    assert opens(entry, host, port, address)


@pytest.mark.parametrize(
    ("entry", "host", "port", "address"),
    [
        ("wiki.example", "wiki.example", 6379, "10.0.0.1"),
        ("wiki.example:8080", "wiki.example", 80, "10.0.0.1"),
        ("wiki.example", "a.wiki.example", 80, "10.0.0.1"),
        ("wiki.example", "10.0.0.1", 80, "10.0.0.1"),
        ("10.0.0.0/8", "any.example", 8080, "10.9.9.9"),
        ("10.0.0.0/8", "any.example", 80, "11.0.0.1"),
        ("127.0.0.1", "any.example", 80, "::1"),
    ],
)
def test_an_entry_opens_nothing_else(entry: str, host: str, port: int, address: str) -> None:
    assert not opens(entry, host, port, address)


@pytest.mark.parametrize(
    "entry",
    ["http://wiki.example", "wiki.example:", "wiki.example:0", "wiki.example:65536", "a b",
     "wiki.example:x", "10.0.0.1/8", "10.0.0.0/33", "*", "127.1", "[::1", "user@wiki.example"],
)  # fmt: skip
def test_what_names_no_target_is_refused_with_its_own_words(entry: str) -> None:
    with pytest.raises(InvalidInput, match=r"no host or network|no port"):
        AllowList.of([entry])


def test_a_wrong_entry_is_a_fault_of_the_settings() -> None:
    with pytest.raises(Misconfigured) as caught:
        load_settings({"UMBEL_WEB_ALLOW": "wiki.example:8080,http://x"})
    assert "UMBEL_WEB_ALLOW" in str(caught.value)
    assert "'http://x'" in str(caught.value)


def test_nothing_is_open_unless_it_is_named() -> None:
    assert load_settings({}).web_allow == ()
    assert not AllowList().opens("wiki.example", 80, ipaddress.ip_address("10.0.0.1"))
