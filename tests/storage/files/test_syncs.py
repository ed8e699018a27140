"""What is synced, and when: everything a group touched before it is acknowledged; in the fast mode nothing."""

import errno
from pathlib import Path

import pytest

from everbrook.protocol.errors import Unavailable
from tests.storage.drafts import Draft
from tests.storage.files.disks import WatchedDisk
from tests.storage.files.opening import abandon, commit, open_files, segments


def synced(disk: WatchedDisk) -> list[Path]:
    return [path for kind, path in disk.steps if kind == "sync"]


def test_a_group_syncs_each_file_once(tmp_path: Path) -> None:
    disk = WatchedDisk()
    storage = open_files(tmp_path, disk)
    streams = [Draft(b"%d" % number, number) for number in range(1, 6)]
    commit(storage, *((stream.write(b"x"),) for stream in streams))
    disk.steps.clear()
    storage.persist([(stream.write(b"y"),) for stream in streams * 10])
    assert sorted(synced(disk)) == segments(tmp_path)
    storage.close()


def test_a_creation_syncs_log_and_folder_before_the_catalogue(tmp_path: Path) -> None:
    disk = WatchedDisk()
    storage = open_files(tmp_path, disk)
    disk.steps.clear()
    storage.persist([(Draft(b"a", 1).write(b"x"),)])
    [log], [catalogue] = segments(tmp_path), tmp_path.glob("catalogue-*.log")
    assert {log, log.parent} <= set(synced(disk)[:-1])
    # It is still known by the name under which it was begun.
    assert disk.steps[-2:] == [(kind, catalogue.with_suffix(".new")) for kind in ("write", "sync")]
    storage.close()


def test_the_folder_of_a_dropped_stream_is_synced_with_the_next_group(tmp_path: Path) -> None:
    disk = WatchedDisk()
    storage = open_files(tmp_path, disk)
    gone, other = Draft(b"a", 1), Draft(b"b", 2)
    commit(storage, (gone.write(b"x"),), (other.write(b"x"),))
    [folder] = [path.parent for path in segments(tmp_path) if path.name.startswith("0000000000000001")]
    commit(storage, (gone.drop(),))
    disk.steps.clear()
    commit(storage, (other.write(b"y"),))
    assert folder in synced(disk)
    storage.close()


def test_the_fast_mode_syncs_no_file(tmp_path: Path) -> None:
    disk = WatchedDisk()
    storage = open_files(tmp_path, disk, durable=False)
    stream = Draft(b"a", 1)
    commit(storage, (stream.write(b"x"),))
    disk.steps.clear()
    commit(storage, (stream.write(b"y"),), (Draft(b"b", 2).write(b"y"),))
    commit(storage, (stream.drop(),))
    storage.close()
    assert [path for path in synced(disk) if path.suffix] == []


def test_the_fast_mode_syncs_the_catalogue_that_it_begins(tmp_path: Path) -> None:
    """It takes the place of one in which deletions may stand that were acknowledged as durable."""
    disk = WatchedDisk()
    storage = open_files(tmp_path, disk, durable=False)
    [catalogue] = tmp_path.glob("catalogue-*.log")
    begun = disk.steps.index(("rename", catalogue))
    assert ("sync", catalogue.with_suffix(".new")) in disk.steps[:begun]
    assert ("sync", tmp_path) in disk.steps[begun:]
    storage.close()


def test_the_fast_mode_has_written_before_it_acknowledges(tmp_path: Path) -> None:
    storage = open_files(tmp_path, durable=False)
    storage.persist([(Draft(b"a", 1).write(b"precious"),)])
    [log] = segments(tmp_path)
    assert log.read_bytes().endswith(b"precious")
    storage.close()


def test_what_a_killed_process_may_not_have_synced_is_synced_before_it_is_shown(tmp_path: Path) -> None:
    """A retry would be answered as a duplicate of it: it must not vanish after that."""
    storage = open_files(tmp_path)
    storage.persist([(Draft(b"a", 1).write(b"x"),)])
    abandon(storage)
    disk = WatchedDisk()
    storage = open_files(tmp_path, disk)
    disk.steps.clear()
    storage.load(b"a")
    [log] = segments(tmp_path)
    assert synced(disk) == [log, log.parent]
    storage.close()


