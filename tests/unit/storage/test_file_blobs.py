"""Blobs as files: synced as they are written, and nothing left of one that failed."""

import errno
from pathlib import Path
from random import Random

import pytest

from everbrook.storage import Damaged, OsDisk, StorageFull
from everbrook.storage.base_rows import PLACE
from everbrook.storage.chunk import BLOCK_BYTES, block_checksums
from everbrook.storage.disk import Reader
from everbrook.storage.file_blobs import SYNC_BYTES, FileBlobs, blob_path
from everbrook.storage.hold import Hold
from tests.kit.damage import flip
from tests.kit.faulty_disk import Faults, FaultyDisk


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


class CountingReads(OsDisk):
    """Counts the bytes that are read at positions."""

    read_bytes = 0

    def reader(self, path: Path) -> Reader:
        reader = super().reader(path)
        really_read = reader.read_at

        def read_at(position: int, size: int) -> bytes:
            self.read_bytes += size
            return really_read(position, size)

        reader.read_at = read_at  # type: ignore[method-assign]
        return reader


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


def test_a_blob_is_a_file_of_its_bytes_and_their_checksums(blobs: FileBlobs, tmp_path: Path) -> None:
    draft = blobs.begin(3, 0x1234)
    draft.write(b"one")
    draft.write(b"two")
    draft.finish()
    path = blob_path(tmp_path / "blobs", 3, 0x1234)
    assert path == tmp_path / "blobs" / "da" / "0000000000000003-0000000000001234.blob"
    assert path.read_bytes() == b"onetwo" + block_checksums(PLACE.pack(3, 0x1234), b"onetwo")


@pytest.mark.parametrize("size", [1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES + 7])
@pytest.mark.parametrize("piece", [1000, BLOCK_BYTES, 100_000])
def test_the_checksums_do_not_depend_on_the_pieces(blobs: FileBlobs, tmp_path: Path, size: int, piece: int) -> None:
    data = written(blobs, size, piece)
    assert blob_path(tmp_path / "blobs", 3, 1).read_bytes() == data + block_checksums(PLACE.pack(3, 1), data)


# Damage


def written(blobs: FileBlobs, size: int, piece: int = 100_000) -> bytes:
    """Write a blob, and give its bytes."""
    data, draft = Random(size).randbytes(size), blobs.begin(3, 1)
    for start in range(0, size, piece):
        draft.write(data[start : start + piece])
    draft.finish()
    return data


@pytest.mark.parametrize("block", range(4))
def test_only_whole_blocks_are_given_up_to_a_flipped_bit(blobs: FileBlobs, tmp_path: Path, block: int) -> None:
    size = 3 * BLOCK_BYTES + 7
    data, path = written(blobs, size), blob_path(tmp_path / "blobs", 3, 1)
    for place in (block * BLOCK_BYTES + 3, size + 4 * block):
        flip(path, place)
        reader = blobs.open(3, 1, size)
        assert b"".join(reader.read(BLOCK_BYTES) for _ in range(block)) == data[: block * BLOCK_BYTES]
        for _ in range(2):
            with pytest.raises(Damaged, match=rf"damaged from offset {block * BLOCK_BYTES} on: blobs/da/0.*a block is"):
                reader.read(BLOCK_BYTES)
        reader.close()
        flip(path, place)


@pytest.mark.parametrize("left", [0, 1, BLOCK_BYTES, 2 * BLOCK_BYTES + 7])
def test_a_blob_that_was_cut_off_is_damaged(blobs: FileBlobs, tmp_path: Path, left: int) -> None:
    written(blobs, 2 * BLOCK_BYTES)
    with blob_path(tmp_path / "blobs", 3, 1).open("rb+") as file:
        file.truncate(left)
    with pytest.raises(Damaged, match="snapshot of the stream is damaged"):
        blobs.open(3, 1, 2 * BLOCK_BYTES).read(2 * BLOCK_BYTES)


def test_the_bytes_of_another_blob_are_damage(blobs: FileBlobs, tmp_path: Path) -> None:
    written(blobs, 100)
    blob_path(tmp_path / "blobs", 3, 1).rename(blob_path(tmp_path / "blobs", 3, 2))
    with pytest.raises(Damaged):
        blobs.open(3, 2, 100).read(1)


def test_a_read_touches_no_block_that_it_need_not(tmp_path: Path) -> None:
    disk = CountingReads()
    blobs = FileBlobs(disk, tmp_path / "blobs", Hold(disk))
    data = written(blobs, 100 * BLOCK_BYTES)
    reader = blobs.open(3, 1, len(data))
    assert reader.read(100) == data[:100]
    assert disk.read_bytes == BLOCK_BYTES + 4
    reader.read(BLOCK_BYTES - 100)
    assert reader.read(2 * BLOCK_BYTES) == data[BLOCK_BYTES : 3 * BLOCK_BYTES]
    assert disk.read_bytes == 4 * (BLOCK_BYTES + 4)
    reader.close()


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
    with pytest.raises(ValueError, match="nothing can be written"):
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
