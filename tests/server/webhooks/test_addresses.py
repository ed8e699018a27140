"""Which addresses are public."""

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given, strategies as st

from everbrook.server.webhooks.guard import parse_address, special
from tests.kit.generated import generated

PUBLIC = [
    "1.1.1.1",
    "9.255.255.255",
    "11.0.0.0",
    "93.184.215.14",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "169.253.255.255",
    "172.15.255.255",
    "172.32.0.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2606:4700:4700::1111",
    "2001:200::1",
    "64:ff9b::101:101",
    "2002:101:101::1",
]

SPECIAL = [
    ("0.0.0.0", "unspecified"),  # noqa: S104 - nothing is bound
    ("0.1.2.3", "unspecified"),
    ("10.0.0.1", "private"),
    ("100.64.0.0", "shared by the customers of a carrier"),
    ("100.127.255.255", "shared by the customers of a carrier"),
    ("127.0.0.1", "loopback"),
    ("127.255.255.254", "loopback"),
    ("168.63.129.16", "the metadata service of a cloud"),
    ("169.254.169.254", "link-local"),
    ("172.16.0.1", "private"),
    ("172.31.255.255", "private"),
    ("192.0.0.192", "reserved"),
    ("192.0.2.1", "documentation"),
    ("192.168.1.1", "private"),
    ("198.18.0.1", "benchmarking"),
    ("198.51.100.1", "documentation"),
    ("203.0.113.1", "documentation"),
    ("224.0.0.1", "multicast"),
    ("240.0.0.1", "reserved"),
    ("255.255.255.255", "reserved"),
    ("::", "unspecified"),
    ("::1", "loopback"),
    ("fd00:ec2::254", "private"),
    ("fc00::1", "private"),
    ("fe80::1", "link-local"),
    ("fe80::1%eth0", "link-local"),
    ("fec0::1", "private"),
    ("ff02::1", "multicast"),
    ("2001:db8::1", "documentation"),
    ("3fff::1", "documentation"),
    ("100::1", "reserved"),
    ("4000::1", "reserved"),
    ("64:ff9b:1::1", "reserved"),
]

EMBEDDED = [
    ("::ffff:127.0.0.1", "loopback"),
    ("::ffff:169.254.169.254", "link-local"),
    ("::ffff:a00:1", "private"),
    ("64:ff9b::10.0.0.1", "private"),
    ("64:ff9b::a9fe:a9fe", "link-local"),
    ("2002:7f00:1::", "loopback"),
    ("2002:c0a8:101::1", "private"),
    ("2606:4700::5efe:10.0.0.1", "private"),
    ("2606:4700::200:5efe:10.0.0.1", "private"),
    ("::127.0.0.1", "reserved"),
    ("::ffff:0:127.0.0.1", "reserved"),
    ("2001:0:4136:e378:8000:63bf:3fff:fdd2", "reserved"),
]


@pytest.mark.parametrize("text", PUBLIC)
def test_an_address_of_the_public_internet_is_not_special(text: str) -> None:
    assert special(parse_address(text)) is None


@pytest.mark.parametrize("text, kind", SPECIAL)
def test_an_address_that_is_not_public_is_named_for_what_it_is(text: str, kind: str) -> None:
    """§12.8."""
    assert special(parse_address(text)) == kind


@pytest.mark.parametrize("text, kind", EMBEDDED)
def test_an_address_that_carries_another_is_judged_by_it(text: str, kind: str) -> None:
    assert special(ip_address(text)) == kind
    assert special(parse_address(text)) == kind


@generated
@given(st.ip_addresses(v=4))
def test_an_ipv4_address_that_python_calls_private_or_reserved_is_special(address: IPv4Address) -> None:
    if not address.is_global or address.is_multicast or address.is_reserved:
        assert special(address) is not None


@generated
@given(st.ip_addresses(v=4))
def test_no_disguise_makes_an_ipv4_address_public(address: IPv4Address) -> None:
    number = int(address)
    for disguise in ((0xFFFF << 32) | number, (0x64FF9B << 96) | number, (0x2002 << 112) | (number << 80)):
        assert special(IPv6Address(disguise)) == special(address)


@generated
@given(st.ip_addresses(v=4))
def test_an_ipv4_address_in_the_clothes_of_ipv6_is_read_as_what_it_is(address: IPv4Address) -> None:
    assert parse_address(f"::ffff:{address}") == address
