"""Checkpoints that fail on the way: nothing is taken in twice, nothing is forgotten, and memory stays bounded."""

from pathlib import Path
from threading import Event, Thread

import pytest

from everbrook.storage import ACID, FILE_DURABLE, DurableMode, StorageFull
from everbrook.storage.checkpoint import Checkpoint
from everbrook.storage.checkpointer import Pace
from everbrook.storage.tuning import DEFAULT_TUNING
from tests.kit.disks import WatchedDisk
from tests.kit.drafts import Draft
from tests.kit.stores import commit
from tests.unit.storage.checkpoints import HeldStorage, journal_files, killed

MODES = pytest.mark.parametrize("mode", [ACID, FILE_DURABLE], ids=["acid", "file"])


class StuckDisk(WatchedDisk):
    """A disk from which nothing can be removed while it is stuck."""

    stuck = False

    def remove(self, path: Path) -> None:
        if self.stuck:
            raise PermissionError(13, "not today", str(path))
        super().remove(path)


def fail(_checkpoint: Checkpoint) -> None:
    raise OSError(28, "No space left on device")


@MODES
def test_a_checkpoint_that_is_tried_again_takes_nothing_in_twice(tmp_path: Path, mode: DurableMode) -> None:
    disk, stream = StuckDisk(), Draft(b"a", 1)
    storage = HeldStorage(tmp_path, disk, mode, checkpoint_bytes=1, max_recent_checkpoints=1 << 20, chunk_bytes=2)
    for number in range(9):
        disk.stuck = number < 5
        commit(storage, (stream.write(b"%d" % number),))
        storage.background.finish()
    storage.close()
    again = HeldStorage(tmp_path, mode=mode)
    assert again.read(1, 0, 9) == b"012345678"
    again.close()


@MODES
def test_a_checkpoint_that_cannot_commit_is_made_later(
    tmp_path: Path, mode: DurableMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = HeldStorage(tmp_path, mode=mode, checkpoint_bytes=1, max_recent_checkpoints=1 << 20, chunk_bytes=3)
    stream = Draft(b"a", 1)
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "commit", fail)
        for number in range(3):
            commit(storage, (stream.write(b"%d" % number),))
            storage.background.finish()
        assert storage.stored_bytes(1) == 0
    assert storage.checkpoints.failed
    commit(storage, (stream.write(b"3"),))
    storage.settle()
    assert storage.stored_bytes(1) >= 1
    assert storage.read(1, 0, 4) == b"0123"
    storage.close()
    again = HeldStorage(tmp_path, mode=mode)
    assert again.read(1, 0, 4) == b"0123"
    again.close()


@MODES
def test_a_store_can_be_closed_when_a_checkpoint_has_failed(
    tmp_path: Path, mode: DurableMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, stream = HeldStorage(tmp_path, mode=mode, checkpoint_bytes=1), Draft(b"a", 1)
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "commit", fail)
        commit(storage, (stream.write(b"one"),))
        storage.close()
    again = HeldStorage(tmp_path, mode=mode)
    assert again.read(1, 0, 3) == b"one"
    again.close()


def test_a_journal_is_trimmed_only_after_its_changes_are_in_the_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, stream = HeldStorage(tmp_path / "store", checkpoint_bytes=1), Draft(b"a", 1)
    monkeypatch.setattr(Checkpoint, "commit", fail)
    commit(storage, (stream.write(b"one"),))
    copy = killed(storage, tmp_path / "copy")
    monkeypatch.undo()
    again = HeldStorage(copy)
    assert again.read(1, 0, 3) == b"one"
    again.close()
    storage.close()


def test_a_checkpoint_claims_no_change_that_was_not_applied(tmp_path: Path) -> None:
    """The next group may be durable already when the one before it is applied."""
    storage, stream = HeldStorage(tmp_path / "store", checkpoint_bytes=1), Draft(b"a", 1)
    first, second = [(stream.write(b"one"),)], [(stream.write(b"two"),)]
    storage.persist(first)
    storage.persist(second)
    storage.apply(first)
    copy = killed(storage, tmp_path / "copy")
    storage.apply(second)
    storage.close()
    for folder in (copy, tmp_path / "store"):
        again = HeldStorage(folder)
        assert again.read(1, 0, 6) == b"onetwo"
        again.close()


