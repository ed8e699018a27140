"""Requests that cannot be read: a problem document, and the end of the connection, which cannot be trusted any more."""

import pytest

from tests.kit.servers import Connect, Start, StartEither
from tests.kit.wire import Wire, chunked, render

MALFORMED = {
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no method": b" /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
    "no target": b"BREW HTTP/1.1\r\nHost: a\r\n\r\n",
    "an unknown method of no HTTP": b"BREW /healthz\r\n\r\n",
    "space in the target": b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
    "NUL in the target": b"GET /a\0b HTTP/1.1\r\nHost: a\r\n\r\n",
    "control character in the target": b"GET /a\x01b HTTP/1.1\r\nHost: a\r\n\r\n",
    "fragment in the target": b"GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n",
    "relative target": b"GET healthz HTTP/1.1\r\nHost: a\r\n\r\n",
    "line ends without CR": b"GET /healthz HTTP/1.1\nHost: a\n\n",
    "header without colon": b"GET /healthz HTTP/1.1\r\nHost: a\r\nX\r\n\r\n",
    "header without name": b"GET /healthz HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n",
    "space in a header name": b"GET /healthz HTTP/1.1\r\nHost: a\r\nX Y: b\r\n\r\n",
    "space before a colon": b"GET /healthz HTTP/1.1\r\nHost : a\r\n\r\n",
    "folded header": b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n",
    "NUL in a header": b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: b\0c\r\n\r\n",
    "CR in a header": b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: b\rc\r\n\r\n",
    "space in Host": b"GET /healthz HTTP/1.1\r\nHost: a b\r\n\r\n",
    "slash in Host": b"GET /healthz HTTP/1.1\r\nHost: a/b\r\n\r\n",
    "tag in Host": b"GET /healthz HTTP/1.1\r\nHost: <b>\r\n\r\n",
    "user in Host": b"GET /healthz HTTP/1.1\r\nHost: a@b\r\n\r\n",
    "no number behind Host": b"GET /healthz HTTP/1.1\r\nHost: a:b\r\n\r\n",
    "half an address in Host": b"GET /healthz HTTP/1.1\r\nHost: [::1\r\n\r\n",
    "Latin-1 in Host": b"GET /healthz HTTP/1.1\r\nHost: caf\xe9\r\n\r\n",
    "absolute target without a path": b"GET http://a HTTP/1.1\r\nHost: a\r\n\r\n",
    "absolute target with a query alone": b"GET http://a?b=/healthz HTTP/1.1\r\nHost: a\r\n\r\n",
    "no Host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "two Hosts": b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
    "empty length": b"POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n",
    "signed length": b"POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\na",
    "negative length": b"POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\na",
    "hexadecimal length": b"POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\na",
    "list of lengths": b"POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\na",
    "two lengths": b"POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na",
    "length beyond 64 bits": b"POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
    "length and chunks": (
        b"POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    ),
    "chunks and length": (
        b"POST /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"
    ),
    "chunked not last": b"POST /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "chunked and more": b"POST /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunked twice": (
        b"POST /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"
    ),
    "identity": b"POST /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\na",
    "not quite chunked": b"POST /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
}

