"""Plain HTTP over the standard library: kept connections, bodies as they arrive, and errors in the client's words."""

import gzip
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from everbrook import InvalidAnswer
from everbrook.client import ConnectionBroken, NotConnected, Request, ResponseLate
from everbrook.client.wire.http1 import Headers, PlainWire

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@contextmanager
def server(*connections: list[bytes]) -> Iterator[str]:
    """A server that answers each request of each connection with the next bytes, then hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for answers in connections:
                accepted, _ = listener.accept()
                with accepted:
                    for answer in answers:
                        if not accepted.recv(65536):
                            break
                        accepted.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        thread.join(10)


@pytest.fixture
def wire() -> Iterator[PlainWire]:
    wire = PlainWire()
    yield wire
    wire.close()


def asking(url: str, content: bytes | None = None, **headers: str) -> Request:
    return Request("GET" if content is None else "POST", url, headers, content, 0.5, 0.5)


def body_of(wire: PlainWire, request: Request) -> bytes:
    answer = wire.send(request)
    try:
        return answer.read()
    finally:
        answer.close()


def test_a_connection_is_used_again(wire: PlainWire) -> None:
    with server([OK, OK]) as url:
        assert [body_of(wire, asking(url)), body_of(wire, asking(url, b"x"))] == [b"ok", b"ok"]


def test_a_connection_that_the_server_closed_is_not_used_again(wire: PlainWire) -> None:
    with server([OK], [OK]) as url:
        first = body_of(wire, asking(url))
        threading.Event().wait(0.2)
        assert (first, body_of(wire, asking(url))) == (b"ok", b"ok")


def test_an_answer_that_was_not_read_is_no_reason_to_wait(wire: PlainWire) -> None:
    with server([OK], [OK]) as url:
        wire.send(asking(url)).close()
        assert body_of(wire, asking(url)) == b"ok"


def test_a_body_is_given_as_it_arrives(wire: PlainWire) -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n"
    with server([chunked]) as url:
        answer = wire.send(asking(url))
        assert next(answer.iter_bytes()) == b"one"
        answer.close()


def test_an_answer_that_is_interrupted_breaks_off(wire: PlainWire) -> None:
    begun = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\no"
    with server([begun, b"never asked for"]) as url:
        answer = wire.send(Request("GET", url, {}, None, 10, 10))
        threading.Timer(0.1, answer.interrupt).start()
        with pytest.raises(ConnectionBroken, match="4 bytes before the end of the response"):
            answer.read()
        answer.close()


def url_of(listener: socket.socket) -> str:
    return f"http://127.0.0.1:{listener.getsockname()[1]}/"


@pytest.mark.parametrize(
    "coding, packed, body", [("gzip", gzip.compress(b"ok" * 1000, mtime=0), b"ok" * 1000), ("identity", b"ok", b"ok")]
)
def test_a_body_is_unpacked(wire: PlainWire, coding: str, packed: bytes, body: bytes) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {len(packed)}\r\n\r\n"
    with server([head.encode() + packed]) as url:
        assert body_of(wire, asking(url)) == body


@pytest.mark.parametrize("coding", ["gzip", "br"])
def test_a_body_that_can_not_be_unpacked_is_told(wire: PlainWire, coding: str) -> None:
    answer = f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: 2\r\n\r\nok"
    with server([answer.encode()]) as url, pytest.raises(InvalidAnswer, match="Content-Encoding"):
        body_of(wire, asking(url))


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\no",
    ],
)
def test_an_answer_that_is_cut_off_or_none_is_an_error(wire: PlainWire, answer: bytes) -> None:
    with server([answer]) as url, pytest.raises(ConnectionBroken):
        body_of(wire, asking(url))


def test_a_server_that_says_nothing_is_late(wire: PlainWire) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(ResponseLate):
        wire.send(asking(url_of(listener)))


@pytest.mark.parametrize("port", [1, 99999])
def test_a_port_where_nobody_listens_is_no_connection(wire: PlainWire, port: int) -> None:
    with pytest.raises(NotConnected):
        wire.send(asking(f"http://127.0.0.1:{port}/"))


def test_a_refusal_is_read_though_the_server_did_not_take_the_whole_request(wire: PlainWire) -> None:
    refusal = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno"
    with server([refusal]) as url:
        answer = wire.send(asking(url, b"x" * 8_000_000))
        answer.close()
    assert answer.status_code == 413


def test_what_is_asked_for_overrides_what_is_always_sent(wire: PlainWire) -> None:
    seen: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            accepted, _ = listener.accept()
            with accepted:
                seen.append(accepted.recv(65536).lower())
                accepted.sendall(OK)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        body_of(wire, asking(url_of(listener), Accept="text/event-stream"))
        thread.join()
    assert (seen[0].count(b"accept:"), b"accept: text/event-stream" in seen[0]) == (1, True)


def test_https_is_never_sent_in_the_clear(wire: PlainWire) -> None:
    seen: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            accepted, _ = listener.accept()
            with accepted:
                seen.append(accepted.recv(65536))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        with pytest.raises(ConnectionBroken):
            wire.send(asking(f"https://127.0.0.1:{listener.getsockname()[1]}/secret"))
        thread.join()
    assert seen[0][:1] == b"\x16"  # a TLS handshake


def test_names_of_headers_are_the_same_in_any_case() -> None:
    headers = Headers([("Stream-Closed", "true"), ("Vary", "a"), ("vary", "b")])
    assert (headers.get("stream-closed"), headers["VARY"], "Location" in headers) == ("true", "a, b", False)
