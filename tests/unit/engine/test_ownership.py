"""A storage that has lost the folder of its store: the engine takes no more writes and removes nothing."""

import logging

import pytest

from everbrook.engine.tuning import OwnershipTuning
from everbrook.protocol.errors import Unavailable
from tests.kit.fakes import DelayedStorage
from tests.unit.engine.rig import DelayedRig

CHECK_MS = round(OwnershipTuning().check_secs * 1000)
REASON = "the lock was removed"


class ContestedStorage(DelayedStorage):
    """A storage whose folder another process can take."""

    def __init__(self) -> None:
        super().__init__()
        self.lost: str | None = None
        self.closed = False
        self.discarded: list[int] = []

    def verify(self) -> str | None:
        return self.lost

    def discard(self, incarnation: int) -> None:
        self.discarded.append(incarnation)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def storage() -> ContestedStorage:
    return ContestedStorage()


@pytest.fixture
def rig(storage: ContestedStorage) -> DelayedRig:
    rig = DelayedRig(storage=storage)
    rig.create(b"a", b"1")
    rig.let_everything_arrive()
    return rig


def test_a_lost_folder_is_noticed_in_time_and_logged_once(
    rig: DelayedRig, storage: ContestedStorage, caplog: pytest.LogCaptureFixture
) -> None:
    rig.scheduler.advance(CHECK_MS)
    assert rig.engine.failure is None
    storage.lost = REASON
    rig.scheduler.advance(CHECK_MS)
    rig.scheduler.advance(10 * CHECK_MS)
    assert REASON in str(rig.engine.failure)
    assert [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR] == [
        f"the store takes no more writes: {REASON}"
    ]


def test_nothing_is_written_to_a_lost_folder(rig: DelayedRig, storage: ContestedStorage) -> None:
    storage.lost = REASON
    rig.scheduler.advance(CHECK_MS)
    persisted = len(storage.groups)
    with pytest.raises(Unavailable, match=REASON):
        rig.append(b"a", b"2")
    rig.let_everything_arrive()
    assert len(storage.groups) == persisted


def test_what_waits_to_become_durable_fails(rig: DelayedRig, storage: ContestedStorage) -> None:
    told: list[Unavailable | None] = []
    rig.append(b"a", b"2")
    rig.engine.when_durable(rig.engine.last_change, told.append)
    storage.lost = REASON
    assert rig.engine.verify_ownership() == REASON
    assert [str(each) for each in told] == [str(rig.engine.failure)]


def test_what_is_durable_can_still_be_read(rig: DelayedRig, storage: ContestedStorage) -> None:
    storage.lost = REASON
    rig.engine.verify_ownership()
    assert b"".join(rig.engine.readers.read_all(b"a")) == b"1"


def test_nothing_is_removed_from_a_lost_folder(rig: DelayedRig, storage: ContestedStorage) -> None:
    stream = rig.engine.readers.find(b"a", rig.clock.now())
    rig.engine.reclaimer.hold(stream)
    storage.lost = REASON
    rig.engine.verify_ownership()
    rig.engine.reclaimer.release(stream)
    rig.scheduler.settle()
    assert storage.discarded == []


@pytest.mark.parametrize("lost", [None, REASON])
def test_a_storage_is_closed_unless_its_folder_is_lost(
    rig: DelayedRig, storage: ContestedStorage, lost: str | None
) -> None:
    """To close a storage writes to its folder."""
    storage.lost = lost
    rig.engine.close()
    assert storage.closed == (lost is None)


def test_a_failure_that_came_before_stays_the_reason(rig: DelayedRig, storage: ContestedStorage) -> None:
    rig.append(b"a", b"2")
    rig.let_group_arrive(OSError("broken"))
    storage.lost = REASON
    rig.engine.verify_ownership()
    assert "broken" in str(rig.engine.failure)
