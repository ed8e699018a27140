"""The bytes of snapshots between a socket and a disk: bounded in memory, told when durable, never half of them."""

import errno
import os

import pytest

from everbrook.protocol.errors import StreamDamaged
from everbrook.storage import StorageFull
from tests.kit.server_thread import QUICK_TICKS, GatedStorage, eventually, resident_bytes
from tests.kit.servers import Connect, Start, StartEither
from tests.kit.wire import Wire, chunked
from tests.server.uploads.blobs import PIECE, HollowStorage, Server, WatchedStorage, memory_blobs, none_left

MB = 1_000_000
TINY_BUFFER = 4096


@pytest.fixture
def served(start_either: StartEither, storage: WatchedStorage) -> Server:
    return start_either(storage, QUICK_TICKS)


# Bounded in memory


@pytest.mark.parametrize("framing", ["declared", "chunked"])
def test_a_large_snapshot_takes_little_memory_on_its_way_in(
    start_either: StartEither, connect: Connect, path: str, url: str, framing: str
) -> None:
    wire = connect(start_either(HollowStorage()))
    wire.create(path, body=b"a")
    wire.request("PUT", url, PIECE)
    before = resident_bytes()
    times, piece = 100 * MB // len(PIECE), PIECE
    if framing == "declared":
        wire.ask("PUT", url, content_length=str(times * len(PIECE)))
    else:
        wire.ask("PUT", url, transfer_encoding="chunked")
        piece = chunked(PIECE)[:-5]
    for _ in range(times):
        wire.send(piece)
    assert wire.send(b"" if framing == "declared" else b"0\r\n\r\n").read().status == 204
    assert resident_bytes() - before < 16 * MB


def test_a_large_snapshot_takes_little_memory_on_its_way_out(
    start_either: StartEither, connect: Connect, path: str, url: str
) -> None:
    wire = connect(start_either(HollowStorage()))
    wire.create(path, body=b"a")
    times = 100 * MB // len(PIECE)
    wire.ask("PUT", url, content_length=str(times * len(PIECE)))
    for _ in range(times):
        wire.send(PIECE)
    assert wire.read().status == 204
    before = resident_bytes()
    assert wire.ask("GET", url).read_head().headers["content-length"] == str(times * len(PIECE))
    assert all(wire.read_exactly(len(PIECE)) == PIECE for _ in range(times))
    assert resident_bytes() - before < 16 * MB
    assert wire.get("/healthz").body == b"ok"


def test_a_reader_that_stops_holds_little(start: Start, connect: Connect, path: str, url: str) -> None:
    server = start()
    wire = connect(server)
    wire.create(path, body=b"a")
    wire.request("PUT", url, b"a" * 20 * MB)
    connect(server, TINY_BUFFER).ask("GET", url)
    assert eventually(server.unsent_bytes)
    assert server.unsent_bytes() < 2 * MB


# Readers that go


def test_a_reader_that_goes_lets_go_of_the_blob(
    wire: Wire, connect: Connect, served: Server, url: str, storage: WatchedStorage
) -> None:
    wire.request("PUT", url, b"a" * 20 * MB)
    for _ in range(10):
        reader = connect(served, TINY_BUFFER)
        reader.ask("GET", url).read_until(b"\r\n\r\n")
        assert storage.blobs.open_readers == 1
        reader.reset()
        assert eventually(lambda: storage.blobs.open_readers == 0)
    assert len(wire.get(url).body) == 20 * MB
    assert eventually(lambda: storage.blobs.open_readers == 0)


def test_a_reader_that_stops_reading_is_dropped(
    start_either: StartEither, connect: Connect, path: str, url: str, storage: WatchedStorage
) -> None:
    server = start_either(storage, QUICK_TICKS, server__slow_reader_timeout_secs=0.5)
    wire = connect(server)
    wire.create(path, body=b"a")
    wire.request("PUT", url, b"a" * 20 * MB)
    slow = connect(server, TINY_BUFFER).ask("GET", url)
    slow.read_until(b"\r\n\r\n")
    assert eventually(lambda: storage.blobs.open_readers == 0)
    with pytest.raises((ConnectionResetError, EOFError)):
        slow.read_exactly(20 * MB)


# Told when it is durable


def test_a_publication_is_answered_when_it_is_durable(
    start_either: StartEither, connect: Connect, path: str, url: str
) -> None:
    storage = GatedStorage()
    storage.gate.set()
    server = start_either(storage)
    wire, other = connect(server), connect(server)
    wire.create(path, body=b"a")
    storage.gate.clear()
    wire.ask("PUT", url, b"folded")
    assert wire.nothing_for(0.05)
    assert "stream-snapshot-offset" not in other.request("HEAD", path).headers
    storage.gate.set()
    assert wire.read().status == 204
    assert other.get(url).body == b"folded"