CHUNKED_HEAD = b"POST /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
BAD_CHUNKS = {
    "no hexadecimal size": b"zz\r\n",
    "negative size": b"-1\r\na\r\n",
    "size beyond 64 bits": b"fffffffffffffffff\r\n",
    "empty size": b"\r\n",
    "more than its size": b"3\r\nabcdef\r\n",
    "less than its size": b"6\r\nabc\r\n0\r\n\r\n",
    "line end without CR": b"3\nabc\n0\n\n",
    "control character in an extension": b"3;a\0b\r\nabc\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("request_bytes", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_request_is_a_400_and_the_end(wire: Wire, request_bytes: bytes) -> None:
    answer = wire.send(request_bytes).read()
    assert answer.refusal == (400, "bad_request")
    assert answer.headers["connection"] == "close"
    assert wire.ended()


@pytest.mark.parametrize("before", [b"", render("GET", "/healthz"), render("POST", "/healthz", b"x y\n")])
@pytest.mark.parametrize("method", [b"BREW", b"get", b"GETS", b"X"])
def test_a_method_that_is_not_of_http_is_a_501_and_the_end(wire: Wire, before: bytes, method: bytes) -> None:
    """RFC 9110 §15.6.2: the parser stops at it, so that nothing behind it can be read."""
    wire.send(before + method + b" /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
    if before:
        wire.read()
    assert wire.read().refusal == (501, "method_not_implemented")
    assert wire.ended()


@pytest.mark.parametrize("version", [b"", b" HTTP/0.9", b" HTTP/2.0", b" HTTP/1.2", b" HTTP/3.0"])
def test_a_version_that_is_not_spoken_is_refused(wire: Wire, version: bytes) -> None:
    answer = wire.send(b"GET /healthz%b\r\nHost: a\r\n\r\n" % version).read()
    assert answer.refusal in {(505, "version_not_supported"), (400, "bad_request")}
    assert wire.ended()


@pytest.mark.parametrize("chunks", BAD_CHUNKS.values(), ids=BAD_CHUNKS)
def test_a_malformed_chunk_is_a_400_and_the_end(wire: Wire, chunks: bytes) -> None:
    answer = wire.send(CHUNKED_HEAD + chunks).read()
    assert answer.refusal == (400, "bad_request")
    assert wire.ended()


def test_chunks_in_http_1_0_are_not_trusted(wire: Wire) -> None:
    """RFC 9112 §6.1: whoever forwarded it may have seen another end."""
    wire.send(CHUNKED_HEAD.replace(b"1.1", b"1.0").replace(b"Host: a", b"Connection: keep-alive") + chunked(b"a"))
    assert wire.read().headers["connection"] == "close"
    assert wire.ended()


def test_a_second_request_needs_a_good_host_too(wire: Wire) -> None:
    """What the first one had says nothing about it."""
    wire.send(b"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    assert wire.read().status == 200
    assert wire.get("/healthz", host="a").status == 200
    wire.send(b"GET /healthz HTTP/1.1\r\n\r\n")
    assert wire.read().refusal == (400, "bad_request")


def test_a_later_request_with_an_odd_host_is_refused(wire: Wire) -> None:
    assert wire.get("/healthz", host="a").status == 200
    assert wire.get("/healthz", host="a,b").refusal == (400, "bad_request")


@pytest.mark.parametrize(
    "host", ["", "a", "a-b.example:4437", "a_b", "127.0.0.1:80", "[::1]:4437", "[::ffff:1.2.3.4]", "a."]
)
def test_names_and_addresses_are_hosts(start_either: StartEither, host: str) -> None:
    with start_either().connect() as wire:
        assert wire.get("/healthz", host=host).status == 200


@pytest.mark.parametrize("host", ["a/b", "a,b", "<b>", "a@b", "a:b", "[::1", "a b", "a?b", "a#b", 'a"b', "a\\b"])
def test_other_characters_in_host_are_refused(start_either: StartEither, path: str, host: str) -> None:
    """URLs that are told are built of it."""
    with start_either().connect() as wire:
        assert wire.request("PUT", path, host=host).refusal == (400, "bad_request")


def test_what_follows_a_malformed_request_is_never_handled(wire: Wire, path: str, connect: Connect) -> None:
    wire.create(path, body=b"kept")
    wire.send(MALFORMED["header without colon"] + render("DELETE", path))
    assert wire.read().status == 400
    assert wire.ended()
    assert connect().get(path).body == b"kept"


def test_what_precedes_a_malformed_request_is_answered_first(wire: Wire, path: str) -> None:
    wire.send(render("GET", "/healthz") + MALFORMED["no HTTP"])
    assert [wire.read().status, wire.read().status] == [200, 400]


@pytest.mark.parametrize("size", [32 * 1024 + 1, 1_000_000])
def test_a_header_over_32_kib_is_a_431(wire: Wire, size: int) -> None:
    answer = wire.ask("GET", "/healthz", x="a" * size).read()
    assert answer.refusal == (431, "headers_too_large")
    assert answer.headers["connection"] == "close"


def test_many_headers_over_32_kib_are_a_431(wire: Wire) -> None:
    many = {f"x_{number}": "a" * 100 for number in range(400)}
    assert wire.get("/healthz", **many).refusal == (431, "headers_too_large")


def test_many_tiny_headers_over_32_kib_are_a_431(wire: Wire) -> None:
    """A header line costs more than its name and value."""
    wire.send(b"GET /healthz HTTP/1.1\r\nHost: a\r\n" + b"a:\r\n" * 20_000 + b"\r\n")
    assert wire.read().refusal == (431, "headers_too_large")


def test_a_target_over_32_kib_is_a_431(wire: Wire) -> None:
    assert wire.get("/healthz?" + "a" * 33_000).refusal == (431, "headers_too_large")


@pytest.mark.parametrize("beginning", [b"", b"GET /", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nX: "])
def test_a_head_without_end_is_refused_while_it_is_still_coming(wire: Wire, beginning: bytes) -> None:
    wire.send(beginning)
    wire.send_slowly([b"A" * 4096] * 40, 0.001)
    assert wire.read().status in {400, 431}
    assert wire.ended()


def test_trailers_without_end_are_a_431(wire: Wire) -> None:
    wire.send(CHUNKED_HEAD + b"1\r\na\r\n0\r\nX: ")
    wire.send_slowly([b"a" * 65536] * 40, 0.001)
    assert wire.read().refusal == (431, "headers_too_large")


def test_a_head_below_the_limit_may_come_in_pieces(wire: Wire) -> None:
    """What was counted once is not counted again."""
    request = render("GET", "/healthz", **{f"x_{number}": "a" * 1000 for number in range(30)})
    for start in range(0, len(request), 5000):
        wire.send(request[start : start + 5000])
    assert wire.read().status == 200


def test_a_large_body_does_not_count_against_the_next_head(wire: Wire, path: str) -> None:
    wire.create(path)
    append = render("POST", path, b"a" * 200_000, content_type="text/plain")
    wire.send(append + append[:40]).send(append[40:])
    assert [wire.read().status, wire.read().status] == [204, 204]


def test_the_limit_is_a_setting(start: Start, connect: Connect) -> None:
    server = start(limits__max_header_bytes=1000)
    assert connect(server).get("/healthz", x="a" * 1001).refusal == (431, "headers_too_large")
    assert connect(server).get("/healthz", x="a" * 800).status == 200


def test_a_refused_connection_disturbs_no_other(wire: Wire, path: str, connect: Connect) -> None:
    wire.create(path)
    follower = connect().follow(f"{path}?offset=-1&live=sse")
    follower.control()
    for request in MALFORMED.values():
        connect().send(request)
    assert wire.append(path, b"hello").status == 204
    assert follower.data() == b"hello"


@pytest.mark.parametrize("headers", [{}, {"accept_encoding": "gzip"}], ids=["plain", "compressed"])
def test_large_answers_that_precede_a_malformed_request_are_given_first(
    wire: Wire, path: str, headers: dict[str, str]
) -> None:
    wire.create(path, body=b"a" * 1_000_000)
    wire.send(render("GET", path, **headers) * 12 + MALFORMED["no HTTP"])
    assert {wire.read().status for _ in range(12)} == {200}
    assert wire.read().status == 400
