"""Blobs that nobody needs any more: superseded snapshots, and what a crash left behind."""

import errno
from collections.abc import Iterator

import pytest

from everbrook.protocol import DeleteSnapshot
from everbrook.storage import MemoryBlobs, MemoryStorage, StorageFull
from tests.kit.fakes import DelayedStorage
from tests.unit.engine.rig import DelayedRig, Rig

FULL = StorageFull("the disk is full")


@pytest.fixture
def small(rig: Rig) -> Rig:
    """A stream of three messages, which end at 1, 2 and 3."""
    rig.create(b"a", b"1")
    rig.append(b"a", b"2")
    rig.append(b"a", b"3")
    return rig


def test_a_superseded_snapshot_goes(small: Rig) -> None:
    """002 §2.2: it may be collected when the new one is visible."""
    small.publish(b"a", 1, b"one")
    small.publish(b"a", 2, b"two")
    small.work()
    assert small.snapshot(b"a") == b"two"
    assert len(small.blobs()) == 1


def test_a_deleted_snapshot_goes(small: Rig) -> None:
    """002 §2.6."""
    small.publish(b"a", 1, keep_history=True)
    small.engine.execute(DeleteSnapshot(b"a", small.clock.now(), 1))
    small.work()
    assert small.blobs() == []


def test_a_snapshot_goes_with_its_stream(small: Rig) -> None:
    small.publish(b"a", 1)
    small.delete(b"a")
    small.work()
    assert small.blobs() == []
    assert small.storage.used_bytes == 0


def test_a_snapshot_stays_while_history_is_let_go_of(small: Rig) -> None:
    small.publish(b"a", 2, b"two", keep_history=True)
    small.retain(b"a", 1)
    small.work()
    assert small.snapshot(b"a") == b"two"


def test_a_snapshot_that_a_fork_inherited_stays_until_the_fork_goes(small: Rig) -> None:
    small.publish(b"a", 1, b"one")
    small.fork(b"f", b"a")
    small.publish(b"a", 2, b"two")
    small.work()
    assert (small.snapshot(b"f"), small.snapshot(b"a")) == (b"one", b"two")
    small.delete(b"f")
    small.work()
    assert len(small.blobs()) == 1


def test_a_snapshot_that_several_forks_inherited_goes_with_the_last(small: Rig) -> None:
    small.publish(b"a", 1, b"one")
    small.fork(b"f", b"a")
    small.fork(b"g", b"f")
    small.delete(b"a")
    small.delete(b"f")
    small.work()
    assert small.snapshot(b"g") == b"one"
    small.delete(b"g")
    small.work()
    assert small.blobs() == []


def test_a_fork_that_publishes_leaves_the_inherited_snapshot_to_its_own_forks(small: Rig) -> None:
    small.publish(b"a", 1, b"one")
    small.fork(b"f", b"a")
    small.fork(b"g", b"f")
    small.publish(b"f", 3, b"three")
    small.publish(b"a", 3, b"other")
    small.work()
    assert [small.snapshot(name) for name in (b"a", b"f", b"g")] == [b"other", b"three", b"one"]


def test_a_fork_of_a_stream_without_its_snapshot_does_not_keep_it(small: Rig) -> None:
    small.publish(b"a", 2, keep_history=True)
    small.fork(b"f", b"a", 1)
    small.delete(b"a")
    small.delete(b"f")
    small.work()
    assert small.blobs() == []


def test_a_snapshot_is_removed_only_when_the_next_one_is_durable(delayed: DelayedRig) -> None:
    delayed.create(b"a", b"1")
    delayed.publish(b"a", 0, b"one")
    delayed.let_everything_arrive()
    delayed.publish(b"a", 1, b"two")
    delayed.work()
    assert (delayed.snapshot(b"a"), len(delayed.blobs())) == (b"one", 2)
    delayed.let_everything_arrive()
    delayed.work()
    assert (delayed.snapshot(b"a"), len(delayed.blobs())) == (b"two", 1)


def test_a_snapshot_that_there_was_no_room_to_publish_goes(delayed: DelayedRig) -> None:
    delayed.create(b"a", b"1")
    delayed.publish(b"a", 0, b"one")
    delayed.let_everything_arrive()
    delayed.publish(b"a", 1, b"two")
    delayed.let_group_arrive(FULL)
    delayed.work()
    assert (delayed.snapshot(b"a"), len(delayed.blobs())) == (b"one", 1)


