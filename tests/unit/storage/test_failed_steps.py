"""A step of the checkpoint thread that fails, and damage that is found late, cost nothing that was acknowledged."""

import errno
import shutil
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from everbrook.protocol.errors import StreamDamaged
from everbrook.storage import (
    ACID,
    FILE_DURABLE,
    DamageMark,
    DurableMode,
    DurableStorage,
    OsDisk,
    StorageFull,
    StorageTuning,
)
from everbrook.storage.journal import Journal, JournalTuning
from everbrook.storage.lmdb_base import MAP_BYTES, open_environment
from tests.kit.disks import WatchedDisk
from tests.kit.drafts import Draft
from tests.kit.stores import commit
from tests.unit.storage.checkpoints import segments
from tests.unit.storage.test_journal import append, bodies, read

SMALL = StorageTuning(checkpoint_bytes=1_500, chunk_bytes=1_000, small_chunk_bytes=600)


class Inline(Executor):
    """Does what it is given at once, in the same thread."""

    def submit(self, fn: Any, /, *args: Any, **options: Any) -> Future[Any]:  # noqa: ANN401 - whatever it is given
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **options))
        except Exception as error:  # noqa: BLE001 - it belongs to the future
            done.set_exception(error)
        return done


class FailingDisk(OsDisk):
    """A disk on which the n-th sync of the journal's folder from now on fails."""

    fails_in = 0

    def sync_folder(self, folder: Path) -> None:
        if folder.name == "journal" and self.fails_in:
            self.fails_in -= 1
            if not self.fails_in:
                raise OSError(errno.EMFILE, "no descriptor")
        super().sync_folder(folder)


def opened(folder: Path, disk: OsDisk, mode: DurableMode = ACID, tuning: StorageTuning = SMALL) -> DurableStorage:
    return DurableStorage(disk, folder, mode, salt=7, tuning=tuning, executor=Inline())


@pytest.mark.parametrize("mode", [ACID, FILE_DURABLE], ids=["acid", "file"])
@pytest.mark.parametrize("step", [1, 2], ids=["the next file is begun", "the journal is trimmed"])
def test_a_checkpoint_whose_step_fails_takes_nothing_in_twice(tmp_path: Path, mode: DurableMode, step: int) -> None:
    disk, stream = FailingDisk(), Draft(b"a", 1)
    storage = opened(tmp_path / "store", disk, mode)
    for _ in range(18):
        commit(storage, (stream.write(b"x" * 100),))
    disk.fails_in = step
    for number in range(80):
        commit(storage, (stream.write(b"%02d" % number * 50),))
    assert not disk.fails_in
    for reopened in (False, True):
        if reopened:
            storage.close()
            storage = opened(tmp_path / "store", OsDisk(), mode)
        assert storage.read(1, 0, stream.head.tail) == b"x" * 1800 + b"".join(b"%02d" % n * 50 for n in range(80))
        assert list(storage.messages(1, 0, stream.head.tail).ends) == list(range(100, stream.head.tail + 1, 100))
    storage.close()


def test_a_file_whose_beginning_failed_does_not_hide_the_next_one(tmp_path: Path) -> None:
    """The one that was begun in vain stays: what follows it is another use, whatever their sizes are."""
    folder, disk = tmp_path / "journal", FailingDisk()
    folder.mkdir()
    journal = Journal(disk, folder, 7, read(folder), sync=True, tuning=JournalTuning(first_file_bytes=9_000))
    append(journal, b"one")
    journal.roll()
    disk.fails_in = 1
    with pytest.raises(StorageFull, match="no descriptor"):
        journal.begin()
    append(journal, b"x" * 20_000)
    journal.close(trimmed=False)
    assert bodies(read(folder)) == [b"one", b"x" * 20_000]


class ClosingFile:
    """A segment whose writes fail, and whose end as well."""

    size = 0

    def write_at(self, _position: int, _data: bytes) -> None:
        raise OSError(errno.EIO, "no write")

    def close(self) -> None:
        raise OSError(errno.EIO, "no close")


class FailingSegments(OsDisk):
    """A disk on which the first segment can't be written."""

    failed = False

    def create(self, path: Path) -> Any:  # noqa: ANN401 - a file of some kind
        if path.parent.parent.name == "streams" and not self.failed:
            self.failed = True
            return ClosingFile()
        return super().create(path)


def test_a_checkpoint_that_fails_twice_ends_its_transaction(tmp_path: Path) -> None:
    """The next one would wait for it for ever."""
    disk, stream = FailingSegments(), Draft(b"a", 1)
    storage = opened(tmp_path / "store", disk, FILE_DURABLE)
    for _ in range(100):
        commit(storage, (stream.write(b"x" * 100),))
    assert storage.checkpoints.failed == 1
    assert storage.checkpoints.done > 1
    storage.close()


def test_a_base_as_large_as_its_map_can_grow_when_it_is_opened_again(tmp_path: Path) -> None:
    open_environment(tmp_path).close()
    with (tmp_path / "data.mdb").open("r+b") as file:
        file.truncate(MAP_BYTES)
    environment = open_environment(tmp_path)
    assert environment.info()["map_size"] > MAP_BYTES
    environment.close()


