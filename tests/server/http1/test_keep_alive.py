"""How long a connection lasts: HTTP/1.1, HTTP/1.0, and whoever says so."""

import pytest

from tests.kit.servers import Connect
from tests.kit.wire import Wire


def test_a_connection_serves_request_after_request(wire: Wire, path: str) -> None:
    wire.create(path)
    assert [wire.append(path, b"a").status for _ in range(3)] == [204, 204, 204]
    assert wire.get(path).body == b"aaa"


def test_http_1_1_says_nothing_about_a_connection_that_goes_on(wire: Wire) -> None:
    assert "connection" not in wire.get("/healthz").headers


def test_connection_close_is_answered_and_obeyed(wire: Wire) -> None:
    assert wire.get("/healthz", connection="close").headers["connection"] == "close"
    assert wire.ended()


def test_requests_behind_connection_close_are_not_handled(wire: Wire, path: str, connect: Connect) -> None:
    wire.create(path)
    wire.ask("POST", path, b"a", content_type="text/plain", connection="close")
    wire.ask("POST", path, b"b", content_type="text/plain")
    assert wire.read().status == 204
    assert wire.ended()
    assert connect().get(path).body == b"a"


def test_an_http_1_0_connection_ends_after_the_answer(wire: Wire) -> None:
    answer = wire.send(b"GET /healthz HTTP/1.0\r\n\r\n").read()
    assert (answer.status, answer.headers["connection"]) == (200, "close")
    assert wire.ended()


def test_an_http_1_0_connection_is_kept_when_asked_for(wire: Wire) -> None:
    for _ in range(2):
        answer = wire.send(b"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").read()
        assert answer.headers["connection"] == "keep-alive"


def test_an_http_1_0_event_stream_is_unframed_and_ends_with_its_connection(wire: Wire, path: str) -> None:
    """Chunks are HTTP/1.1's; keeping the connection is not possible then."""
    wire.create(path, body=b"hello", stream_closed="true")
    wire.send(f"GET {path}?offset=-1&live=sse HTTP/1.0\r\nConnection: keep-alive\r\n\r\n".encode())
    head = wire.read_head()
    assert "transfer-encoding" not in head.headers
    assert head.headers["connection"] == "close"
    assert wire.rest().startswith(b"event: data\ndata:hello\n")


def test_a_client_that_stops_sending_still_gets_its_answers(wire: Wire, path: str) -> None:
    wire.create(path)
    wire.ask("POST", path, b"a", content_type="text/plain").ask("GET", path).stop_sending()
    assert wire.read().status == 204
    assert wire.read().body == b"a"
    assert wire.ended()


def test_a_client_that_stops_sending_still_gets_a_compressed_answer(wire: Wire, path: str) -> None:
    wire.create(path, body=b"a" * 100_000)
    wire.ask("GET", path, accept_encoding="gzip").stop_sending()
    assert wire.read().headers["content-encoding"] == "gzip"


def test_empty_lines_before_a_request_are_skipped(wire: Wire) -> None:
    """RFC 9112 §2.2."""
    assert wire.send(b"\r\n\r\n").get("/healthz").status == 200


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_request_may_arrive_in_any_two_pieces(wire: Wire, cut: int) -> None:
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nAccept: text/plain\r\n\r\n"
    assert wire.send(request[:cut]).send(request[cut:]).read().status == 200


def test_every_answer_has_a_date(wire: Wire) -> None:
    assert wire.get("/healthz").headers["date"].endswith(" GMT")
    assert wire.get("/nothing").headers["date"].endswith(" GMT")
