"""What is synced, and when: a group before it is acknowledged, a checkpoint before the journal is trimmed."""

import errno
from pathlib import Path

import pytest

from everbrook.storage import ACID, FILE_DURABLE, FILE_FAST, DurableMode
from everbrook.storage.disk import File
from tests.kit.disks import WatchedDisk
from tests.kit.drafts import Draft
from tests.kit.stores import commit
from tests.unit.storage.checkpoints import HeldStorage, journal_files, killed

ALL = pytest.mark.parametrize("mode", [ACID, FILE_DURABLE, FILE_FAST], ids=["acid", "durable", "fast"])
SYNCED = pytest.mark.parametrize("mode", [ACID, FILE_DURABLE], ids=["acid", "durable"])


def drafts(count: int) -> list[Draft]:
    return [Draft(b"%d" % number, number) for number in range(1, count + 1)]


@SYNCED
def test_a_group_of_any_streams_is_one_write_and_one_sync(tmp_path: Path, mode: DurableMode) -> None:
    disk = WatchedDisk()
    storage = HeldStorage(tmp_path, disk, mode)
    disk.steps.clear()
    storage.persist([(stream.write(b"x"),) for stream in drafts(50) * 3])
    [path] = journal_files(tmp_path)
    assert disk.steps == [("write", path), ("sync", path)]
    storage.close()


def test_the_fast_mode_has_written_before_it_acknowledges_and_syncs_nothing(tmp_path: Path) -> None:
    disk = WatchedDisk()
    storage = HeldStorage(tmp_path, disk, FILE_FAST)
    disk.steps.clear()
    storage.persist([(Draft(b"a", 1).write(b"precious"),)])
    [path] = journal_files(tmp_path)
    assert disk.steps == [("write", path)]
    assert b"precious" in path.read_bytes()
    storage.close()


@ALL
def test_a_checkpoint_syncs_its_segments_in_every_mode(tmp_path: Path, mode: DurableMode) -> None:
    disk, stream = WatchedDisk(), Draft(b"a", 1)
    storage = HeldStorage(tmp_path, disk, mode, checkpoint_bytes=1, chunk_bytes=100)
    disk.steps.clear()
    commit(storage, (stream.write(b"x" * 1_000),))
    storage.background.finish()
    written = {path for kind, path in disk.steps if kind == "write" and "streams" in path.parts}
    assert bool(written) == (mode is not ACID)
    assert written <= set(disk.synced())
    assert {path.parent for path in written} <= set(disk.synced())
    storage.close()


@ALL
def test_a_snapshot_is_synced_in_every_mode(tmp_path: Path, mode: DurableMode) -> None:
    disk = WatchedDisk()
    storage = HeldStorage(tmp_path, disk, mode)
    disk.steps.clear()
    blob = storage.blobs.begin(1, 9)
    blob.write(b"sum")
    blob.finish()
    [path] = tmp_path.rglob("*.blob")
    assert disk.synced()[-2:] == [path, path.parent]
    storage.close()


def test_what_a_killed_process_may_not_have_synced_is_synced_before_it_is_shown(tmp_path: Path) -> None:
    """A retry would be answered as a duplicate of it: it must not vanish after that."""
    storage = HeldStorage(tmp_path / "store", mode=FILE_FAST)
    commit(storage, (Draft(b"a", 1).write(b"x"),))
    copy = killed(storage, tmp_path / "copy")
    storage.close()
    disk, [path] = WatchedDisk(), journal_files(copy)
    storage = HeldStorage(copy, disk, FILE_DURABLE)
    assert path in disk.synced()
    assert copy / "journal" in disk.synced()
    storage.close()


class RewritingDisk(WatchedDisk):
    """Notes what is written to files of the journal that were there before."""

    def __init__(self) -> None:
        super().__init__()
        self.rewritten: list[tuple[int, bytes]] = []

    def open(self, path: Path) -> File:
        file = super().open(path)
        if path.name.startswith("journal-"):
            really_write = file.write_at

            def write_at(position: int, data: bytes, *, sync: bool = False) -> None:
                assert sync
                self.rewritten.append((position, data))
                really_write(position, data, sync=sync)

            file.write_at = write_at  # type: ignore[method-assign]
        return file


def rewritten_by_opening(folder: Path, mode: DurableMode = ACID) -> list[tuple[int, bytes]]:
    disk = RewritingDisk()
    HeldStorage(folder, disk, mode).close()
    return disk.rewritten


