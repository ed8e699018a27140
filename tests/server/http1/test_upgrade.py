"""Upgrade: offers to speak something else are declined by going on as before (RFC 9110 §7.8)."""

import pytest

from tests.kit.wire import Wire, chunked, render

OFFERS = {
    "h2c": {"upgrade": "h2c", "connection": "Upgrade, HTTP2-Settings", "http2_settings": "AAMAAABkAAQ"},
    "websocket": {"upgrade": "websocket", "connection": "Upgrade", "sec_websocket_version": "13"},
}


@pytest.fixture(params=OFFERS)
def offer(request: pytest.FixtureRequest) -> dict[str, str]:
    return OFFERS[request.param]


def test_an_offer_is_ignored_and_the_connection_goes_on(wire: Wire, offer: dict[str, str]) -> None:
    assert wire.get("/healthz", **offer).body == b"ok"
    assert wire.get("/healthz").body == b"ok"


def test_an_append_with_an_offer_keeps_its_body(wire: Wire, path: str, offer: dict[str, str]) -> None:
    wire.create(path)
    assert wire.append(path, b"hello", **offer).status == 204
    assert wire.get(path).body == b"hello"


def test_a_chunked_append_with_an_offer_keeps_its_body(wire: Wire, path: str, offer: dict[str, str]) -> None:
    wire.create(path)
    wire.ask("POST", path, content_type="text/plain", transfer_encoding="chunked", **offer).send(chunked(b"he", b"llo"))
    assert wire.read().status == 204
    assert wire.get(path).body == b"hello"


def test_a_body_with_an_offer_is_never_taken_for_a_request(wire: Wire, path: str, offer: dict[str, str]) -> None:
    wire.create(path)
    smuggled = render("DELETE", path)
    assert wire.append(path, smuggled, **offer).status == 204
    assert wire.get(path).body == smuggled


def test_requests_behind_an_offer_are_answered(wire: Wire, path: str, offer: dict[str, str]) -> None:
    wire.create(path)
    requests = render("POST", path, b"a", content_type="text/plain", **offer) + render("GET", path)
    wire.send(requests)
    assert [wire.read().status, wire.read().body] == [204, b"a"]


def test_many_pipelined_upgrade_requests_are_answered(wire: Wire, offer: dict[str, str]) -> None:
    wire.send(render("GET", "/healthz", **offer) * 1500)
    assert {wire.read().status for _ in range(1500)} == {200}


def test_an_event_stream_may_follow_an_offer(wire: Wire, path: str, offer: dict[str, str]) -> None:
    wire.create(path, body=b"hello")
    assert wire.follow(f"{path}?offset=-1&live=sse", **offer).data() == b"hello"
