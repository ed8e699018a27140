"""Bodies in chunks."""

import pytest

from tests.kit.server_thread import RunningServer, eventually, resident_bytes
from tests.kit.wire import Wire, chunked, render

CHUNKED = {"content_type": "text/plain", "transfer_encoding": "chunked"}


def test_chunks_are_one_body(wire: Wire, path: str) -> None:
    wire.create(path)
    wire.ask("POST", path, **CHUNKED).send(chunked(b"hel", b"lo"))
    assert wire.read().next_offset == "0000000000000005"
    assert wire.get(path).body == b"hello"


def test_tiny_chunks_are_one_body(wire: Wire, path: str) -> None:
    wire.create(path)
    wire.ask("POST", path, **CHUNKED).send(chunked(*[b"x"] * 5000))
    assert wire.read().next_offset == f"{5000:016d}"


def test_tiny_chunks_take_no_more_memory_than_large_ones(server: RunningServer, wire: Wire, path: str) -> None:
    wire.ask("POST", path, **CHUNKED)
    before = resident_bytes()
    for _ in range(40):
        wire.send(b"2\r\nab\r\n" * 40_000)
    (held,) = server.find(lambda state: state.receiving)
    assert eventually(lambda: held.inspect().body_bytes == 3_200_000)
    assert resident_bytes() - before < 20_000_000


def test_a_chunked_request_may_be_cut_at_every_byte(wire: Wire, path: str) -> None:
    wire.create(path)
    for byte in render("POST", path, **CHUNKED) + chunked(b"hel", b"lo", trailers=b"X-Sum: 1\r\n"):
        wire.send(bytes([byte]))
    assert wire.read().next_offset == "0000000000000005"


def test_an_empty_chunked_body_is_an_empty_body(wire: Wire, path: str) -> None:
    wire.create(path)
    wire.ask("POST", path, **CHUNKED).send(chunked())
    assert wire.read().refusal == (400, "empty_append")


def test_chunk_extensions_are_skipped(wire: Wire, path: str) -> None:
    wire.create(path)
    wire.ask("POST", path, **CHUNKED).send(b'5;name=value;other="quoted"\r\nhello\r\n0;last\r\n\r\n')
    assert wire.read().status == 204
    assert wire.get(path).body == b"hello"


def test_a_created_stream_may_begin_with_chunks(wire: Wire, path: str) -> None:
    wire.ask("PUT", path, **CHUNKED).send(chunked(b"hel", b"lo"))
    assert wire.read().next_offset == "0000000000000005"


@pytest.mark.parametrize("trailer", ["Stream-Closed: true", "Stream-Seq: 5", "Content-Type: text/html", "Host: other"])
def test_trailers_are_not_headers(wire: Wire, path: str, trailer: str) -> None:
    """RFC 9110 §6.5.1: whoever checked the headers has not seen them."""
    wire.create(path)
    wire.ask("POST", path, **CHUNKED).send(chunked(b"a", trailers=f"{trailer}\r\n".encode()))
    assert wire.read().status == 204
    assert wire.append(path, b"b", stream_seq="1").status == 204


def test_the_connection_goes_on_behind_trailers(wire: Wire, path: str) -> None:
    wire.create(path)
    wire.ask("POST", path, **CHUNKED).send(chunked(b"a", trailers=b"X-Sum: 1\r\nX-Other: 2\r\n"))
    assert wire.read().status == 204
    assert wire.get(path).body == b"a"
