"""Methods and request targets."""

import pytest

from tests.kit.servers import StartEither
from tests.kit.wire import Wire

METHODS = "GET, HEAD, OPTIONS, PUT, POST, DELETE"


def test_head_has_headers_and_no_body(wire: Wire, path: str) -> None:
    wire.create(path, body=b"hello")
    answer = wire.request("HEAD", path)
    assert (answer.status, answer.next_offset) == (200, "0000000000000005")
    assert "content-length" not in answer.headers
    assert wire.get("/healthz").body == b"ok"


def test_head_of_nothing_has_the_head_of_the_problem(wire: Wire, path: str) -> None:
    answer = wire.request("HEAD", path)
    assert (answer.status, answer.headers["content-type"]) == (404, "application/problem+json")
    assert wire.get("/healthz").body == b"ok"


def test_options_tells_what_a_stream_knows(wire: Wire, path: str) -> None:
    answer = wire.request("OPTIONS", path)
    assert (answer.status, answer.headers["allow"]) == (204, METHODS)


def test_options_may_ask_about_the_server(wire: Wire) -> None:
    """RFC 9110 §9.3.7: the target `*`."""
    assert wire.request("OPTIONS", "*").status == 204


KNOWN = {
    "/v1/stream/a": METHODS,
    "/v1/stream/a/__ds/snapshot": "GET, HEAD",
    "/v1/stream/__ds/subscriptions/s": "PUT, GET, HEAD, DELETE",
    "/healthz": "GET, HEAD",
    "/metrics": "GET, HEAD",
    "/ui/": "GET, HEAD",
    "/admin/backups": "POST",
}


@pytest.mark.parametrize("target", KNOWN)
def test_a_method_of_http_that_a_resource_does_not_know_is_a_405(start_either: StartEither, target: str) -> None:
    with start_either().connect() as wire:
        for method in ("PATCH", "TRACE"):
            answer = wire.request(method, target)
            assert (answer.status, answer.headers["allow"]) == (405, KNOWN[target])


@pytest.mark.parametrize("target", KNOWN)
def test_a_method_that_no_resource_knows_is_a_501(start_either: StartEither, target: str) -> None:
    """RFC 9110 §9.1: not that the resource lacks it, the server does."""
    with start_either().connect() as wire:
        answer = wire.request("PROPFIND", target)
        assert (answer.status, "allow" in answer.headers) == (501, False)
        assert wire.get("/healthz").status == 200


@pytest.mark.parametrize("probe", ["/healthz", "/readyz"])
def test_a_probe_knows_get_and_head_only(wire: Wire, probe: str) -> None:
    answer = wire.request("POST", probe, b"x")
    assert answer.refusal == (405, "method_not_allowed")
    assert answer.headers["allow"] == "GET, HEAD"
    assert wire.request("HEAD", probe).status == 200


@pytest.mark.parametrize("target", ["/", "/v1", "/v1/stream", "/v1/streamy/a", "/V1/stream/a", "//v1/stream/a"])
def test_what_is_no_stream_is_not_found(wire: Wire, target: str) -> None:
    assert wire.get(target).refusal == (404, "not_found")


def test_connect_opens_no_tunnel(wire: Wire) -> None:
    assert wire.request("CONNECT", "example.com:443").status == 404
    assert wire.get("/healthz").status == 200


@pytest.mark.parametrize("origin", ["http://example.com", "HTTP://EXAMPLE.COM:80", "https://example.com"])
def test_an_absolute_target_is_taken_by_its_path(wire: Wire, path: str, origin: str) -> None:
    """RFC 9112 §3.2.2."""
    wire.create(path, body=b"hello")
    assert wire.get(f"{origin}{path}?offset=-1").body == b"hello"


def test_a_body_that_nobody_asked_for_does_no_harm(wire: Wire, path: str) -> None:
    wire.create(path, body=b"hello")
    assert wire.request("GET", path, b"ignored").body == b"hello"
    assert wire.request("DELETE", path, b"ignored").status == 204
