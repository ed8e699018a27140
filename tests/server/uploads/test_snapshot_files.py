"""Snapshots on a disk: a file each, none of them too many, and none lost."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from everbrook.server.assembly import open_storage
from everbrook.settings import StorageMode
from tests.kit.server_thread import RunningServer, configured, eventually, resident_bytes
from tests.kit.servers import Connect
from tests.kit.wire import Wire
from tests.server.uploads.blobs import PIECE, digest_of

MB = 1_000_000
MODES = [StorageMode.ACID, StorageMode.FILE_FAST, StorageMode.FILE_DURABLE]


class Store:
    """A data folder, and the servers that use it one after the other."""

    def __init__(self, mode: StorageMode, folder: Path) -> None:
        self._folder = folder
        self._settings = configured(storage__mode=mode, storage__data_dir=str(folder))

    def serve(self) -> RunningServer:
        return RunningServer(self._settings, open_storage(self._settings))

    def blobs(self) -> list[int]:
        """The sizes of all blobs. One may be removed while they are listed."""
        sizes = []
        for path in self._folder.rglob("*.blob"):
            with suppress(FileNotFoundError):
                sizes.append(path.stat().st_size)
        return sizes


@pytest.fixture(params=MODES, ids=lambda mode: mode.value)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return Store(request.param, tmp_path)


@pytest.fixture
def served(store: Store) -> Iterator[RunningServer]:
    with store.serve() as server:
        yield server


def test_a_large_snapshot_takes_little_memory_both_ways(wire: Wire, url: str) -> None:
    wire.request("PUT", url, PIECE)
    assert wire.get(url).body == PIECE
    before = resident_bytes()
    times = 20 * MB // len(PIECE)
    wire.ask("PUT", url, content_length=str(times * len(PIECE)))
    for _ in range(times):
        wire.send(PIECE)
    assert wire.read().status == 204
    assert wire.ask("GET", url).read_head().headers["content-length"] == str(times * len(PIECE))
    assert all(wire.read_exactly(len(PIECE)) == PIECE for _ in range(times))
    assert resident_bytes() - before < 12 * MB


def test_a_snapshot_outlives_the_server(store: Store, path: str, url: str) -> None:
    with store.serve() as server, server.connect() as wire:
        wire.create(path, body=b"a")
        etag = wire.request("PUT", url, PIECE * 3, content_type="text/csv").headers["etag"]
    with store.serve() as server, server.connect() as wire:
        answer = wire.get(url)
        assert (answer.body, answer.headers["content-type"], answer.headers["etag"]) == (PIECE * 3, "text/csv", etag)


def test_a_replaced_snapshot_leaves_no_file(wire: Wire, store: Store, url: str) -> None:
    for number in range(5):
        assert wire.request("PUT", url, b"a" * (number + 1)).status == 204
    assert eventually(lambda: store.blobs() == [5 + 4])


def test_a_refused_snapshot_leaves_no_file(wire: Wire, store: Store, url: str) -> None:
    assert wire.request("PUT", url, PIECE, content_digest=digest_of(b"other")).status == 400
    assert eventually(lambda: store.blobs() == [])


def test_a_snapshot_that_is_cut_off_leaves_no_file(
    wire: Wire, connect: Connect, served: RunningServer, store: Store, url: str
) -> None:
    cut = connect(served).ask("PUT", url, content_length=str(20 * MB)).send(b"a" * 5 * MB)
    assert eventually(store.blobs)
    cut.reset()
    assert eventually(lambda: store.blobs() == [])
    assert wire.get(url).status == 404


def test_a_stop_in_the_middle_leaves_no_file(store: Store, path: str, url: str) -> None:
    with store.serve() as server, server.connect() as wire:
        wire.create(path, body=b"a")
        wire.ask("PUT", url, content_length=str(20 * MB)).send(b"a" * 5 * MB)
        assert eventually(store.blobs)
        server.stop()
    assert store.blobs() == []


def test_appends_and_publications_at_once_lose_nothing(
    wire: Wire, connect: Connect, served: RunningServer, path: str
) -> None:
    def append(times: int) -> None:
        for _ in range(times):
            assert writer.append(path, b"b").status == 204

    writer = connect(served)
    appending = threading.Thread(target=append, args=(100,))
    appending.start()
    tail = ""
    for size in range(1, 20):
        tail = wire.request("HEAD", path).next_offset
        assert wire.request("PUT", f"{path}/__ds/snapshot/{tail}", b"s" * size * 10_000).status == 204
    appending.join()
    answer = wire.get(f"{path}?offset={tail}")
    assert int(tail) + len(answer.body) == 101
    assert wire.get(f"{path}/__ds/snapshot/{tail}").body == b"s" * 190_000