@pytest.mark.usefixtures("faults")
@pytest.mark.parametrize(
    "failure, keeps",
    [(OSError("the disk is on fire"), True), (StorageFull("the disk is full"), False)],
    ids=["failed", "full"],
)
def test_a_publication_that_did_not_become_durable_is_a_503(
    start_either: StartEither, connect: Connect, path: str, url: str, failure: Exception, *, keeps: bool
) -> None:
    """After a failed sync the change may be on the disk, so that its blob has to stay."""
    storage = GatedStorage()
    storage.gate.set()
    server = start_either(storage)
    wire = connect(server)
    wire.create(path, body=b"a")
    storage.failure = failure  # type: ignore[assignment]  # any error will do
    assert wire.request("PUT", url, b"folded").refusal == (503, "unavailable")
    assert "stream-snapshot-offset" not in wire.request("HEAD", path).headers
    assert none_left(server) if not keeps else memory_blobs(server).used_bytes == 6


# What the disk does not take


@pytest.mark.parametrize(
    "error", [StorageFull("the disk is full"), OSError(errno.EIO, os.strerror(errno.EIO))], ids=["full", "failed"]
)
def test_a_body_that_can_not_be_stored_is_a_503(
    wire: Wire, served: Server, path: str, url: str, storage: WatchedStorage, error: Exception
) -> None:
    storage.blobs.write_error = error
    assert wire.request("PUT", url, b"a" * 3 * MB).refusal == (503, "unavailable")
    storage.blobs.write_error = None
    assert none_left(served)
    assert wire.append(path, b"b").status == 204
    assert wire.request("PUT", url, b"folded").status == 204


def test_a_body_that_memory_has_no_room_for_is_a_413(
    start_either: StartEither, connect: Connect, path: str, url: str
) -> None:
    server = start_either(limits__max_memory_bytes=MB)
    wire = connect(server)
    wire.create(path, body=b"a")
    assert wire.request("PUT", url, b"a" * 3 * MB).refusal == (413, "memory_full")
    assert none_left(server)
    assert wire.request("PUT", url, b"a" * 100_000).status == 204


# What the disk does not give back


@pytest.mark.parametrize("error", [StreamDamaged("it was lost"), OSError(errno.EIO, "broken")], ids=["lost", "failed"])
def test_a_blob_that_can_not_be_read_is_a_500(
    wire: Wire, url: str, storage: WatchedStorage, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    wire.request("PUT", url, b"folded")
    storage.blobs.read_error, storage.blobs.readable_bytes = error, 0
    assert wire.get(url).refusal == (500, "stream_damaged")
    assert "could not be read" in caplog.text
    caplog.clear()
    assert wire.get("/healthz").body == b"ok"
    assert storage.blobs.open_readers == 0


def test_a_blob_that_fails_in_the_middle_ends_the_connection(
    wire: Wire, url: str, storage: WatchedStorage, caplog: pytest.LogCaptureFixture
) -> None:
    """A client must not take a part for the whole."""
    wire.request("PUT", url, b"a" * 5 * MB)
    storage.blobs.read_error, storage.blobs.readable_bytes = OSError(errno.EIO, "broken"), MB
    assert wire.ask("GET", url).read_head().status == 200
    with pytest.raises((ConnectionResetError, EOFError)):
        wire.read_exactly(5 * MB)
    assert eventually(lambda: storage.blobs.open_readers == 0)
    caplog.clear()


def test_a_blob_that_is_too_short_ends_the_connection(
    wire: Wire, served: Server, url: str, storage: WatchedStorage, caplog: pytest.LogCaptureFixture
) -> None:
    wire.request("PUT", url, b"a" * 5 * MB)
    storage.blobs.readable_bytes = 4 * MB
    assert wire.ask("GET", url).read_head().status == 200
    with pytest.raises((ConnectionResetError, EOFError)):
        wire.read_exactly(5 * MB)
    caplog.clear()


def test_an_answer_that_breaks_off_does_not_end_like_a_whole_one(
    start: Start, connect: Connect, path: str, url: str, storage: WatchedStorage
) -> None:
    """In HTTP/1.0 the end of the connection is the end of an answer whose length was not told."""
    wire = connect(start(storage))
    wire.create(path, body=b"a")
    wire.request("PUT", url, b"a" * 5 * MB)
    storage.blobs.read_error, storage.blobs.readable_bytes = OSError(errno.EIO, "broken"), MB
    wire.send(f"GET {path}/__ds/bootstrap HTTP/1.0\r\n\r\n".encode())
    with pytest.raises(ConnectionResetError):
        wire.rest()
