"""Blobs as files: synced as they are written, and nothing left of one that failed."""

import errno
from pathlib import Path

import pytest

from everbrook.storage import StorageFull
from everbrook.storage.file_blobs import SYNC_BYTES, FileBlobs, blob_path
from everbrook.storage.pin import Hold
from tests.durability.faulty import Faults, FaultyDisk


class Counting(Faults):
    """A disk without faults that counts its syncs."""

    syncs = 0

    def sync(self) -> None:
        self.syncs += 1
        super().sync()


class CountingDisk(FaultyDisk):
    """Counts the syncs of folders as well."""

    def __init__(self, faults: Counting) -> None:
        super().__init__(faults, blob_faults=faults)
        self.synced: list[Path] = []

    def sync_folder(self, folder: Path) -> None:
        self.synced.append(folder)


@pytest.fixture
def faults() -> Counting:
    return Counting()


@pytest.fixture
def disk(faults: Counting) -> CountingDisk:
    return CountingDisk(faults)


@pytest.fixture
def blobs(disk: CountingDisk, tmp_path: Path) -> FileBlobs:
    return FileBlobs(disk, tmp_path / "blobs", Hold(disk))


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_a_blob_is_a_file_of_its_bytes(blobs: FileBlobs, tmp_path: Path) -> None:
    draft = blobs.begin(3, 0x1234)
    draft.write(b"one")
    draft.write(b"two")
    draft.finish()
    path = blob_path(tmp_path / "blobs", 3, 0x1234)
    assert path == tmp_path / "blobs" / "da" / "0000000000000003-0000000000001234.blob"
    assert path.read_bytes() == b"onetwo"


def test_a_large_blob_is_synced_on_the_way(blobs: FileBlobs, faults: Counting) -> None:
    draft = blobs.begin(3, 1)
    for _ in range(33):
        draft.write(bytes(SYNC_BYTES // 10))
    assert faults.syncs == 3
    draft.finish()
    assert faults.syncs == 4


def test_its_name_is_durable_when_it_is_finished(blobs: FileBlobs, disk: CountingDisk, tmp_path: Path) -> None:
    folder = blob_path(tmp_path / "blobs", 3, 1).parent
    draft = blobs.begin(3, 1)
    assert disk.synced[-2:] == [tmp_path, tmp_path / "blobs"]
    draft.finish()
    assert disk.synced[-1] == folder
    before = len(disk.synced)
    blobs.begin(3, 2).finish()
    assert disk.synced[before:] == [folder]


def test_a_write_without_room_leaves_nothing(blobs: FileBlobs, faults: Counting, tmp_path: Path) -> None:
    draft = blobs.begin(3, 1)
    faults.room_bytes = 10
    with pytest.raises(StorageFull, match="the disk is full"):
        draft.write(b"x" * 20)
    assert files(tmp_path) == []
    draft.abandon()
    faults.room_bytes = None
    blobs.begin(3, 1).finish()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_sync_that_fails_leaves_nothing(blobs: FileBlobs, faults: Counting, tmp_path: Path, code: int) -> None:
    draft = blobs.begin(3, 1)
    draft.write(b"x")
    faults.sync_error = code
    with pytest.raises(OSError if code == errno.EIO else StorageFull):
        draft.finish()
    assert files(tmp_path) == []


def test_a_finished_blob_takes_no_more(blobs: FileBlobs) -> None:
    draft = blobs.begin(3, 1)
    draft.finish()
    with pytest.raises(ValueError, match="takes no more"):
        draft.write(b"x")


def test_a_blob_is_never_written_over(blobs: FileBlobs) -> None:
    blobs.begin(3, 1).finish()
    with pytest.raises(FileExistsError):
        blobs.begin(3, 1)


def test_files_that_are_no_blobs_are_left_alone(blobs: FileBlobs, tmp_path: Path) -> None:
    blobs.begin(3, 1).finish()
    folder = blob_path(tmp_path / "blobs", 3, 1).parent
    strange = [folder / "notes.txt", folder / "3-1.blob", folder.parent / "readme", folder.parent / "00"]
    for path in strange:
        path.write_bytes(b"")
    assert list(filter(None, blobs.all())) == [[(3, 1)]]
    assert all(path.exists() for path in strange)
