"""The journal: appended to in order, read back, rolled, recycled; and a full disk leaves it as it was."""

import errno
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest

from everbrook.storage import JournalTuning, OsDisk, StorageFull
from everbrook.storage.disk import File
from everbrook.storage.journal import Fenced, Journal
from everbrook.storage.journal_scan import Needed, Recovered, parse_log_file, read_journal
from tests.kit.disks import WatchedDisk

SMALL = JournalTuning(first_file_bytes=1_000, max_file_bytes=2_000)


def read(folder: Path, applied: int = 0, needed: Needed | None = None) -> Recovered:
    return read_journal(OsDisk(), folder, 7, applied, needed or Needed())


def opened(folder: Path, disk: OsDisk | None = None, *, applied: int = 0) -> Journal:
    journal = Journal(disk or OsDisk(), folder, 7, read(folder, applied), sync=True, tuning=SMALL)
    journal.begin()
    return journal


def append(journal: Journal, *bodies: bytes) -> None:
    journal.append(journal.frame([((1,), body) for body in bodies], journal.last))


def bodies(recovered: Recovered) -> list[bytes]:
    return [record.body for record in recovered.records]


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def uses(folder: Path) -> list[int]:
    return sorted(file.use for path in folder.iterdir() if (file := parse_log_file(path)))


