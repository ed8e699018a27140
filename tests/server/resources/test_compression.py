"""Compression of catch-up reads, when it is asked for and worth it."""

import gzip
import sys
from random import Random

import pytest

from tests.kit.servers import Connect, Start
from tests.kit.wire import Answer, Wire

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

TEXT = b"It was the best of times, it was the worst of times. " * 100
LARGE = TEXT * 20  # too large to be compressed between two other requests


def decoded(answer: Answer) -> bytes:
    coding = answer.headers.get("content-encoding")
    if coding == "gzip":
        return gzip.decompress(answer.body)
    if coding == "zstd":
        return zstd.decompress(answer.body)
    assert coding is None
    return answer.body


@pytest.mark.parametrize("body", [TEXT, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_a_page_is_compressed_as_asked(wire: Wire, path: str, coding: str, body: bytes) -> None:
    wire.create(path, body=body)
    answer = wire.get(path, accept_encoding=coding)
    assert answer.headers["content-encoding"] == coding
    assert len(answer.body) < len(body) / 5
    assert decoded(answer) == body


@pytest.mark.parametrize(
    "accepted, chosen",
    [
        ("gzip, deflate", "gzip"),
        ("gzip, deflate, br, zstd", "zstd"),
        ("GZIP", "gzip"),
        ("zstd;q=0.5, gzip;q=0.8", "gzip"),
        ("zstd;q=0, gzip", "gzip"),
        ("zstd ; q=0.001 , gzip;q=0", "zstd"),
        ("*", "zstd"),
        ("*;q=0.1, zstd;q=0", "gzip"),
        ("gzip;q=0", None),
        ("*;q=0", None),
        ("identity", None),
        ("br", None),
        ("", None),
        ("gzip;q=bad", None),
        ("identity;q=1, gzip;q=0.5", None),
    ],
)
def test_the_coding_is_what_the_client_likes_best(wire: Wire, path: str, accepted: str, chosen: str | None) -> None:
    """RFC 9110 §12.5.3."""
    wire.create(path, body=TEXT)
    answer = wire.get(path, accept_encoding=accepted)
    assert answer.headers.get("content-encoding") == chosen
    assert decoded(answer) == TEXT


def test_nothing_is_compressed_unasked(wire: Wire, path: str) -> None:
    wire.create(path, body=TEXT)
    assert wire.get(path).body == TEXT


def test_caches_learn_what_the_answer_depends_on(wire: Wire, path: str) -> None:
    wire.create(path, body=TEXT)
    assert "Accept-Encoding" in wire.get(path).headers["vary"]
    assert "Accept-Encoding" in wire.get(path, accept_encoding="gzip").headers["vary"]


@pytest.mark.parametrize("body", [TEXT, LARGE], ids=["small", "large"])
def test_a_compressed_page_has_a_weak_tag_that_still_matches(wire: Wire, path: str, body: bytes) -> None:
    wire.create(path, body=body)
    plain, packed = wire.get(path), wire.get(path, accept_encoding="gzip")
    assert packed.headers["etag"] == f"W/{plain.headers['etag']}"
    again = wire.get(path, accept_encoding="gzip", if_none_match=packed.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    assert "Accept-Encoding" in again.headers["vary"]


def test_small_pages_are_sent_as_they_are(wire: Wire, path: str) -> None:
    wire.create(path, body=b"a" * 1023)
    assert wire.get(path, accept_encoding="gzip").body == b"a" * 1023
    wire.append(path, b"a")
    assert wire.get(path, accept_encoding="gzip").headers["content-encoding"] == "gzip"


@pytest.mark.parametrize(
    "content_type", ["image/png", "video/mp4", "audio/ogg", "font/woff2", "application/zip", "application/gzip"]
)
def test_types_that_are_dense_already_are_sent_as_they_are(wire: Wire, path: str, content_type: str) -> None:
    wire.create(path, content_type, TEXT)
    assert wire.get(path, accept_encoding="gzip").body == TEXT


@pytest.mark.parametrize("content_type", ["image/svg+xml", "application/octet-stream"])
def test_other_types_are_compressed(wire: Wire, path: str, content_type: str) -> None:
    wire.create(path, content_type, TEXT)
    assert decoded(wire.get(path, accept_encoding="gzip")) == TEXT
    assert wire.get(path, accept_encoding="gzip").headers["content-encoding"] == "gzip"


def test_json_is_compressed_whole(wire: Wire, path: str) -> None:
    wire.create(path, "application/json", b"[" + b",".join([b'{"a":1}'] * 5000) + b"]")
    assert decoded(wire.get(path, accept_encoding="zstd")) == wire.get(path).body


def test_what_does_not_shrink_is_sent_as_it_is(wire: Wire, path: str) -> None:
    noise = Random(0).randbytes(20_000)
    wire.create(path, "application/octet-stream", noise)
    answer = wire.get(path, accept_encoding="gzip")
    assert answer.body == noise
    assert "content-encoding" not in answer.headers
    assert not answer.headers["etag"].startswith("W/")


def test_the_position_is_told_with_a_compressed_page(wire: Wire, path: str) -> None:
    wire.create(path, body=LARGE)
    answer = wire.get(path, accept_encoding="gzip")
    assert answer.next_offset == f"{len(LARGE):016d}"
    assert answer.headers["stream-up-to-date"] == "true"


def test_answers_keep_their_order_while_one_is_being_compressed(wire: Wire, path: str) -> None:
    wire.create(path, body=LARGE)
    wire.ask("GET", path, accept_encoding="gzip").ask("GET", "/healthz").ask("GET", path, accept_encoding="zstd")
    assert decoded(wire.read()) == LARGE
    assert wire.read().body == b"ok"
    assert decoded(wire.read()) == LARGE


def test_the_least_size_is_a_setting(start: Start, connect: Connect, path: str) -> None:
    wire = connect(start(http__compression_min_bytes=10))
    wire.create(path, body=b"a" * 100)
    assert wire.get(path, accept_encoding="gzip").headers["content-encoding"] == "gzip"


@pytest.mark.parametrize("query", ["?offset=-1&live=sse", "?offset=-1&live=long-poll"])
def test_live_reads_are_not_compressed(wire: Wire, path: str, query: str) -> None:
    wire.create(path, body=TEXT)
    wire.ask("GET", path + query, accept_encoding="gzip")
    assert "content-encoding" not in wire.read_head().headers
