"""A process that ends between any two steps on the disk leaves each change entirely or not at all."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from everbrook.protocol import Change, Producer
from everbrook.storage import ACID, FILE_DURABLE, FILE_FAST, DurableMode, Record, StorageFull
from tests.kit.disks import Stopped, WatchedDisk
from tests.kit.drafts import Draft
from tests.kit.stores import commit
from tests.unit.storage.checkpoints import HeldStorage, killed

NAMES = [b"s", b"f", b"g", b"t"]
MODES = pytest.mark.parametrize("mode", [ACID, FILE_DURABLE, FILE_FAST], ids=["acid", "durable", "fast"])
Contents = dict[bytes, tuple[Record, bytes, int]]


def changes() -> Iterator[Change]:
    """Give changes one by one: forks, soft deletion, cascades, names that pass on, joint writes."""
    source, other = Draft(b"s", 1), Draft(b"t", 9)
    yield (source.write(b"one", producer=(b"p", Producer(0, 0, 1))),)
    fork = Draft(b"f", 2, source=source, offset=3)
    yield (fork.write(b"two"),)
    yield source.write(b"three"), fork.write(b"four" * 60)
    yield (other.write(b"x" * 300),)
    again = Draft(b"f", 3, source=source, offset=3)
    yield fork.drop(), again.write(b"five", producer=(b"q", Producer(1, 1, 2)))
    yield source.write(b"six"), again.write(b"seven"), other.write(closed=True)
    yield (source.write(deleted=True),)
    last = Draft(b"g", 4, source=again, offset=7)
    yield (last.write(b"eight"),)
    yield (again.write(deleted=True),)
    yield last.drop(), again.drop(), source.drop()
    yield other.drop(), Draft(b"t", 10, json=True).write(b"1,", b"2,"), Draft(b"s", 11).write()


def opened(folder: Path, mode: DurableMode, disk: WatchedDisk | None = None) -> HeldStorage:
    return HeldStorage(folder, disk, mode, checkpoint_bytes=300, chunk_bytes=100, segment_bytes=200)


def contents(storage: HeldStorage) -> Contents:
    """Give everything that can be seen of the streams: state, own bytes, forks."""
    found: Contents = {}
    for name in NAMES:
        if record := storage.load(name):
            identity = record.head.identity
            data = storage.read(identity.incarnation, identity.first_own_offset, record.head.tail)
            found[name] = (Record(record.head, dict(record.producers)), data, storage.fork_count(identity.incarnation))
    return found


def states(folder: Path, mode: DurableMode) -> list[Contents]:
    """Give what a store holds before and after each of the changes."""
    storage = opened(folder, mode)
    seen = [contents(storage)]
    for change in changes():
        commit(storage, change)
        seen.append(contents(storage))
    storage.close()
    return seen


def run(folder: Path, mode: DurableMode, disk: WatchedDisk, steps: int | None = None) -> tuple[Path, int]:
    """Go through the changes until the disk stops. Gives what is left then, and how many were acknowledged."""
    acknowledged, storage = 0, opened(folder / "store", mode, disk)
    disk.steps_left = steps
    with suppress(Stopped):
        for change in changes():
            storage.persist([change])
            acknowledged += 1
            storage.apply([change])
            storage.background.finish()
    copy = killed(storage, folder / "left")
    disk.steps_left = None
    storage.close()
    disk.abandon()
    return copy, acknowledged


@MODES
def test_each_change_is_there_entirely_or_not_at_all(tmp_path: Path, mode: DurableMode) -> None:
    expected, whole = states(tmp_path / "whole", mode), WatchedDisk()
    run(tmp_path / "counted", mode, whole)
    seen: set[int] = set()
    for steps in range(len(whole.steps)):
        disk = WatchedDisk()
        copy, acknowledged = run(tmp_path / str(steps), mode, disk, steps)
        seen.add(acknowledged)
        storage = opened(copy, mode)
        assert contents(storage) in expected[acknowledged : acknowledged + 2]
        assert (storage.damages, storage.refusal) == ([], None)
        storage.close()
    assert seen == set(range(len(expected)))


@MODES
def test_a_recovery_that_is_cut_short_at_any_step_can_be_done_again(tmp_path: Path, mode: DurableMode) -> None:
    storage, expected = opened(tmp_path / "store", mode), states(tmp_path / "whole", mode)
    for change in list(changes())[:7]:
        commit(storage, change)
    copy = killed(storage, tmp_path / "copy")
    storage.close()
    for steps in range(30):
        disk = WatchedDisk()
        disk.steps_left = steps
        with suppress(Stopped):
            storage = opened(copy, mode, disk)
            disk.steps_left = None
            storage.close()
            break
        disk.abandon()
    storage = opened(copy, mode)
    assert contents(storage) == expected[7]
    storage.close()
    assert steps > 5


@MODES
def test_a_group_without_room_leaves_nothing_behind(tmp_path: Path, mode: DurableMode) -> None:
    """However little room there is, and also where a file system copies what is written."""
    disk, scene = WatchedDisk(), list(changes())
    storage = HeldStorage(tmp_path / "store", disk, mode)
    for change in scene[:4]:
        commit(storage, change)
    seen, group, disk.copies = contents(storage), scene[4:], True
    for room_bytes in (0, 1, 25, 60, 90, 150, 200, 280, 400):
        disk.room_bytes = room_bytes
        with pytest.raises(StorageFull):
            storage.persist(group)
        again = HeldStorage(killed(storage, tmp_path / str(room_bytes)), mode=mode)
        assert contents(storage) == contents(again) == seen
        again.close()
    disk.room_bytes = None
    commit(storage, *group)
    assert contents(storage) != seen
    storage.close()
