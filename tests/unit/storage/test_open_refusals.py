"""A file that can't be opened for want of descriptors or memory was not touched: the storage goes on."""

import errno
import os
from pathlib import Path

import pytest

from everbrook.storage.api import StorageFull, refusal, refusal_to_open
from everbrook.storage.disk import File, OsDisk, Reader
from everbrook.storage.file_blobs import FileBlobs
from everbrook.storage.hold import Hold

SCARCE = [errno.EMFILE, errno.ENFILE, errno.ENOMEM]


class ScarceDisk(OsDisk):
    """A disk that has no descriptor left for a while."""

    error: int | None = None

    def _open(self, path: Path) -> None:
        if self.error:
            raise OSError(self.error, os.strerror(self.error), str(path))

    def create(self, path: Path) -> File:
        self._open(path)
        return super().create(path)

    def reader(self, path: Path) -> Reader:
        self._open(path)
        return super().reader(path)

    def sync_folder(self, folder: Path) -> None:
        self._open(folder)
        super().sync_folder(folder)


@pytest.fixture
def disk() -> ScarceDisk:
    return ScarceDisk()


@pytest.fixture
def blobs(disk: ScarceDisk, tmp_path: Path) -> FileBlobs:
    return FileBlobs(disk, tmp_path / "blobs", Hold(disk))


@pytest.mark.parametrize("number", SCARCE)
def test_an_open_without_descriptors_or_memory_is_a_refusal(number: int) -> None:
    refused = refusal_to_open(OSError(number, "scarce", "/secret/path"))
    assert isinstance(refused, StorageFull)
    assert "/secret/path" not in str(refused)


@pytest.mark.parametrize("number", SCARCE)
def test_any_other_call_that_fails_so_is_none(number: int) -> None:
    error = OSError(number, "scarce")
    assert refusal(error) is error


def test_a_full_disk_is_a_refusal_and_a_broken_one_is_not() -> None:
    assert isinstance(refusal_to_open(OSError(errno.ENOSPC, "full")), StorageFull)
    broken = OSError(errno.EIO, "broken")
    assert refusal_to_open(broken) is broken


@pytest.mark.parametrize("number", SCARCE)
def test_a_blob_that_can_not_be_begun_is_refused_and_can_be_later(
    disk: ScarceDisk, blobs: FileBlobs, number: int
) -> None:
    disk.error = number
    with pytest.raises(StorageFull):
        blobs.begin(1, 2)
    disk.error = None
    blobs.begin(1, 2).finish()
    assert list(blobs.all()) == [[(1, 2)]]


@pytest.mark.parametrize("number", SCARCE)
def test_a_blob_whose_name_can_not_be_synced_is_removed(disk: ScarceDisk, blobs: FileBlobs, number: int) -> None:
    draft = blobs.begin(1, 2)
    draft.write(b"some")
    disk.error = number
    with pytest.raises(StorageFull):
        draft.finish()
    assert list(blobs.all()) == [[]]


@pytest.mark.parametrize("number", SCARCE)
def test_a_blob_that_can_not_be_read_now_can_be_later(disk: ScarceDisk, blobs: FileBlobs, number: int) -> None:
    blobs.begin(1, 2).finish()
    disk.error = number
    with pytest.raises(StorageFull):
        blobs.open(1, 2, 0)
    disk.error = None
    assert blobs.open(1, 2, 0).read(1) == b""
