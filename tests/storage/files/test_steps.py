"""A process that ends between any two steps leaves each change entirely or not at all."""

from contextlib import suppress
from pathlib import Path

import pytest

from tests.storage.drafts import Draft
from tests.storage.files.disks import Stopped, WatchedDisk
from tests.storage.files.opening import HeldFiles, abandon, commit, contents, open_files
from tests.storage.files.scenes import NAMES, SEGMENT_BYTES, changes, states


def run(folder: Path, disk: WatchedDisk) -> int:
    """Go through the changes until the disk stops. Gives how many were acknowledged."""
    acknowledged = 0
    storage: HeldFiles | None = None
    try:
        storage = open_files(folder, disk, segment_bytes=SEGMENT_BYTES)
        for change in changes():
            storage.persist([change])
            acknowledged += 1
            storage.apply([change])
    except Stopped:
        pass
    disk.steps_left = None
    if storage:
        abandon(storage)
    disk.forget()
    return acknowledged


def step_count(folder: Path) -> int:
    disk = WatchedDisk()
    run(folder, disk)
    return len(disk.steps)


@pytest.mark.parametrize("part", range(4))
def test_each_change_is_there_entirely_or_not_at_all(tmp_path: Path, part: int) -> None:
    expected = states(tmp_path / "whole")
    for steps in range(part, step_count(tmp_path / "counted"), 4):
        folder = tmp_path / str(steps)
        disk = WatchedDisk()
        disk.steps_left = steps
        acknowledged = run(folder, disk)
        storage = open_files(folder, segment_bytes=SEGMENT_BYTES)
        assert contents(storage, NAMES) in expected[acknowledged : acknowledged + 2]
        assert storage.damages == []
        storage.close()


def test_a_recovery_that_is_cut_short_at_any_step_can_be_done_again(tmp_path: Path) -> None:
    expected = states(tmp_path / "whole")
    for steps in range(0, step_count(tmp_path / "counted"), 7):
        folder = tmp_path / str(steps)
        disk = WatchedDisk()
        disk.steps_left = steps
        acknowledged = run(folder, disk)
        for recovery_steps in (0, 1, 2, 3, 5, 8):
            disk.steps_left = recovery_steps
            with suppress(Stopped):
                abandon(open_files(folder, disk, segment_bytes=SEGMENT_BYTES))
            disk.steps_left = None
            disk.forget()
        storage = open_files(folder, segment_bytes=SEGMENT_BYTES)
        assert contents(storage, NAMES) in expected[acknowledged : acknowledged + 2]
        storage.close()


def test_what_a_crash_left_over_is_swept_away(tmp_path: Path) -> None:
    for steps in range(0, step_count(tmp_path / "counted"), 3):
        folder = tmp_path / str(steps)
        disk = WatchedDisk()
        disk.steps_left = steps
        run(folder, disk)
        storage = open_files(folder, segment_bytes=SEGMENT_BYTES)
        present = {record.head.identity.incarnation for name in NAMES if (record := storage.load(name))}
        storage.close()
        assert {int(path.name[:16], 16) for path in folder.glob("streams/*/*.log")} == present
        assert len(list(folder.glob("catalogue*"))) == 1


def test_a_source_is_not_softly_deleted_without_the_fork_that_kept_it(tmp_path: Path) -> None:
    """Both are in one group: at no step may the deletion be there alone, or nobody would ever remove the source."""
    found: set[tuple[bool, int]] = set()
    for steps in range(20):
        disk = WatchedDisk()
        storage = open_files(tmp_path / str(steps), disk)
        source = Draft(b"s", 1)
        commit(storage, (source.write(b"one"),))
        disk.steps_left = steps
        with suppress(Stopped):
            storage.persist([(Draft(b"f", 2, source=source, offset=3).write(b"two"),), (source.write(deleted=True),)])
        disk.steps_left = None
        abandon(storage)
        storage = open_files(tmp_path / str(steps))
        record = storage.load(b"s")
        assert record
        found.add((record.head.deleted, storage.fork_count(1)))
        storage.close()
    assert found == {(False, 0), (False, 1), (True, 1)}


def test_a_change_that_was_done_again_can_be_built_upon(tmp_path: Path) -> None:
    """The log of the joint change's first stream was written, that of the second not."""
    scene = list(changes())[:3]
    disk = WatchedDisk()
    storage = open_files(tmp_path, disk)
    commit(storage, *scene[:2])
    disk.steps_left = 4
    with pytest.raises(Stopped):
        storage.persist([scene[2]])
    disk.steps_left = None
    abandon(storage)
    for _ in range(2):
        storage = open_files(tmp_path)
        assert storage.read(1, 0, 8) == b"onethree"
        assert storage.read(2, 3, 10) == b"twofour"
        storage.close()
