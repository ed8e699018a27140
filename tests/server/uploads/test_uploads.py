"""Bodies that are taken as they come: bounded, in order, and gone without a trace when they do not become whole."""

import pytest

from tests.kit.server_thread import eventually
from tests.kit.servers import Connect, StartEither
from tests.kit.wire import Wire, chunked, render
from tests.server.uploads.blobs import Server, WatchedStorage, etag_of, memory_blobs, none_left

MAX_BYTES = 200_000
EXPECT = {"expect": "100-continue"}
CHUNKED = {"transfer_encoding": "chunked"}


@pytest.fixture
def served(start_either: StartEither, storage: WatchedStorage) -> Server:
    return start_either(storage, limits__max_snapshot_bytes=MAX_BYTES, limits__max_append_bytes=1000)


def refused(wire: Wire) -> tuple[int, object]:
    return wire.read().refusal


# Whole


def test_a_body_is_a_snapshot(wire: Wire, url: str) -> None:
    assert wire.request("PUT", url, b"folded").status == 204
    assert wire.get(url).body == b"folded"


@pytest.mark.parametrize("length", [{}, {"content_length": "0"}, CHUNKED], ids=["none", "zero", "chunked"])
def test_no_body_is_an_empty_snapshot(wire: Wire, url: str, length: dict[str, str]) -> None:
    wire.ask("PUT", url, **length).send(chunked() if length is CHUNKED else b"")
    assert wire.read().status == 204
    answer = wire.get(url)
    assert (answer.status, answer.body, answer.headers["content-length"]) == (200, b"", "0")


def test_a_body_in_chunks_is_one_snapshot(wire: Wire, url: str) -> None:
    wire.ask("PUT", url, **CHUNKED).send(chunked(b"fol", b"ded", trailers=b"X-Sum: 1\r\n"))
    assert wire.read().status == 204
    assert wire.get(url).body == b"folded"


def test_a_request_may_be_cut_at_every_byte(wire: Wire, url: str) -> None:
    for byte in render("PUT", url, **CHUNKED) + chunked(b"fol", b"ded"):
        wire.send(bytes([byte]))
    assert wire.read().status == 204
    assert wire.get(url).body == b"folded"


def test_tiny_chunks_are_stored_in_large_pieces(wire: Wire, url: str, storage: WatchedStorage) -> None:
    wire.ask("PUT", url, **CHUNKED)
    for _ in range(10):
        wire.send(b"2\r\nab\r\n" * 8_000)
    assert wire.send(b"0\r\n\r\n").read().status == 204
    assert sum(storage.blobs.writes) == 160_000
    assert len(storage.blobs.writes) < 100
    assert wire.get(url).body == b"ab" * 80_000


def test_an_http_1_0_client_publishes_and_reads(wire: Wire, connect: Connect, served: Server, url: str) -> None:
    wire.send(f"PUT {url} HTTP/1.0\r\nContent-Length: 6\r\n\r\nfolded".encode())
    assert wire.read().status == 204
    old = connect(served).send(f"GET {url} HTTP/1.0\r\n\r\n".encode())
    answer = old.read()
    assert (answer.body, answer.headers["content-length"]) == (b"folded", "6")
    assert old.ended()


def test_a_stream_that_is_called_snapshot_is_a_stream(wire: Wire, path: str) -> None:
    wire.create(f"{path}/snapshot/x", body=b"hello")
    assert wire.get(f"{path}/snapshot/x").body == b"hello"
    wire.ask("PUT", f"{path}/snapshot/y", content_length="1001")
    assert refused(wire) == (413, "payload_too_large")


# Too large