def test_a_catalogue_is_synced_before_anything_is_removed_on_its_word(tmp_path: Path) -> None:
    """The process that dropped the stream may have ended before its sync."""
    storage = open_files(tmp_path)
    stream = Draft(b"a", 1)
    commit(storage, (stream.write(b"x"),))
    storage.persist([(stream.drop(),)])
    abandon(storage)
    [log], [catalogue] = segments(tmp_path), tmp_path.glob("catalogue-*.log")
    disk = WatchedDisk()
    open_files(tmp_path, disk).close()
    assert disk.steps.index(("sync", catalogue)) < disk.steps.index(("remove", log))


def test_a_joint_change_is_forgotten_only_when_all_its_logs_are_synced(tmp_path: Path) -> None:
    """The logs have it already, but perhaps in the memory of the machine only."""
    storage = open_files(tmp_path)
    one, two = Draft(b"a", 1), Draft(b"b", 2)
    commit(storage, (one.write(b"x"),), (two.write(b"x"),))
    storage.persist([(one.write(b"y"), two.write(b"y"))])
    abandon(storage)
    disk = WatchedDisk()
    open_files(tmp_path, disk).close()
    begun = next(place for place, (kind, _) in enumerate(disk.steps) if kind == "rename")
    assert {("sync", path) for path in segments(tmp_path)} <= set(disk.steps[:begun])


def test_what_could_not_be_synced_is_not_shown_and_nothing_is_written_any_more(tmp_path: Path) -> None:
    storage = open_files(tmp_path)
    storage.persist([(Draft(b"a", 1).write(b"x"),)])
    abandon(storage)
    disk = WatchedDisk()
    storage = open_files(tmp_path, disk)
    disk.sync_error = errno.EIO
    for _ in range(2):
        with pytest.raises(Unavailable):
            storage.load(b"a")
    with pytest.raises(OSError, match="sync"):
        storage.persist([(Draft(b"b", 2).write(b"x"),)])
    storage.close()
    storage = open_files(tmp_path)
    assert storage.load(b"a")
    storage.close()


def test_what_the_fast_mode_wrote_is_synced_when_the_store_is_opened_as_a_durable_one(tmp_path: Path) -> None:
    """All of it, not only the last segment."""
    storage = open_files(tmp_path, durable=False, segment_bytes=1)
    stream = Draft(b"a", 1)
    for _ in range(3):
        commit(storage, (stream.write(b"x"),))
    assert len(segments(tmp_path)) == 3
    storage.close()
    for _ in range(2):
        disk = WatchedDisk()
        storage = open_files(tmp_path, disk)
        disk.steps.clear()
        storage.load(b"a")
        assert set(segments(tmp_path)) < set(synced(disk))
        storage.close()


def test_after_a_clean_end_nothing_has_to_be_synced_again(tmp_path: Path) -> None:
    storage = open_files(tmp_path)
    commit(storage, (Draft(b"a", 1).write(b"x"),))
    storage.close()
    disk = WatchedDisk()
    storage = open_files(tmp_path, disk)
    disk.steps.clear()
    storage.load(b"a")
    assert disk.steps == []
    storage.close()


def test_snapshots_of_the_fast_mode_are_synced_when_the_store_is_opened_as_a_durable_one(tmp_path: Path) -> None:
    storage = open_files(tmp_path, durable=False)
    stream = Draft(b"a", 1)
    blob = storage.blobs.begin(1, 9)
    blob.write(b"sum")
    blob.finish()
    commit(storage, (stream.write(b"x"),), (stream.cut(1, blob=9, content=b"sum"),))
    storage.close()
    disk = WatchedDisk()
    storage = open_files(tmp_path, disk)
    storage.load(b"a")
    [path] = tmp_path.rglob("*.blob")
    assert {path, path.parent} <= set(synced(disk))
    storage.close()
