"""Open blobs: only so many snapshots are written and read at a time."""

import pytest

from everbrook.engine.blobs import Upload
from everbrook.engine.limits import Limits
from everbrook.protocol import PublishSnapshot, Snapshot
from everbrook.protocol.errors import Unavailable
from everbrook.storage import MemoryBlobReader, MemoryBlobs, MemoryStorage, StorageFull
from tests.unit.engine.rig import TEXT, Rig

PUBLISH = PublishSnapshot(b"a", 0, 1, TEXT)


class ScarceBlobs(MemoryBlobs):
    """Blobs of a process that has no descriptor left."""

    def open(self, _owner: int, _number: int, _size: int) -> MemoryBlobReader:
        raise StorageFull("no file can be opened")


class ScarceStorage(MemoryStorage):
    """A storage with such blobs."""

    def __init__(self) -> None:
        super().__init__()
        self.blobs = ScarceBlobs()


@pytest.fixture
def rig() -> Rig:
    """An engine that lets two blobs be open."""
    rig = Rig(Limits(max_open_blobs=2))
    rig.create(b"a", b"1")
    return rig


def begin(rig: Rig) -> Upload:
    upload = rig.engine.begin_snapshot(PUBLISH)
    upload.write(b"some")
    rig.work()
    return upload


def finish(rig: Rig, upload: Upload) -> None:
    upload.finish(lambda _: None)
    rig.work()


def published(rig: Rig) -> Snapshot:
    upload = begin(rig)
    finish(rig, upload)
    snapshot = rig.engine.publish(upload, PUBLISH).head.kept.snapshot
    assert snapshot is not None
    return snapshot


def test_an_upload_too_many_is_refused(rig: Rig) -> None:
    for _ in range(2):
        begin(rig)
    with pytest.raises(Unavailable, match="2 snapshots are being written and read"):
        rig.engine.begin_snapshot(PUBLISH)


def test_a_finished_upload_makes_room(rig: Rig) -> None:
    finish(rig, begin(rig))
    for _ in range(2):
        begin(rig)


def test_a_cancelled_upload_makes_room_once(rig: Rig) -> None:
    for _ in range(3):
        upload = begin(rig)
        finish(rig, upload)
        upload.cancel()
        rig.work()
    for _ in range(2):
        begin(rig)
    with pytest.raises(Unavailable):
        rig.engine.begin_snapshot(PUBLISH)


def test_an_upload_that_fails_makes_room_when_it_is_cancelled() -> None:
    rig = Rig(Limits(max_open_blobs=1, max_memory_bytes=5000))
    rig.create(b"a", b"1")
    upload = rig.engine.begin_snapshot(PUBLISH)
    upload.write(b"x" * 5000)
    finish(rig, upload)
    upload.cancel()
    rig.work()
    begin(rig)


def test_a_reader_counts_until_it_is_closed(rig: Rig) -> None:
    snapshot = published(rig)
    stream = rig.engine.readers.find(b"a", rig.engine.clock.now())
    readers = [rig.engine.readers.open_blob(stream, snapshot) for _ in range(2)]
    with pytest.raises(Unavailable):
        rig.engine.readers.open_blob(stream, snapshot)
    readers.pop().close()
    assert rig.engine.readers.open_blob(stream, snapshot).read(100) == b"some"


def test_a_blob_that_can_not_be_opened_is_unavailable_and_not_counted() -> None:
    rig = Rig(Limits(max_open_blobs=1), storage=ScarceStorage())
    rig.create(b"a", b"1")
    snapshot = published(rig)
    for _ in range(2):
        with pytest.raises(Unavailable, match="can't be read now: no file can be opened"):
            rig.engine.readers.open_blob(rig.engine.readers.find(b"a", rig.engine.clock.now()), snapshot)