def test_what_is_appended_is_read_back_in_order(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    append(journal, b"one", b"two")
    append(journal, b"three")
    found = read(tmp_path)
    assert [(record.number, record.durable, record.body) for record in found.records] == [
        (1, 0, b"one"),
        (2, 0, b"two"),
        (3, 2, b"three"),
    ]
    assert (found.last, found.damages, found.torn) == (3, [], None)
    assert bodies(read(tmp_path, applied=2)) == [b"three"]


def test_an_append_that_expects_another_end_is_fenced(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    append(journal, b"one")
    for after in (0, 2):
        with pytest.raises(Fenced):
            journal.append(journal.frame([((1,), b"two")], after))
    assert bodies(read(tmp_path)) == [b"one"]


def test_following_gives_what_is_durable_from_a_number_on(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    for number in range(40):
        append(journal, b"%d" % number * 20)
    journal.seal()
    assert len(uses(tmp_path)) > 2
    assert [record.number for record in journal.follow(0)] == list(range(1, 41))
    assert [record.body for record in journal.follow(38)] == [b"38" * 20, b"39" * 20]
    assert list(journal.follow(40)) == []


def test_following_from_before_what_was_trimmed_is_refused(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    append(journal, b"one")
    up_to = journal.roll()
    append(journal, b"two")
    journal.trim(up_to)
    assert [record.body for record in journal.follow(1)] == [b"two"]
    with pytest.raises(LookupError, match="change 1 is not in the journal any more"):
        list(journal.follow(0))


def test_files_roll_by_size_and_grow_up_to_a_bound(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    for number in range(60):
        append(journal, b"%02d" % number * 50)
    sizes = [file.size for file, _ in journal.files]
    assert sizes[:3] == [1_000, 2_000, 2_000]
    assert len(bodies(read(tmp_path))) == 60


@pytest.mark.parametrize("size", [900, 1_000, 5_000, 100_000])
def test_a_group_larger_than_a_file_gets_one_of_its_size(tmp_path: Path, size: int) -> None:
    journal = opened(tmp_path)
    append(journal, b"small")
    append(journal, b"x" * size, b"y" * size)
    append(journal, b"after")
    assert bodies(read(tmp_path)) == [b"small", b"x" * size, b"y" * size, b"after"]
    assert read(tmp_path).damages == []


def test_a_trimmed_file_becomes_the_spare_one_and_then_the_next(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    append(journal, b"x" * 700)
    up_to = journal.roll()
    append(journal, b"y" * 1_500)
    up_to = journal.roll()
    inode = max(tmp_path.glob("journal-*")).stat().st_ino
    append(journal, b"z")
    journal.trim(up_to)
    assert (tmp_path / "spare.log").stat().st_ino == inode
    journal.roll()
    append(journal, b"again")
    assert max(tmp_path.glob("journal-*")).stat().st_ino == inode
    assert bodies(read(tmp_path, applied=up_to)) == [b"z", b"again"]


def test_a_file_that_somebody_holds_is_not_written_again(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    append(journal, b"precious" * 200)
    held = max(tmp_path.glob("journal-*")).open("rb")
    journal.recycles = False
    up_to = journal.roll()
    append(journal, b"two")
    journal.trim(up_to)
    journal.roll()
    append(journal, b"x" * 700)
    assert b"precious" * 200 in held.read()
    held.close()


class BusyDisk(OsDisk):
    """A disk that does something else first when a folder is synced or a file is allocated."""

    def __init__(self) -> None:
        self.meanwhile: Callable[[], None] = lambda: None

    def sync_folder(self, folder: Path) -> None:
        self.meanwhile()
        super().sync_folder(folder)

    def create(self, path: Path) -> File:
        self.meanwhile()
        return super().create(path)


def test_groups_are_written_while_files_are_trimmed(tmp_path: Path) -> None:
    disk = BusyDisk()
    journal = opened(tmp_path, disk)
    append(journal, b"before")
    up_to = journal.roll()
    append(journal, b"after")
    disk.meanwhile = lambda: append(journal, b"meanwhile")
    journal.trim(up_to)
    assert bodies(read(tmp_path, applied=up_to)) == [b"after", b"meanwhile", b"meanwhile"]


def test_a_file_that_could_not_be_removed_is_removed_by_the_next_trim(tmp_path: Path) -> None:
    disk = WatchedDisk()
    journal = opened(tmp_path, disk)
    append(journal, b"one")
    journal.recycles = False
    up_to = journal.roll()
    append(journal, b"two")
    [first, _] = sorted(tmp_path.glob("journal-*"))
    with patch.object(disk, "remove", side_effect=PermissionError), pytest.raises(PermissionError):
        journal.trim(up_to)
    assert next(file.path for file, _ in journal.files) == first
    journal.trim(up_to)
    assert not first.exists()
    assert bodies(read(tmp_path, applied=up_to)) == [b"two"]


def test_a_recycled_file_brings_nothing_back(tmp_path: Path) -> None:
    """However many groups of the same size were in it before."""
    journal = opened(tmp_path)
    for number in range(30):
        append(journal, b"%02d" % number)
        journal.trim(journal.roll() - 2)
    assert bodies(read(tmp_path, applied=28)) == [b"28", b"29"]
    assert len(files(tmp_path)) <= 4


def test_a_start_begins_a_file_of_its_own(tmp_path: Path) -> None:
    for number in range(3):
        before = {path: path.read_bytes() for path in tmp_path.glob("journal-*")}
        append(opened(tmp_path), b"%d" % number)
        assert all(path.read_bytes() == data for path, data in before.items())
    assert (uses(tmp_path), bodies(read(tmp_path))) == ([1, 2, 3], [b"0", b"1", b"2"])


def test_a_name_is_durable_before_the_first_record(tmp_path: Path) -> None:
    disk = WatchedDisk()
    journal = opened(tmp_path, disk)
    append(journal, b"one")
    [path] = tmp_path.glob("journal-*")
    named, written = disk.steps.index(("rename", path)), disk.steps.index(("write", path))
    assert ("sync", tmp_path) in disk.steps[named:written]
    assert ("sync", tmp_path / "spare.log") in disk.steps[:named]


def test_a_seal_is_written_once_for_what_is_new(tmp_path: Path) -> None:
    disk = WatchedDisk()
    journal = opened(tmp_path, disk)
    append(journal, b"one")
    disk.steps.clear()
    for _ in range(3):
        journal.seal()
    assert [kind for kind, _ in disk.steps] == ["write", "sync"]


def test_closing_a_journal_that_nobody_needs_removes_it(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    append(journal, b"one")
    journal.trim(journal.roll())
    journal.close(trimmed=True)
    assert files(tmp_path) == []


def test_without_syncs_nothing_of_a_group_is_synced(tmp_path: Path) -> None:
    disk = WatchedDisk()
    journal = Journal(disk, tmp_path, 7, read(tmp_path), sync=False, tuning=SMALL)
    journal.begin()
    disk.steps.clear()
    append(journal, b"one")
    journal.seal()
    assert disk.synced() == []
    assert bodies(read(tmp_path)) == [b"one"]


# A full disk


def test_no_room_for_the_next_file_refuses_and_leaves_the_journal_as_it_was(tmp_path: Path) -> None:
    disk = WatchedDisk()
    journal = opened(tmp_path, disk)
    append(journal, b"one")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    disk.room_bytes = 1_500
    with pytest.raises(StorageFull, match="the disk is full"):
        append(journal, b"x" * 2_000)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert journal.last == 1
    append(journal, b"small ones still fit")
    disk.room_bytes = None
    append(journal, b"x" * 2_000)
    assert bodies(read(tmp_path)) == [b"one", b"small ones still fit", b"x" * 2_000]


@pytest.mark.parametrize("room_bytes", [0, 1, 30, 60, 100])
def test_what_was_refused_half_written_does_not_come_back(tmp_path: Path, room_bytes: int) -> None:
    """Where a file system copies, a write may find no room in a file that was allocated."""
    disk = WatchedDisk()
    journal = opened(tmp_path, disk)
    append(journal, b"one")
    disk.copies, disk.room_bytes = True, room_bytes
    with pytest.raises(StorageFull):
        append(journal, b"refused" * 5, b"refused too" * 5)
    assert (bodies(read(tmp_path)), read(tmp_path).torn) == ([b"one"], None)
    disk.room_bytes = None
    append(journal, b"two")
    assert bodies(read(tmp_path)) == [b"one", b"two"]


@pytest.mark.parametrize("sizes", [(1_500, 9_000), (9_000, 1_500)])
def test_a_file_that_could_not_be_taken_into_use_hides_no_other(tmp_path: Path, sizes: tuple[int, int]) -> None:
    """There was room for it, and none for the seal that says in the file before it that it follows."""
    disk = WatchedDisk()
    journal = opened(tmp_path, disk)
    append(journal, b"one")
    disk.copies, disk.room_bytes = True, max(2_000, sizes[0] + 116) + 10
    with pytest.raises(StorageFull):
        append(journal, b"x" * sizes[0])
    disk.room_bytes = None
    append(journal, b"y" * sizes[1])
    append(journal, b"three")
    assert bodies(read(tmp_path)) == [b"one", b"y" * sizes[1], b"three"]
    assert len(uses(tmp_path)) == len(set(uses(tmp_path)))


def test_any_other_error_of_a_write_is_no_refusal(tmp_path: Path) -> None:
    disk = WatchedDisk()
    journal = opened(tmp_path, disk)
    append(journal, b"one")
    disk.sync_error = errno.EIO
    with pytest.raises(OSError, match="Input/output error"):
        append(journal, b"two")
