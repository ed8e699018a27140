"""Origins: pages of other sites change nothing unless they may. Whatever is no page is not asked."""

import pytest

from everbrook.protocol.errors import Forbidden
from everbrook.server.cors import Origins
from everbrook.server.exchange import Peer, Request
from tests.kit.servers import Connect, StartEither

EVIL = "https://evil.example"
HERE, ELSEWHERE = Peer("127.0.0.1"), Peer("203.0.113.9")
MAPPED = Peer("::ffff:127.0.0.1")


def _may(origins: Origins, method: str = "POST", peer: Peer = HERE, **headers: str) -> bool:
    named = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    try:
        origins.admit(Request(method.encode(), b"/v1/stream/a", b"", {b"host": b"here:4437"} | named, b"", peer=peer))
    except Forbidden:
        return False
    return True


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
def test_a_page_of_any_site_changes_nothing_on_the_loopback(
    start_either: StartEither, connect: Connect, path: str, method: str
) -> None:
    wire = connect(start_either())
    wire.create(path, body=b"mine")
    answer = wire.request(method, path, b"x", content_type="text/plain", origin=EVIL)
    assert answer.refusal == (403, "forbidden")
    assert wire.get(path, origin=EVIL).body == b"mine"


@pytest.mark.parametrize(
    "origin", ["http://localhost:5173", "http://127.0.0.1:3000", "http://[::1]:8000", "http://a.localhost"]
)
def test_pages_of_this_machine_may(start_either: StartEither, connect: Connect, path: str, origin: str) -> None:
    assert connect(start_either()).request("PUT", path, content_type="text/plain", origin=origin).status == 201


@pytest.mark.parametrize("origin", [EVIL, "null", "http://localhost.evil.example", "http://127.0.0.1.evil.example"])
def test_others_may_not(origin: str) -> None:
    unguarded = Origins("*", "", guarded=False)
    assert not _may(unguarded, origin=origin)
    assert not _may(unguarded, peer=MAPPED, origin=origin)
    assert _may(unguarded, "GET", origin=origin)


def test_all_may_where_a_policy_or_a_proxy_or_an_address_says_who_asks() -> None:
    unguarded = Origins("*", "", guarded=False)
    assert _may(Origins("*", "", guarded=True), origin=EVIL)
    assert _may(unguarded, peer=ELSEWHERE, origin=EVIL)
    assert _may(unguarded, origin=EVIL, x_forwarded_for="203.0.113.9")
    assert _may(unguarded, origin=EVIL, x_real_ip="203.0.113.9")


@pytest.mark.parametrize("guarded", [False, True])
def test_where_origins_are_named_the_others_may_not(*, guarded: bool) -> None:
    chosen = Origins("https://one.example", "https://streams.example", guarded=guarded)
    assert _may(chosen, peer=ELSEWHERE, origin="https://one.example")
    assert _may(chosen, peer=ELSEWHERE, origin="https://streams.example")
    assert _may(chosen, peer=ELSEWHERE, origin="http://here:4437")
    assert _may(chosen, peer=ELSEWHERE)
    assert not _may(chosen, peer=ELSEWHERE, origin=EVIL)