def test_the_journal_does_not_grow_with_what_is_in_the_base(tmp_path: Path) -> None:
    storage, stream = HeldStorage(tmp_path, checkpoint_bytes=10_000), Draft(b"a", 1)
    for _ in range(200):
        commit(storage, (stream.write(b"x" * 1_000),))
        storage.settle()
    assert len(journal_files(tmp_path)) <= 2
    assert sum(path.stat().st_size for path in (tmp_path / "journal").iterdir()) <= 3 << 18
    storage.close()
    assert journal_files(tmp_path) == []


# The bound of what is in memory


def fill_up(storage: HeldStorage, stream: Draft) -> None:
    """Write until the journal has grown to its bound."""
    while storage.checkpoints.journal_bytes < 4_000:
        commit(storage, (stream.write(b"x" * 400),))


def test_changes_wait_for_a_checkpoint_when_there_is_too_much_in_memory(tmp_path: Path) -> None:
    storage, stream = HeldStorage(tmp_path, checkpoint_bytes=1_000, max_recent_checkpoints=4), Draft(b"a", 1)
    go_on, done = storage.background.hold(), Event()
    fill_up(storage, stream)
    group = [(stream.write(b"y"),)]

    def persist() -> None:
        storage.persist(group)
        done.set()

    waiting = Thread(target=persist)
    waiting.start()
    assert not done.wait(0.2)
    go_on.set()
    waiting.join()
    assert done.is_set()
    storage.apply(group)
    storage.close()


def test_changes_are_refused_while_checkpoints_fail_and_taken_again_after_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, stream = HeldStorage(tmp_path, checkpoint_bytes=1_000, max_recent_checkpoints=4), Draft(b"a", 1)
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "commit", fail)
        fill_up(storage, stream)
        tail, size = storage.load(b"a"), sum(path.stat().st_size for path in journal_files(tmp_path))
        for _ in range(3):
            with pytest.raises(StorageFull, match="checkpoints fail"):
                storage.persist([(Draft(b"b", 2).write(b"y"),)])
        assert storage.load(b"a") == tail
        assert sum(path.stat().st_size for path in journal_files(tmp_path)) == size
        storage.background.finish()
    with pytest.raises(StorageFull):
        # It has another checkpoint made, which the next change finds.
        storage.persist([(Draft(b"b", 2).write(b"y"),)])
    commit(storage, (Draft(b"b", 2).write(b"y"),))
    assert storage.read(2, 0, 1) == b"y"
    storage.close()


# Incarnations


@pytest.mark.parametrize("after", ["checkpoint", "kill"])
def test_the_last_incarnation_outlives_its_stream(tmp_path: Path, after: str) -> None:
    storage, stream = HeldStorage(tmp_path / "store"), Draft(b"a", 77)
    commit(storage, (Draft(b"b", 5).write(b"x"),), (stream.write(b"x"),))
    commit(storage, (stream.drop(),))
    assert storage.last_incarnation == 77
    copy = killed(storage, tmp_path / "copy")
    storage.close()
    for _ in range(2):
        storage = HeldStorage(copy if after == "kill" else tmp_path / "store")
        assert storage.last_incarnation == 77
        storage.close()


class Hours:
    """A clock that goes on when somebody works or sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def sleep(self, secs: float) -> None:
        self.slept.append(secs)
        self.now += secs


def test_a_checkpoint_rests_in_proportion_to_its_work() -> None:
    hours, hurry = Hours(), [False]
    pace = Pace(DEFAULT_TUNING, lambda: hurry[0], lambda: hours.now, hours.sleep)
    for secs in (0.0006, 0.0006, 0.002, 1.0):
        hours.now += secs
        pace.rest()
    assert hours.slept == pytest.approx([0.0024, 0.004, 0.02])
    hurry[0] = True
    hours.now += 1
    pace.rest()
    assert len(hours.slept) == 3