@pytest.mark.parametrize("framing", ["declared", "chunked"])
def test_a_body_of_exactly_the_limit_is_taken(wire: Wire, url: str, framing: str) -> None:
    if framing == "declared":
        wire.ask("PUT", url, b"a" * MAX_BYTES)
    else:
        wire.ask("PUT", url, **CHUNKED).send(chunked(*[b"a" * (MAX_BYTES // 4)] * 4))
    assert wire.read().status == 204


def test_a_declared_body_is_refused_before_it_is_sent(wire: Wire, served: Server, url: str) -> None:
    wire.ask("PUT", url, content_length=str(MAX_BYTES + 1))
    assert refused(wire) == (413, "payload_too_large")
    assert none_left(served)


def test_a_chunked_body_is_refused_when_it_grows_too_large(wire: Wire, served: Server, url: str) -> None:
    wire.ask("PUT", url, **CHUNKED).send(b"%x\r\n%b\r\n" % (MAX_BYTES + 1, b"a" * (MAX_BYTES + 1)))
    assert refused(wire) == (413, "payload_too_large")
    assert none_left(served)


@pytest.mark.parametrize("framing", ["declared", "chunked"])
def test_a_client_that_reads_only_after_sending_everything_gets_the_refusal(wire: Wire, url: str, framing: str) -> None:
    body = b"a" * 5_000_000
    wire.send(render("PUT", url, body) if framing == "declared" else render("PUT", url, **CHUNKED) + chunked(body))
    assert refused(wire) == (413, "payload_too_large")


# Not welcome


def test_what_could_not_be_published_is_refused_before_it_is_sent(wire: Wire, path: str) -> None:
    wire.ask("PUT", f"{path}/__ds/snapshot/{7:016d}", content_length="100000")
    assert refused(wire) == (409, "snapshot_beyond_tail")


def test_a_refused_body_that_has_come_with_its_head_costs_no_connection(wire: Wire, path: str, url: str) -> None:
    wire.send(render("PUT", f"{path}/__ds/snapshot/{7:016d}", b"folded") + render("PUT", url, b"folded"))
    assert refused(wire) == (409, "snapshot_beyond_tail")
    assert wire.read().status == 204


def test_a_client_that_waits_is_asked_for_its_body(wire: Wire, url: str) -> None:
    wire.ask("PUT", url, content_length="6", **EXPECT)
    assert wire.read().status == 100
    assert wire.send(b"folded").read().status == 204


@pytest.mark.parametrize(
    "offset, length, status",
    [(7, 6, 409), (1, MAX_BYTES + 1, 413)],
    ids=["beyond the tail", "too large"],
)
def test_a_body_that_is_not_welcome_is_not_asked_for(
    wire: Wire, path: str, offset: int, length: int, status: int
) -> None:
    wire.ask("PUT", f"{path}/__ds/snapshot/{offset:016d}", content_length=str(length), **EXPECT)
    answer = wire.read()
    assert (answer.status, answer.headers["connection"]) == (status, "close")
    assert wire.ended()


# Not whole


@pytest.mark.parametrize("framing", ["declared", "chunked"])
@pytest.mark.parametrize("rude", [True, False], ids=["reset", "closed"])
def test_nothing_is_left_of_a_body_that_is_cut_off(
    wire: Wire, connect: Connect, served: Server, url: str, storage: WatchedStorage, framing: str, *, rude: bool
) -> None:
    cut = connect(served)
    if framing == "declared":
        cut.ask("PUT", url, content_length=str(MAX_BYTES)).send(b"a" * 150_000)
    else:
        cut.ask("PUT", url, **CHUNKED).send(chunked(b"a" * 150_000)[:-5])
    assert eventually(lambda: storage.blobs.used_bytes)
    cut.reset() if rude else cut.close()
    assert none_left(served)
    assert wire.get(url).refusal == (404, "snapshot_not_found")


def test_a_body_with_a_broken_chunk_is_refused(wire: Wire, served: Server, url: str, storage: WatchedStorage) -> None:
    wire.ask("PUT", url, **CHUNKED).send(b"%x\r\n%b\r\n" % (100_000, b"a" * 100_000))
    assert eventually(lambda: storage.blobs.used_bytes)
    wire.send(b"zz\r\n")
    assert wire.read().status == 400
    assert none_left(served)


# In order


def test_an_upload_does_not_overtake_the_requests_before_it(wire: Wire, path: str) -> None:
    other, snapshot = f"{path}/other", f"{path}/other/__ds/snapshot/{5:016d}"
    wire.send(
        render("PUT", other, content_type="text/plain")
        + render("POST", other, b"hello", content_type="text/plain")
        + render("PUT", snapshot, b"folded")
        + render("GET", snapshot)
        + render("HEAD", other)
    )
    assert [wire.read().status for _ in range(3)] == [201, 204, 204]
    assert wire.read().body == b"folded"
    assert wire.read(head_only=True).headers["stream-snapshot-offset"] == f"{5:016d}"


def test_uploads_in_a_row_see_each_other(wire: Wire, url: str) -> None:
    """The second is only welcome when the first is published."""
    wire.ask("PUT", url, b"first").ask("PUT", url, b"second", if_match=etag_of(1, b"first"))
    wire.ask("PUT", url, b"third", if_match=etag_of(1, b"first")).ask("GET", url)
    assert [wire.read().status for _ in range(3)] == [204, 204, 412]
    assert wire.read().body == b"second"


def test_an_upload_and_what_follows_it_may_wait_in_one_line(wire: Wire, path: str, url: str) -> None:
    wire.send(b"".join(render("PUT", url, b"%d" % number) + render("GET", url) for number in range(50)))
    for number in range(50):
        assert wire.read().status == 204
        assert wire.read().body == b"%d" % number


# No faster than it is stored


def test_no_more_is_read_than_the_disk_takes(
    start_either: StartEither, connect: Connect, storage: WatchedStorage
) -> None:
    server = start_either(storage, server__idle_timeout_secs=0.05, server__request_timeout_secs=0.05)
    sender = connect(server)
    sender.create("/v1/stream/slow", body=b"a")
    storage.blobs.gate.clear()
    sender.ask("PUT", f"/v1/stream/slow/__ds/snapshot/{1:016d}", content_length="60000000")
    sent = sender.send_until_blocked(b"a" * 100_000, 50_000_000)
    assert sent < 30_000_000
    storage.blobs.gate.set()
    sender.send(b"a" * (60_000_000 - sent))
    assert sender.read().status == 204
    assert memory_blobs(server).used_bytes == 60_000_000


def test_appends_go_on_while_the_disk_takes_a_body(
    wire: Wire, connect: Connect, served: Server, path: str, url: str, storage: WatchedStorage
) -> None:
    storage.blobs.gate.clear()
    sender = connect(served).ask("PUT", url, b"a" * 100_000)
    assert wire.append(path, b"b").status == 204
    storage.blobs.gate.set()
    assert sender.read().status == 204
    assert wire.get(f"{path}?offset={1:016d}").body == b"b"
