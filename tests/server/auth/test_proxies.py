"""Proxies: whose word is taken, and what an address is then."""

import pytest

from everbrook.protocol.errors import Unauthorized
from everbrook.server.auth.proxies import Proxies, parse_networks, too_wide
from everbrook.server.exchange import Peer, Request

TRUSTED = "127.0.0.1, 10.0.0.0/8 fd00::/8"
ENVOY, STRANGER = "10.1.2.3", "203.0.113.7"


def _request(peer: str, **headers: bytes) -> Request:
    named = {name.replace("_", "-").encode(): value for name, value in headers.items()}
    return Request(b"GET", b"/v1/stream/a", b"", named, b"", peer=Peer(peer))


def _subject(peer: str, subject: bytes) -> str | None:
    return Proxies(TRUSTED, "X-JWT-Sub").proxied_identity(_request(peer, x_jwt_sub=subject))


def _address(peer: str, forwarded: bytes) -> str:
    return Proxies(TRUSTED).client_address(_request(peer, x_forwarded_for=forwarded))


@pytest.mark.parametrize("peer", [ENVOY, "127.0.0.1", "::ffff:10.0.0.1", "fd00::1", "fd00::1%eth0"])
def test_a_trusted_proxy_says_who_asks(peer: str) -> None:
    assert _subject(peer, b"alice") == "alice"


@pytest.mark.parametrize("peer", [STRANGER, "11.0.0.1", "127.0.0.2", "::1", "::ffff:11.0.0.1", "", "unix", "10.0.0"])
def test_from_anybody_else_the_header_means_nothing(peer: str) -> None:
    assert _subject(peer, b"alice") is None


def test_an_address_that_a_header_told_is_not_believed() -> None:
    request = _request(ENVOY, x_jwt_sub=b"alice", x_forwarded_for=b"198.51.100.1")
    request.peer = Peer(ENVOY, told=True)
    assert Proxies(TRUSTED, "X-JWT-Sub").proxied_identity(request) is None
    assert Proxies(TRUSTED).client_address(request) == ENVOY


def test_without_proxies_nobody_is_believed() -> None:
    assert Proxies("", "X-JWT-Sub").proxied_identity(_request(ENVOY, x_jwt_sub=b"alice")) is None


def test_a_proxy_may_say_nothing() -> None:
    assert Proxies(TRUSTED, "X-JWT-Sub").proxied_identity(_request(ENVOY)) is None
    assert _subject(ENVOY, b"") is None


@pytest.mark.parametrize("subject", [b"alice, bob", b"alice,", b"\xff", b"a\x01b", b"x" * 257])
def test_a_subject_that_two_may_have_written_is_nobodys(subject: bytes) -> None:
    with pytest.raises(Unauthorized):
        _subject(ENVOY, subject)


def test_a_subject_need_not_be_ascii() -> None:
    assert _subject(ENVOY, "Zoë".encode()) == "Zoë"


def test_an_address_is_that_of_the_connection() -> None:
    assert Proxies(TRUSTED).client_address(_request(STRANGER)) == STRANGER
    assert Proxies(TRUSTED).client_address(_request(ENVOY)) == ENVOY


def test_a_stranger_can_not_say_that_it_is_elsewhere() -> None:
    assert _address(STRANGER, b"198.51.100.1") == STRANGER


@pytest.mark.parametrize(
    "forwarded, address",
    [
        (b"198.51.100.1", "198.51.100.1"),
        (b"6.6.6.6, 198.51.100.1", "198.51.100.1"),
        (b"10.9.9.9,198.51.100.1,10.0.0.2", "198.51.100.1"),
        (b"10.0.0.9, 10.0.0.2", "10.0.0.9"),
        (b"2001:db8::1", "2001:db8::1"),
        (b"::ffff:198.51.100.1", "198.51.100.1"),
        (b"6.6.6.6, unknown", ENVOY),
        (b"6.6.6.6, ", ENVOY),
        (b"", ENVOY),
        (b"198.51.100.1:4711", ENVOY),
    ],
)
def test_behind_proxies_it_is_the_last_that_is_none_of_them(forwarded: bytes, address: str) -> None:
    assert _address(ENVOY, forwarded) == address


def test_a_very_long_list_is_read_from_its_end() -> None:
    assert _address(ENVOY, b"6.6.6.6," * 10_000 + b"198.51.100.1") == "198.51.100.1"
    assert _address(ENVOY, b"6.6.6.6," + b"10.0.0.1," * 100 + b"10.0.0.1") == "10.0.0.1"


@pytest.mark.parametrize("text", ["0.0.0.0/0", "::/0", "0.0.0.0/1", "2000::/3", "10.0.0.1,0.0.0.0/0"])
def test_a_network_that_strangers_are_in_is_careless(text: str) -> None:
    assert too_wide(parse_networks(text))


def test_networks_of_ones_own_are_not_careless() -> None:
    assert not too_wide(parse_networks(TRUSTED))


@pytest.mark.parametrize("text", ["10.0.0.0/33", "10.0.0.1/8", "envoy", "1.2.3"])
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=text.split("/", maxsplit=1)[0]):
        parse_networks(text)