def test_records_that_nothing_proves_are_written_again(tmp_path: Path) -> None:
    """A sync that failed may have left them in memory only, where the next sync takes them for written."""
    storage, stream = HeldStorage(tmp_path / "store"), Draft(b"a", 1)
    commit(storage, (stream.write(b"one"),))
    commit(storage, (stream.write(b"two"),))
    copy = killed(storage, tmp_path / "copy")
    storage.seal()
    sealed = killed(storage, tmp_path / "sealed")
    storage.close()
    log = journal_files(copy)[0].read_bytes()
    assert rewritten_by_opening(sealed) == []
    [(position, data)] = rewritten_by_opening(copy)
    assert log[position:].startswith(data)
    assert b"two" in data
    assert b"one" not in data


def test_all_of_a_journal_that_was_not_synced_is_written_again(tmp_path: Path) -> None:
    storage, stream = HeldStorage(tmp_path / "store", mode=FILE_FAST), Draft(b"a", 1)
    commit(storage, (stream.write(b"one"),))
    commit(storage, (stream.write(b"two"),))
    storage.seal()
    copy = killed(storage, tmp_path / "copy")
    storage.close()
    [(position, data)] = rewritten_by_opening(copy, FILE_DURABLE)
    assert (position, b"one" in data, b"two" in data) == (0, True, True)


def test_after_a_failed_sync_the_fast_mode_writes_again_before_it_removes(tmp_path: Path) -> None:
    disk = WatchedDisk()
    storage, stream = HeldStorage(tmp_path, disk, FILE_FAST), Draft(b"a", 1)
    blob = storage.blobs.begin(1, 9)
    blob.finish()
    commit(storage, (stream.write(b"x"),))
    disk.sync_error = errno.EIO
    with pytest.raises(OSError, match="Input/output error"):
        storage.blobs.remove(1, 9)
    disk.sync_error = None
    disk.steps.clear()
    storage.blobs.remove(1, 9)
    [path] = journal_files(tmp_path)
    assert disk.steps[:2] == [("write", path), ("sync", path)]
    storage.close()


def test_a_journal_that_cannot_be_synced_is_not_opened(tmp_path: Path) -> None:
    storage = HeldStorage(tmp_path / "store")
    commit(storage, (Draft(b"a", 1).write(b"x"),))
    copy = killed(storage, tmp_path / "copy")
    storage.close()

    class Failing(WatchedDisk):
        def open(self, path: Path) -> File:
            self.sync_error = errno.EIO
            return super().open(path)

    with pytest.raises(OSError, match="Input/output error"):
        HeldStorage(copy, Failing())
    storage = HeldStorage(copy)
    assert storage.read(1, 0, 1) == b"x"
    storage.close()


@SYNCED
def test_a_failed_sync_is_told_and_refuses_nothing_that_was_before(tmp_path: Path, mode: DurableMode) -> None:
    disk, stream = WatchedDisk(), Draft(b"a", 1)
    storage = HeldStorage(tmp_path / "store", disk, mode)
    commit(storage, (stream.write(b"one"),))
    disk.sync_error = errno.EIO
    with pytest.raises(OSError, match="Input/output error"):
        storage.persist([(stream.write(b"two"),)])
    assert storage.read(1, 0, 3) == b"one"
    copy = killed(storage, tmp_path / "copy")
    storage.close()
    again = HeldStorage(copy, mode=mode)
    assert again.read(1, 0, 3) == b"one"
    again.close()


# Bounds


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system does not list descriptors there")
def test_descriptors_do_not_grow_with_streams(tmp_path: Path) -> None:
    before = descriptors()
    storage = HeldStorage(tmp_path, mode=FILE_DURABLE, checkpoint_bytes=1, chunk_bytes=100, max_open_segments=8)
    streams = drafts(200)
    commit(storage, *((stream.write(b"x" * 200),) for stream in streams))
    storage.settle()
    for stream in streams:
        assert storage.read(stream.incarnation, 0, 200) == b"x" * 200
    assert descriptors() - before <= 8 + 10
    storage.close()
    assert descriptors() <= before


class ReadCounter(WatchedDisk):
    """Counts the bytes that are read."""

    read_bytes = 0

    def read(self, path: Path, start: int = 0, size: int = -1) -> bytes:
        data = super().read(path, start, size)
        self.read_bytes += len(data)
        return data


def test_opening_reads_no_streams_and_lists_no_folders_of_theirs(tmp_path: Path) -> None:
    storage = HeldStorage(tmp_path, mode=FILE_DURABLE, chunk_bytes=1_000)
    commit(storage, *((stream.write(b"x" * 5_000),) for stream in drafts(50)))
    storage.close()

    class Listing(ReadCounter):
        listed: set[str] = set()  # noqa: RUF012 - one for this test

        def names(self, folder: Path) -> list[str]:
            self.listed.add(folder.name)
            return super().names(folder)

    disk = Listing()
    storage = HeldStorage(tmp_path, disk, FILE_DURABLE)
    assert disk.read_bytes < 1_000
    assert disk.listed <= {tmp_path.name, "base", "journal"}
    assert storage.read(7, 0, 5_000) == b"x" * 5_000
    storage.close()
