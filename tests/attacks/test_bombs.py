"""Bombs: small requests that would be large work. Each is refused clearly, and the memory stays bounded."""

import gzip

import pytest

from tests.kit.server_thread import RunningServer, eventually, resident_bytes
from tests.kit.servers import Connect, Start
from tests.kit.wire import Wire, chunked, render

MEGABYTE = 1024 * 1024
JSON = "application/json"


@pytest.fixture
def target(start: Start) -> RunningServer:
    return start(limits__max_append_bytes=2 * MEGABYTE)


@pytest.fixture
def wire(target: RunningServer, connect: Connect, path: str) -> Wire:
    wire = connect(target)
    wire.create(path, JSON)
    return wire


# What is packed


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "gzip, gzip"])
def test_a_packed_body_is_not_unpacked(wire: Wire, path: str, coding: str) -> None:
    """30 kB that would be 30 MB."""
    bomb = gzip.compress(b"[" + b"1," * (15 * MEGABYTE) + b"1]")
    before = resident_bytes()
    answer = wire.append(path, bomb, JSON, content_encoding=coding)
    assert answer.refusal == (415, "unsupported_coding")
    assert resident_bytes() - before < 20 * MEGABYTE


# JSON


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 500_000,
        b"[" * 500_000 + b"]" * 500_000,
        b'{"a":' * 200_000 + b"1" + b"}" * 200_000,
        b"[" + b"[" * 513 + b"]" * 513 + b"]",
    ],
    ids=["open", "deep", "objects", "just too deep"],
)
def test_json_that_is_too_deep_is_refused(wire: Wire, path: str, body: bytes) -> None:
    assert wire.append(path, body, JSON).refusal == (400, "invalid_json")


@pytest.mark.parametrize(
    "body",
    [
        b"9" * MEGABYTE,
        b"1e" + b"9" * MEGABYTE,
        b"-0." + b"0" * MEGABYTE + b"1",
        b'{"' + b"k" * MEGABYTE + b'":1}',
        b"{" + b",".join(b'"k%d":1' % number for number in range(100_000)) + b"}",
        b'{"a":1' + b',"a":1' * 100_000 + b"}",
        b'"' + b"\\u0041" * 100_000 + b'"',
    ],
    ids=["number", "exponent", "fraction", "key", "keys", "one key", "escapes"],
)
def test_json_that_is_long_or_wide_costs_no_more_than_its_bytes(wire: Wire, path: str, body: bytes) -> None:
    before = resident_bytes()
    answer = wire.append(path, body, JSON)
    assert answer.status in {204, 400}
    assert resident_bytes() - before < 40 * MEGABYTE
    assert wire.get("/healthz").status == 200


def test_a_batch_of_very_many_values_is_refused_or_taken_in_bounded_memory(wire: Wire, path: str) -> None:
    before = resident_bytes()
    assert wire.append(path, b"[" + b"1," * 900_000 + b"1]", JSON).status in {204, 413}
    assert resident_bytes() - before < 150 * MEGABYTE


# Heads


@pytest.mark.parametrize(
    "head",
    [
        b"X: " + b"a" * MEGABYTE + b"\r\n",
        b"a" * MEGABYTE + b": x\r\n",
        b"".join(b"X-%d: a\r\n" % number for number in range(50_000)),
        b"X: a\r\n" * 50_000,
    ],
    ids=["value", "name", "many", "one often"],
)
def test_a_head_that_is_too_large_is_refused(wire: Wire, head: bytes) -> None:
    wire.send_slowly([b"GET /healthz HTTP/1.1\r\nHost: a\r\n" + head + b"\r\n"], 0)
    assert wire.read().refusal == (431, "headers_too_large")


def test_a_target_that_is_too_long_is_refused(wire: Wire) -> None:
    wire.send_slowly([b"GET /v1/stream/" + b"a" * MEGABYTE + b" HTTP/1.1\r\nHost: a\r\n\r\n"], 0)
    assert wire.read().refusal == (431, "headers_too_large")


# Chunks


def test_very_many_tiny_chunks_are_one_body(wire: Wire, path: str) -> None:
    before = resident_bytes()
    wire.ask("POST", path, transfer_encoding="chunked", content_type=JSON)
    wire.send(chunked(b'"', *[b"a"] * 300_000, b'"'))
    assert wire.read().status == 204
    # The client's own list of chunks is in this process too.
    assert resident_bytes() - before < 60 * MEGABYTE


def test_chunk_extensions_without_end_are_refused(wire: Wire, path: str) -> None:
    wire.ask("POST", path, transfer_encoding="chunked", content_type=JSON)
    wire.send_slowly([b"1;" + b"a" * 200_000], 0)
    assert wire.read().status in {400, 431}


def test_trailers_without_end_are_refused(wire: Wire, path: str) -> None:
    wire.ask("POST", path, transfer_encoding="chunked", content_type=JSON)
    wire.send_slowly([b"1\r\n1\r\n0\r\n" + b"X: aaaaaaaa\r\n" * 20_000], 0)
    assert wire.read().refusal == (431, "headers_too_large")


def test_a_chunk_that_claims_to_be_endless_is_refused(wire: Wire, path: str) -> None:
    wire.ask("POST", path, transfer_encoding="chunked", content_type=JSON)
    wire.send_slowly([b"ffffffffffffffffff\r\naaa"], 0)
    assert wire.read().status in {400, 413}


# Pipelining, queries, lists


def test_a_flood_of_requests_whose_answers_nobody_reads_is_not_taken_in(
    target: RunningServer, connect: Connect, path: str
) -> None:
    connect(target).create(path, body=b"a" * MEGABYTE)
    flood = connect(target, 4096)
    before = resident_bytes()
    flood.send_until_blocked(render("GET", path) * 1000, 8 * MEGABYTE)
    assert target.unsent_bytes() < 4 * MEGABYTE
    assert resident_bytes() - before < 40 * MEGABYTE


@pytest.mark.parametrize(
    "query",
    ["limit=999999999999", "limit=0", "limit=-1", "limit=1e9", "limit=" + "9" * 5000, "prefix=" + "%2F" * 5000],
)
def test_a_list_is_never_longer_than_it_may_be(wire: Wire, query: str) -> None:
    answer = wire.get(f"/v1/stream/__ds/streams?{query}")
    assert answer.status in {200, 400}
    assert len(answer.body) < MEGABYTE


@pytest.mark.parametrize("pattern", ["**/" * 3000 + "a", "*" * 5000, "a/" * 5000, "{a,b}" * 2000])
def test_a_pattern_that_is_work_is_refused_or_cheap(wire: Wire, pattern: str) -> None:
    body = b'{"type":"pull-wake","pattern":"%b","wake_stream":"/v1/stream/w"}' % pattern.encode()
    answer = wire.request("PUT", "/v1/stream/__ds/subscriptions/bomb", body, content_type=JSON)
    assert answer.status < 500
    wire.create("/v1/stream/" + "a/" * 30 + "a")
    assert eventually(lambda: wire.get("/healthz").status == 200)
