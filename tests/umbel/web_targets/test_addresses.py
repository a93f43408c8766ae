import ipaddress

import pytest

from umbel.web_targets.addresses import closed_kind


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("0.0.0.0", "this machine"),
        ("0.1.2.3", "this machine"),
        ("127.0.0.1", "this machine"),
        ("127.255.255.254", "this machine"),
        ("::", "this machine"),
        ("::1", "this machine"),
        ("10.0.0.5", "private"),
        ("172.16.0.1", "private"),
        ("172.31.255.255", "private"),
        ("192.168.1.1", "private"),
        ("100.64.0.1", "private"),
        ("100.100.100.200", "private"),
        ("fd00:ec2::254", "private"),
        ("fc00::1", "private"),
        ("169.254.169.254", "link-local"),
        ("168.63.129.16", "link-local"),
        ("fe80::1", "link-local"),
        ("fe80::1%eth0", "link-local"),
        ("224.0.0.1", "multicast"),
        ("239.255.255.250", "multicast"),
        ("ff02::1", "multicast"),
        ("192.0.0.192", "reserved"),
        ("192.0.2.1", "reserved"),
        ("192.88.99.1", "reserved"),
        ("198.18.0.1", "reserved"),
        ("198.51.100.1", "reserved"),
        ("203.0.113.9", "reserved"),
        ("240.0.0.1", "reserved"),
        ("255.255.255.255", "reserved"),
        ("::7f00:1", "reserved"),  # the old IPv4-compatible form
        ("100::1", "reserved"),
        ("fec0::1", "reserved"),
        ("64:ff9b:1::7f00:1", "reserved"),
        ("2001::1", "reserved"),
        ("2001:0:4136:e378:8000:63bf:3fff:fdd2", "reserved"),  # Teredo
        ("2001:db8::1", "reserved"),
        ("2002:7f00:1::", "reserved"),
        ("2002:808:808::", "reserved"),
        ("3fff::1", "reserved"),
        ("5f00::1", "reserved"),
        ("::ffff:127.0.0.1", "this machine"),
        ("::ffff:10.0.0.5", "private"),
        ("::ffff:169.254.169.254", "link-local"),
        ("64:ff9b::7f00:1", "this machine"),
        ("64:ff9b::a9fe:a9fe", "link-local"),
    ],
)
def test_an_address_that_not_everybody_reaches_is_closed(address: str, kind: str) -> None:
    assert (closed_kind(ipaddress.ip_address(address)) or "").startswith(kind)


@pytest.mark.parametrize(
    "address",
    [
        "1.1.1.1",
        "8.8.8.8",
        "93.184.216.34",
        "172.15.255.255",
        "172.32.0.1",
        "100.63.255.255",
        "100.128.0.1",
        "169.253.1.1",
        "198.17.255.255",
        "223.255.255.255",
        "2606:4700:4700::1111",
        "2a00:1450:4001::1",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
    ],
)
def test_a_public_address_is_open(address: str) -> None:
    assert closed_kind(ipaddress.ip_address(address)) is None
