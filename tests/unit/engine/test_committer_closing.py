"""How the committer closes, which thread it writes in, and when it seals the journal."""

from collections.abc import Sequence
from threading import get_ident

import pytest

from everbrook.engine import Engine
from everbrook.engine.limits import Limits
from everbrook.protocol import Change, Create
from everbrook.protocol.errors import Unavailable
from everbrook.storage import MemoryStorage, StorageFull
from tests.kit.fakes import DelayedStorage, FakeClock, FakeScheduler
from tests.unit.engine.rig import DelayedRig, Rig

GONE = OSError("the disk is gone")


# Closing


class ClosedStorage(DelayedStorage):
    """A storage that minds being called after it was closed."""

    closed = False

    def apply(self, group: Sequence[Change]) -> None:
        assert not self.closed
        super().apply(group)

    def close(self) -> None:
        super().close()
        self.closed = True


def test_closing_waits_for_the_group_on_its_way_and_tells_everybody() -> None:
    rig = DelayedRig(storage=ClosedStorage())
    rig.create(b"a")
    on_its_way = rig.answers()
    rig.scheduler.settle()
    rig.create(b"b")
    queued = rig.answers()
    rig.engine.close()
    rig.scheduler.settle()
    rig.scheduler.run_from_threads()
    assert [len(group) for group in rig.storage.groups] == [1]
    assert [len(on_its_way), len(queued)] == [1, 1]
    assert isinstance(queued[0], Unavailable)


def test_closing_before_anything_began_tells_everybody() -> None:
    rig = DelayedRig()
    rig.create(b"a")
    told = rig.answers()
    rig.engine.close()
    rig.scheduler.settle()
    assert [type(answer) for answer in told] == [Unavailable]


def test_a_closed_engine_refuses_writes(rig: Rig) -> None:
    rig.engine.close()
    with pytest.raises(Unavailable):
        rig.create(b"a")


# Threads


def test_a_storage_that_is_done_at_once_needs_no_thread(rig: Rig) -> None:
    rig.create(b"a")
    assert rig.commits.run() == 0


class ThreadedStorage(MemoryStorage):
    """A storage that says in which threads it is written to."""

    blocking = True

    def __init__(self) -> None:
        super().__init__()
        self.persisting: set[int] = set()

    def persist(self, group: Sequence[Change]) -> None:  # noqa: ARG002 - they are kept when they are applied
        self.persisting.add(get_ident())


def test_a_storage_that_blocks_is_written_to_in_a_thread_of_its_own() -> None:
    clock, storage = FakeClock(), ThreadedStorage()
    scheduler = FakeScheduler(clock)
    engine = Engine(storage, scheduler, clock, Limits())
    engine.execute(Create(b"a", clock.now(), engine.new_incarnation()))
    scheduler.settle()
    scheduler.take_from_thread()
    assert (engine.durable_change, len(storage.persisting - {get_ident()})) == (1, 1)
    engine.close()


# Seals


class UnsealedStorage(DelayedStorage):
    """A storage whose last group wants to be proven."""

    unsealed = True

    def __init__(self) -> None:
        super().__init__()
        self.seals = 0
        self.broken: OSError | None = None

    def seal(self) -> None:
        self.seals += 1
        if self.broken:
            raise self.broken


def sealing() -> tuple[DelayedRig, UnsealedStorage]:
    storage = UnsealedStorage()
    rig = DelayedRig(storage=storage)
    rig.create(b"a")
    rig.let_group_arrive()
    return rig, storage


def test_an_idle_storage_is_sealed_after_a_moment() -> None:
    rig, storage = sealing()
    rig.scheduler.advance(49)
    assert rig.commits.run() == 0
    rig.scheduler.advance(2)
    assert (rig.commits.run(), storage.seals) == (1, 1)


def test_a_storage_that_goes_on_is_not_sealed_until_it_rests() -> None:
    rig, storage = sealing()
    rig.scheduler.advance(30)
    rig.append(b"a", b"x")
    rig.let_group_arrive()
    rig.scheduler.advance(30)
    assert rig.commits.run() == 0
    rig.scheduler.advance(50)
    assert (rig.commits.run(), storage.seals) == (1, 1)


def test_a_storage_that_refused_its_last_group_is_sealed(faults: object) -> None:
    rig = DelayedRig(storage=(storage := UnsealedStorage()))
    rig.create(b"a")
    rig.scheduler.run_soon()
    rig.append(b"a", b"x")
    rig.let_group_arrive()
    rig.let_group_arrive(StorageFull("full"))
    rig.scheduler.advance(60)
    assert (rig.commits.run(), storage.seals) == (1, 1)


def test_a_seal_that_fails_poisons_the_store(faults: object) -> None:
    rig, storage = sealing()
    storage.broken = GONE
    rig.scheduler.advance(60)
    rig.commits.run()
    rig.scheduler.run_from_threads()
    assert "the disk is gone" in str(rig.engine.failure)
