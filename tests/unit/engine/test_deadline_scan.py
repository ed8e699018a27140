"""The scan: streams that are only in the storage expire and are cut too, though nobody asks for them."""

from collections.abc import Iterator

import pytest

from everbrook.engine.tuning import ExpiryTuning
from everbrook.protocol import Head, Kept, Retention
from everbrook.protocol.errors import StreamDamaged
from everbrook.storage import Record
from tests.kit.fakes import START_MS, DelayedStorage
from tests.unit.engine.rig import DelayedRig, residents

ROUND_MS = int(ExpiryTuning().scan_secs * 1000)
SLICE = ExpiryTuning().slice_streams
HOUR_SECS = 3600


class ShelvedStorage(DelayedStorage):
    """A storage that knows which of its streams can expire, and how often it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []

    def mortal(self, after: int, limit: int) -> list[Head]:
        self.asked.append(after)
        heads = sorted(self._heads.values(), key=lambda head: head.identity.incarnation)
        return [head for head in heads if head.identity.mortal and head.identity.incarnation > after][:limit]


@pytest.fixture
def shelved() -> Iterator[DelayedRig]:
    """An engine over a storage with streams that are not in memory."""
    rig = DelayedRig(storage=ShelvedStorage())
    yield rig
    rig.let_everything_arrive()
    rig.engine.close()


def shelve(rig: DelayedRig, count: int = 1, *, ttl_secs: int | None = None, expires_at: int | None = None) -> None:
    """Create streams and start again, so that none of them is in memory."""
    for number in range(count):
        rig.create(b"%d" % number, ttl_secs=ttl_secs, expires_at=expires_at)
    rig.let_everything_arrive()
    rig.restart()
    assert residents(rig.engine) == 0


def pass_rounds(rig: DelayedRig, millis: int) -> None:
    rig.scheduler.advance(millis)
    rig.let_everything_arrive()


def test_a_stream_that_nobody_asks_for_expires(shelved: DelayedRig) -> None:
    shelve(shelved, expires_at=START_MS + 5000)
    pass_rounds(shelved, ROUND_MS)
    assert shelved.storage.used_bytes == 0
    assert residents(shelved.engine) == 0


def test_a_stream_whose_time_has_not_come_stays_where_it_is(shelved: DelayedRig) -> None:
    shelve(shelved, ttl_secs=HOUR_SECS)
    pass_rounds(shelved, 3 * ROUND_MS)
    assert shelved.storage.used_bytes > 0
    assert residents(shelved.engine) == 0


def test_the_time_of_a_sliding_stream_begins_anew_with_the_server(shelved: DelayedRig) -> None:
    """After a crash nobody knows who read it: a full window again rather than too little."""
    shelve(shelved, ttl_secs=15)
    shelved.clock.micros += 14_000_000
    shelved.restart()
    pass_rounds(shelved, ROUND_MS)
    assert shelved.storage.used_bytes > 0
    assert residents(shelved.engine) == 0
    pass_rounds(shelved, ROUND_MS + 1000)
    assert shelved.storage.used_bytes == 0


def test_a_stream_that_was_read_since_does_not_expire(shelved: DelayedRig) -> None:
    shelve(shelved, ttl_secs=15)
    pass_rounds(shelved, ROUND_MS)
    shelved.open(b"0")
    pass_rounds(shelved, ROUND_MS)
    assert shelved.storage.used_bytes > 0


def test_the_scan_goes_round_in_slices(shelved: DelayedRig) -> None:
    shelve(shelved, SLICE + 10, ttl_secs=HOUR_SECS)
    assert isinstance(shelved.storage, ShelvedStorage)
    asked = shelved.storage.asked
    pass_rounds(shelved, ROUND_MS + 1000)
    assert len(asked) == 3
    assert asked == sorted(set(asked))
    pass_rounds(shelved, ROUND_MS)
    assert len(asked) == 6


def test_a_crowd_expires_over_several_slices(shelved: DelayedRig) -> None:
    shelve(shelved, SLICE + 10, expires_at=START_MS + 5000)
    pass_rounds(shelved, 3 * ROUND_MS)
    assert shelved.storage.used_bytes == 0


def test_the_scan_ends_nothing_on_a_storage_that_failed(shelved: DelayedRig) -> None:
    shelve(shelved, expires_at=START_MS + 5000)
    shelved.create(b"b")
    shelved.let_group_arrive(OSError("the disk is gone"))
    shelved.scheduler.advance(3 * ROUND_MS)
    assert shelved.storage.load(b"0") is not None


def test_an_engine_that_is_closed_scans_no_more(shelved: DelayedRig) -> None:
    shelve(shelved, ttl_secs=HOUR_SECS)
    shelved.engine.close()
    assert shelved.scheduler.timers == 0


# Policies and damage


class DamagedShelves(ShelvedStorage):
    """A storage that has lost a stream of which it still knows that it was there."""

    lost = b""

    def load(self, name: bytes) -> Record | None:
        if name == self.lost:
            raise StreamDamaged("what is stored of the stream was lost")
        return super().load(name)


@pytest.fixture
def damaged() -> Iterator[DelayedRig]:
    """An engine over a storage that may lose a stream."""
    rig = DelayedRig(storage=DamagedShelves())
    yield rig
    rig.let_everything_arrive()
    rig.engine.close()


def lose(rig: DelayedRig, name: bytes) -> None:
    assert isinstance(rig.storage, DamagedShelves)
    rig.storage.lost = name


def stored_heads(rig: DelayedRig) -> list[tuple[bytes, Head | None]]:
    return rig.storage.scan(b"", b"", 1000)


def kept_of(rig: DelayedRig, name: bytes) -> Kept:
    return next(head.kept for found, head in stored_heads(rig) if found == name and head)


def test_old_messages_of_a_stream_that_nobody_asks_for_go(shelved: DelayedRig) -> None:
    shelved.create(b"0", b"one", retention=Retention(max_age_secs=5))
    shelved.let_everything_arrive()
    shelved.restart()
    pass_rounds(shelved, ROUND_MS)
    pass_rounds(shelved, ROUND_MS)
    assert kept_of(shelved, b"0").earliest == 3


def test_young_messages_of_a_stream_that_nobody_asks_for_stay(shelved: DelayedRig) -> None:
    shelved.create(b"0", b"one", retention=Retention(max_age_secs=HOUR_SECS))
    shelved.let_everything_arrive()
    shelved.restart()
    pass_rounds(shelved, 3 * ROUND_MS)
    assert kept_of(shelved, b"0").earliest == 0


def test_a_stream_whose_messages_are_all_cut_is_not_loaded_again(shelved: DelayedRig) -> None:
    shelved.create(b"0", b"one", retention=Retention(max_age_secs=5))
    shelved.let_everything_arrive()
    for _ in range(3):
        pass_rounds(shelved, ROUND_MS)
    shelved.restart()
    pass_rounds(shelved, 3 * ROUND_MS)
    assert residents(shelved.engine) == 0


def test_a_damaged_stream_does_not_keep_others_from_expiring(damaged: DelayedRig) -> None:
    shelve(damaged, 2, expires_at=START_MS + 5000)
    lose(damaged, b"0")
    pass_rounds(damaged, 2 * ROUND_MS)
    assert [name for name, _ in stored_heads(damaged)] == [b"0"]


def test_a_damaged_stream_does_not_keep_others_from_being_cut(damaged: DelayedRig) -> None:
    for name in (b"0", b"1"):
        damaged.create(name, b"one", retention=Retention(max_age_secs=5))
    damaged.let_everything_arrive()
    damaged.restart()
    lose(damaged, b"0")
    pass_rounds(damaged, 2 * ROUND_MS)
    pass_rounds(damaged, ROUND_MS)
    assert (kept_of(damaged, b"0").earliest, kept_of(damaged, b"1").earliest) == (0, 3)


def test_a_policy_that_an_earlier_end_kept_from_cutting_is_applied(shelved: DelayedRig) -> None:
    shelved.create(b"a", b"one", retention=Retention(max_messages=1))
    shelved.append(b"a", b"two")
    shelved.let_everything_arrive()
    shelved.restart()
    pass_rounds(shelved, ROUND_MS)
    assert shelved.kept(b"a").earliest == 3