def test_a_snapshot_that_may_be_durable_stays(delayed: DelayedRig) -> None:
    """After a failed sync nobody knows: the next start finds out."""
    delayed.create(b"a", b"1")
    delayed.let_everything_arrive()
    delayed.publish(b"a", 1, b"two")
    delayed.let_group_arrive(OSError("the disk is gone"))
    delayed.work()
    assert len(delayed.blobs()) == 1


# Orphans


@pytest.fixture
def lasting() -> Iterator[DelayedRig]:
    """A storage that outlives its engine, with a stream that has a snapshot."""
    rig = DelayedRig(storage=DelayedStorage())
    rig.create(b"a", b"1")
    rig.publish(b"a", 1, b"one")
    rig.let_everything_arrive()
    yield rig
    rig.let_everything_arrive()
    rig.engine.close()


def leave(rig: DelayedRig, owner: int, number: int) -> None:
    """Leave a blob that nothing refers to."""
    rig.storage.blobs.begin(owner, number).finish()


def test_orphans_of_earlier_runs_go_when_the_server_starts(lasting: DelayedRig) -> None:
    (owner, number), *_ = lasting.blobs()
    leave(lasting, owner, number + 1)
    leave(lasting, 5, 7)
    lasting.restart()
    lasting.work()
    assert lasting.blobs() == [(owner, number)]
    assert lasting.snapshot(b"a") == b"one"


class ManyBlobs(MemoryBlobs):
    """So many blobs that they are given in batches, here of one."""

    def all(self) -> Iterator[list[tuple[int, int]]]:
        return ([key] for batch in super().all() for key in batch)


def test_orphans_go_however_many_there_are() -> None:
    storage = DelayedStorage()
    storage.blobs = ManyBlobs()
    rig = DelayedRig(storage=storage)
    for number in range(5):
        leave(rig, 5, number)
    rig.restart()
    rig.work()
    assert rig.blobs() == []


def test_what_this_run_writes_is_no_orphan(lasting: DelayedRig) -> None:
    """A blob is there before a change refers to it."""
    lasting.restart()
    leave(lasting, 5, lasting.engine.new_incarnation())
    lasting.work()
    assert len(lasting.blobs()) == 2


def test_a_clock_that_was_set_back_makes_no_orphans(lasting: DelayedRig) -> None:
    lasting.clock.set_back_ms = 10**9
    lasting.restart()
    leave(lasting, 5, lasting.engine.new_incarnation())
    lasting.work()
    assert len(lasting.blobs()) == 2
    assert lasting.snapshot(b"a") == b"one"


def test_snapshots_that_only_a_fork_needs_are_no_orphans(lasting: DelayedRig) -> None:
    lasting.fork(b"f", b"a")
    lasting.delete(b"a")
    lasting.let_everything_arrive()
    lasting.restart()
    lasting.work()
    assert lasting.snapshot(b"f") == b"one"


def test_an_engine_that_is_closed_looks_for_no_more_orphans(lasting: DelayedRig) -> None:
    leave(lasting, 5, 7)
    lasting.restart()
    lasting.worker.run()
    lasting.engine.close()
    lasting.scheduler.run_from_threads()
    assert (5, 7) in lasting.blobs()


class StuckBlobs(MemoryBlobs):
    """Blobs that can't be removed while the disk is full."""

    def remove(self, owner: int, number: int) -> None:  # noqa: ARG002 - the interface of blobs
        raise OSError(errno.ENOSPC, "no space left on the disk")


class StuckStorage(MemoryStorage):
    """A storage with such blobs."""

    def __init__(self) -> None:
        super().__init__()
        self.blobs = StuckBlobs()


def test_a_snapshot_that_can_not_be_removed_is_left_to_the_next_start(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(storage=StuckStorage())
    rig.create(b"a", b"1")
    rig.append(b"a", b"2")
    rig.publish(b"a", 1, b"one")
    rig.publish(b"a", 2, b"two")
    rig.work()
    assert rig.snapshot(b"a") == b"two"
    assert "stays until the next start" in caplog.text
    assert not any(rig.engine.faults.counts.values())