def test_a_group_that_needs_a_new_file_is_refused_without_a_descriptor(tmp_path: Path) -> None:
    """Nothing of it is written. A smaller one must not go to the file before, which the new name hides."""
    folder, disk = tmp_path / "journal", FailingDisk()
    folder.mkdir()
    journal = Journal(disk, folder, 7, read(folder), sync=True, tuning=JournalTuning(first_file_bytes=9_000))
    append(journal, b"one")
    disk.fails_in = 1
    with pytest.raises(StorageFull, match="no descriptor"):
        append(journal, b"x" * 20_000)
    append(journal, b"two")
    journal.close(trimmed=False)
    assert bodies(read(folder)) == [b"one", b"two"]


def test_a_storage_is_closed_where_there_is_no_room_for_the_seal(tmp_path: Path) -> None:
    """The group was persisted and never applied, so that no checkpoint takes it."""
    disk = WatchedDisk()
    storage = opened(tmp_path, disk)
    storage.persist([(Draft(b"a", 1).write(b"x"),)])
    disk.copies, disk.room_bytes = True, 0
    storage.close()
    assert not disk.open_files
    storage = opened(tmp_path, OsDisk())
    assert storage.read(1, 0, 1) == b"x"
    storage.close()


@pytest.mark.parametrize("lost", ["segment", "folder"])
def test_a_lost_segment_does_not_keep_checkpoints_from_succeeding(tmp_path: Path, lost: str) -> None:
    """The other streams go on, and of this one only the lost segment is damaged."""
    folder, stream, other = tmp_path / "store", Draft(b"a", 1), Draft(b"b", 2)
    storage = opened(folder, OsDisk(), FILE_DURABLE)
    for _ in range(40):
        commit(storage, (stream.write(b"x" * 100),))
    storage.close()
    [segment] = segments(folder)
    shutil.rmtree(segment.parent) if lost == "folder" else segment.unlink()
    storage = opened(folder, OsDisk(), FILE_DURABLE)
    before = stream.head.tail
    for _ in range(200):
        commit(storage, (stream.write(b"y" * 100),))
        commit(storage, (other.write(b"z" * 100),))
    assert storage.checkpoints.failed == 0
    assert storage.read(1, before, stream.head.tail) == b"y" * 20_000
    assert storage.read(2, 0, other.head.tail) == b"z" * 20_000
    with pytest.raises(StreamDamaged, match="the file is missing"):
        storage.read(1, 0, 100)
    storage.close()


@pytest.mark.parametrize("swapped", [(1, 2), (1, 1)], ids=["of two streams", "of one stream"])
def test_nothing_is_appended_to_another_segment_in_the_place_of_the_last_one(
    tmp_path: Path, swapped: tuple[int, int]
) -> None:
    """Its bytes may be all that is left of another stream: here the swap is undone."""
    folder, streams = tmp_path / "store", {number: Draft(b"%d" % number, number) for number in (1, 2)}
    tuning = structs.replace(SMALL, segment_bytes=8_000)
    storage = opened(folder, OsDisk(), FILE_DURABLE, tuning)
    commit(storage, *((streams[2].write(b"x" * 100),) for _ in range(30)))
    for _ in range(100):
        commit(storage, *((stream.write(b"x" * 100),) for stream in streams.values()))
    storage.close()
    of = {number: [path for path in segments(folder) if int(path.name[:16], 16) == number] for number in streams}
    one, other = of[swapped[0]][-1], of[swapped[1]][0 if swapped == (1, 1) else -1]
    assert one != other
    swap(one, other)
    storage = opened(folder, OsDisk(), FILE_DURABLE, tuning)
    for _ in range(40):
        commit(storage, *((stream.write(b"y" * 100),) for stream in streams.values()))
    assert storage.checkpoints.failed == 0
    storage.close()
    swap(one, other)
    storage = opened(folder, OsDisk(), FILE_DURABLE, tuning)
    for number, stream in streams.items():
        assert storage.read(number, 0, stream.head.tail) == b"x" * (stream.head.tail - 4_000) + b"y" * 4_000
    storage.close()


def swap(one: Path, other: Path) -> None:
    """Let two files have the names of each other."""
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def test_changes_after_damage_that_a_read_found_are_replayed(tmp_path: Path) -> None:
    """The engine did not know of it when it took them, or had them on their way."""
    stream, storage = Draft(b"a", 1), opened(tmp_path / "store", OsDisk())
    for _ in range(17):
        commit(storage, (stream.write(b"x" * 100),))
    storage._view.mark(1, DamageMark(0, "an index is damaged"))  # noqa: SLF001 - as a read does that meets it
    for _ in range(20):
        commit(storage, (stream.write(b"y" * 100),))
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "store", copy)
    storage.close()
    again = opened(copy, OsDisk())
    found = again.load(b"a")
    assert found
    assert found.head.tail == stream.head.tail
    assert found.damage
    again.close()
