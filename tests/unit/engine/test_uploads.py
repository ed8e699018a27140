"""Uploads: bytes become a blob while more of them arrive, and nothing is left of one that comes to nothing."""

from hashlib import sha256

import pytest

from everbrook.engine.blobs import Upload
from everbrook.engine.limits import Limits
from everbrook.engine.tuning import UploadTuning
from everbrook.protocol import PublishSnapshot
from everbrook.protocol.errors import (
    InvalidOffset,
    MemoryFull,
    ProtocolError,
    SnapshotBeyondTail,
    StreamNotFound,
    Unavailable,
)
from everbrook.storage import MemoryBlobs, MemoryDraft, MemoryStorage, StorageFull
from tests.unit.engine.rig import TEXT, DelayedRig, Rig

HALF = b"x" * (UploadTuning().max_backlog_bytes // 2)
PAUSE_MS = round(UploadTuning().pause_secs * 1000)


def at(offset: int, name: bytes = b"a") -> PublishSnapshot:
    return PublishSnapshot(name, 0, offset, TEXT)


def begin(rig: Rig) -> Upload:
    rig.create(b"a", b"1")
    return rig.engine.begin_snapshot(at(1))


def finish(rig: Rig, upload: Upload) -> list[ProtocolError | None]:
    told: list[ProtocolError | None] = []
    upload.finish(told.append)
    rig.work()
    return told


# Taking bytes in


def test_the_bytes_are_a_blob_when_the_upload_is_finished(rig: Rig) -> None:
    upload = begin(rig)
    for piece in (b"some", b"", b"more"):
        upload.write(piece)
    assert finish(rig, upload) == [None]
    assert rig.blob(upload.owner, upload.blob, 8) == b"somemore"
    assert (upload.size, upload.digest) == (8, sha256(b"somemore").digest())


def test_a_snapshot_may_be_empty(rig: Rig) -> None:
    upload = begin(rig)
    assert finish(rig, upload) == [None]
    assert rig.blob(upload.owner, upload.blob, 0) == b""
    assert rig.engine.publish(upload, at(1)).head.kept.snapshot is not None


def test_it_is_told_when_the_blob_is_durable_and_not_before(rig: Rig) -> None:
    upload, told = begin(rig), list[ProtocolError | None]()
    upload.write(b"some")
    upload.finish(told.append)
    assert (told, rig.blobs()) == ([], [])
    rig.worker.run()
    assert told == []
    rig.scheduler.run_from_threads()
    assert told == [None]


def test_a_disk_that_does_not_keep_up_holds_the_sender_back(rig: Rig) -> None:
    upload, relieved = begin(rig), list[bool]()
    upload.on_relief = lambda: relieved.append(upload.congested)
    congested = []
    for _ in range(2):
        upload.write(HALF)
        congested.append(upload.congested)
    assert congested == [False, True]
    rig.worker.run(1)
    rig.scheduler.run_from_threads()
    assert relieved == [False]
    rig.work()
    assert relieved == [False]


def test_a_sender_pauses_while_others_write(rig: Rig) -> None:
    upload, relieved = begin(rig), list[bool]()
    upload.on_relief = lambda: relieved.append(upload.congested)
    upload.write(HALF + HALF)
    rig.append(b"a", b"2")
    rig.work()
    assert (upload.congested, relieved) == (True, [])
    rig.scheduler.advance(PAUSE_MS)
    assert (upload.congested, relieved) == (False, [False])


def test_nobody_needs_to_listen_for_relief(rig: Rig) -> None:
    upload = begin(rig)
    upload.write(HALF + HALF)
    rig.work()
    assert not upload.congested


def test_appends_go_on_while_a_snapshot_arrives(rig: Rig) -> None:
    """002 §2.2: it must not block them."""
    upload = begin(rig)
    upload.write(b"some")
    rig.append(b"a", b"2")
    finish(rig, upload)
    rig.engine.publish(upload, at(1))
    assert rig.content(b"a") == b"2"


# Refusals


@pytest.mark.parametrize(
    "command, refusal", [(at(9), SnapshotBeyondTail), (at(0, b"b"), StreamNotFound), (at(1), InvalidOffset)]
)
def test_what_could_not_be_published_even_now_is_refused_at_once(
    rig: Rig, command: PublishSnapshot, refusal: type[ProtocolError]
) -> None:
    rig.create(b"a", b"long")
    with pytest.raises(refusal):
        rig.engine.begin_snapshot(command)


def test_a_storage_that_failed_takes_no_snapshot(delayed: DelayedRig) -> None:
    delayed.create(b"a", b"1")
    delayed.let_everything_arrive()
    delayed.append(b"a", b"2")
    delayed.let_group_arrive(OSError("the disk is gone"))
    with pytest.raises(Unavailable):
        delayed.engine.begin_snapshot(at(1))


def test_a_snapshot_of_a_stream_that_was_created_anew_meanwhile_is_refused(rig: Rig) -> None:
    upload = begin(rig)
    upload.write(b"of the old one")
    finish(rig, upload)
    rig.delete(b"a")
    rig.create(b"a", b"2")
    with pytest.raises(StreamNotFound, match="was deleted while its bytes arrived"):
        rig.engine.publish(upload, at(1))
    upload.cancel()
    rig.work()
    assert rig.blobs() == []


def test_a_refused_snapshot_leaves_the_one_that_is_there(rig: Rig) -> None:
    rig.create(b"a", b"1")
    rig.append(b"a", b"2")
    upload = rig.upload(at(1))
    rig.publish(b"a", 2, b"newer", keep_history=True)
    with pytest.raises(ProtocolError):
        rig.engine.publish(upload, at(1))
    upload.cancel()
    rig.work()
    assert rig.snapshot(b"a") == b"newer"
    assert len(rig.blobs()) == 1


@pytest.mark.parametrize("written", [False, True], ids=["on its way", "written"])
def test_memory_is_bounded_while_a_snapshot_arrives(*, written: bool) -> None:
    rig = Rig(Limits(max_memory_bytes=100_000))
    upload = begin(rig)
    upload.write(b"x" * 90_000)
    if written:
        rig.work()
    upload.write(b"x" * 20_000)
    assert [type(failure) for failure in finish(rig, upload)] == [MemoryFull]
    upload.cancel()
    rig.work()
    assert rig.storage.blobs.used_bytes == 0


# Failures


class FullBlobs(MemoryBlobs):
    """Blobs for which there is room until there is none."""

    failure: Exception | None = None

    def begin(self, owner: int, number: int) -> "FullDraft":
        return FullDraft(self, (owner, number))


class FullDraft(MemoryDraft):
    """A blob that fails as its storage does."""

    def write(self, data: bytes) -> None:
        self._fail()
        super().write(data)

    def finish(self) -> None:
        self._fail()
        super().finish()

    def _fail(self) -> None:
        assert isinstance(self._blobs, FullBlobs)
        if self._blobs.failure:
            raise self._blobs.failure


class FullStorage(MemoryStorage):
    """A storage for such blobs."""

    def __init__(self) -> None:
        super().__init__()
        self.blobs: FullBlobs = FullBlobs()


FAILURES = [StorageFull("the disk is full"), OSError("the disk is gone"), MemoryError("no memory")]


@pytest.mark.parametrize("failure", FAILURES, ids=repr)
@pytest.mark.parametrize("early", [True, False])
def test_a_blob_that_can_not_be_stored_fails_its_upload_alone(
    caplog: pytest.LogCaptureFixture, failure: Exception, *, early: bool
) -> None:
    storage = FullStorage()
    rig = Rig(storage=storage)
    upload = begin(rig)
    if early:
        storage.blobs.failure = failure
    upload.write(b"some")
    rig.work()
    storage.blobs.failure = failure
    (told,) = finish(rig, upload)
    assert isinstance(told, Unavailable)
    assert "the snapshot can't be stored now" in told.detail
    upload.cancel()
    rig.work()
    assert (storage.blobs.used_bytes, rig.engine.failure) == (0, None)
    # A full or broken disk is the operator's to know; anything else is a fault of ours.
    assert bool(caplog.messages) == isinstance(failure, MemoryError)


def test_a_sender_is_relieved_though_nothing_can_be_stored() -> None:
    storage = FullStorage()
    rig, relieved = Rig(storage=storage), list[bool]()
    storage.blobs.failure = StorageFull("the disk is full")
    upload = begin(rig)
    upload.on_relief = lambda: relieved.append(True)
    upload.write(HALF)
    upload.write(HALF)
    rig.work()
    assert relieved == [True]


# Giving up


def test_an_upload_that_is_cancelled_in_the_middle_leaves_nothing(rig: Rig) -> None:
    upload = begin(rig)
    upload.write(b"some")
    rig.work()
    upload.write(b"more")
    upload.cancel()
    rig.work()
    assert (rig.blobs(), rig.storage.blobs.used_bytes) == ([], 0)


def test_an_upload_that_is_cancelled_before_it_began_leaves_nothing(rig: Rig) -> None:
    upload = begin(rig)
    upload.cancel()
    rig.work()
    upload.write(b"some that was on its way")
    rig.work()
    assert (rig.blobs(), rig.storage.blobs.used_bytes) == ([], 0)


def test_an_upload_that_is_cancelled_when_it_was_finished_leaves_nothing(rig: Rig) -> None:
    upload = begin(rig)
    upload.write(b"some")
    finish(rig, upload)
    upload.cancel()
    rig.work()
    assert (rig.blobs(), rig.storage.blobs.used_bytes) == ([], 0)
    upload.cancel()
    assert rig.worker.run() == 0


def test_what_was_published_is_not_cancelled(rig: Rig) -> None:
    upload = begin(rig)
    upload.write(b"some")
    finish(rig, upload)
    rig.engine.publish(upload, at(1))
    upload.cancel()
    rig.work()
    assert rig.snapshot(b"a") == b"some"


def test_nothing_is_done_to_an_upload_when_the_engine_is_closed(rig: Rig) -> None:
    upload = begin(rig)
    upload.write(b"some")
    rig.engine.close()
    assert rig.storage.blobs.used_bytes == len(b"some")
    upload.write(b"more")
    assert finish(rig, upload) == []
    upload.cancel()
    assert (rig.worker.run(), rig.storage.blobs.used_bytes) == (0, len(b"some"))
