"""A full disk refuses a group, leaves nothing of it behind, and works again when there is room."""

import errno
from pathlib import Path

import pytest

from everbrook.storage import StorageFull
from tests.storage.drafts import Draft
from tests.storage.files.disks import WatchedDisk
from tests.storage.files.opening import abandon, commit, contents, open_files, segments
from tests.storage.files.scenes import NAMES, SEGMENT_BYTES, changes


def files(folder: Path) -> dict[Path, bytes]:
    """Give every file of a store but the lock."""
    return {path: path.read_bytes() for path in folder.rglob("*.log")}


@pytest.mark.parametrize("split", [2, 4, 9, 10], ids=["joint", "pass on", "cascade", "two new"])
def test_a_group_without_room_leaves_nothing_behind(tmp_path: Path, split: int) -> None:
    """However little room there is, the files are cut back to where they were."""
    disk = WatchedDisk()
    storage = open_files(tmp_path, disk, segment_bytes=SEGMENT_BYTES)
    scene = list(changes())
    before, group = scene[:split], scene[split:]
    for change in before:
        commit(storage, change)
    seen, stored = contents(storage, NAMES), files(tmp_path)
    for room_bytes in (0, 1, 25, 60, 90, 150, 200, 280, 400, 500):
        disk.room_bytes = room_bytes
        try:
            storage.persist(group)
        except StorageFull:
            assert files(tmp_path) == stored
            assert contents(storage, NAMES) == seen
        else:
            break
    else:
        disk.room_bytes = None
        storage.persist(group)
    storage.apply(group)
    visible = contents(storage, NAMES)
    storage.close()
    storage = open_files(tmp_path, segment_bytes=SEGMENT_BYTES)
    assert contents(storage, NAMES) == visible != seen
    storage.close()


def test_a_refused_group_is_not_there_after_a_crash(tmp_path: Path) -> None:
    disk = WatchedDisk()
    storage = open_files(tmp_path, disk)
    stream = Draft(b"a", 1)
    commit(storage, (stream.write(b"one"),))
    seen = contents(storage, [b"a", b"b"])
    disk.room_bytes = 100
    with pytest.raises(StorageFull):
        storage.persist([(stream.write(b"two"),), (Draft(b"b", 2).write(b"three"),)])
    abandon(storage)
    storage = open_files(tmp_path)
    assert contents(storage, [b"a", b"b"]) == seen
    storage.close()


def test_a_store_can_be_read_though_there_is_no_room_to_open_it_for_writing(tmp_path: Path) -> None:
    storage = open_files(tmp_path)
    commit(storage, (Draft(b"a", 1).write(b"one"),))
    storage.close()
    disk = WatchedDisk()
    disk.room_bytes = 0
    storage = open_files(tmp_path, disk)
    assert storage.read(1, 0, 3) == b"one"
    new = Draft(b"b", 2)
    group = [(new.write(b"two"),)]
    with pytest.raises(StorageFull):
        storage.persist(group)
    disk.room_bytes = None
    storage.persist(group)
    storage.apply(group)
    assert storage.read(2, 0, 3) == b"two"
    storage.close()


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC], ids=["error", "no room"])
def test_after_a_failed_sync_nothing_more_is_written(tmp_path: Path, code: int) -> None:
    """Why a sync failed does not matter: nobody knows what is on the disk."""
    disk = WatchedDisk()
    storage = open_files(tmp_path, disk)
    stream = Draft(b"a", 1)
    commit(storage, (stream.write(b"one"),))
    disk.sync_error = code
    with pytest.raises(OSError, match="sync"):
        storage.persist([(stream.write(b"two"),)])
    steps = len(disk.steps)
    with pytest.raises(OSError, match="opened anew"):
        storage.persist([(stream.write(b"three"),)])
    assert storage.read(1, 0, 3) == b"one"
    storage.close()
    assert len(disk.steps) == steps


def test_what_an_opening_finished_is_not_taken_back_with_a_refused_group(tmp_path: Path) -> None:
    storage = open_files(tmp_path)
    one, two = Draft(b"a", 1), Draft(b"b", 2)
    commit(storage, (one.write(b"first"),), (two.write(b"other"),))
    before = {path: path.read_bytes() for path in segments(tmp_path)}
    storage.persist([(one.write(b"x"), two.write(b"y"))])
    abandon(storage)
    for path, log in before.items():
        path.write_bytes(log)
    disk = WatchedDisk()
    storage = open_files(tmp_path, disk)
    disk.room_bytes = 0
    with pytest.raises(StorageFull):
        storage.persist([(Draft(b"c", 3).write(b"new"),)])
    abandon(storage)
    storage = open_files(tmp_path)
    assert storage.read(1, 0, 6) == b"firstx"
    assert storage.read(2, 0, 6) == b"othery"
    storage.close()
