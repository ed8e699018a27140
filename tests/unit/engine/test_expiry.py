"""Retention policies: what they do not retain goes about once a second, and never more than a snapshot covers."""

import pytest

from everbrook.engine.stats import Watched
from everbrook.engine.tuning import ExpiryTuning
from everbrook.protocol import WHOLE, Kept, Retention, Snapshot
from everbrook.protocol.errors import OffsetGone, StreamDamaged
from everbrook.storage import MemoryStorage, MessageIndex, StorageFull
from tests.kit.fakes import START_MS
from tests.unit.engine.rig import JSON, DelayedRig, Rig, residents

SECOND = 1000
TRIM_DELAY_MS = ExpiryTuning().trim_delay_ms
DAY_SECS = 86_400


def hold(rig: Rig, retention: Retention, *bodies: bytes) -> None:
    """Create a stream with a policy, and append to it a second after each other."""
    rig.create(b"a", retention=retention)
    for body in bodies:
        rig.append(b"a", body)
        rig.scheduler.advance(SECOND)


def earliest(rig: Rig, name: bytes = b"a") -> int:
    return rig.kept(name).earliest


@pytest.mark.parametrize(
    "retention, cut", [(Retention(max_bytes=5), 6), (Retention(max_messages=1), 6), (Retention(max_bytes=6), 3)]
)
def test_what_is_too_much_goes_about_a_second_later(rig: Rig, retention: Retention, cut: int) -> None:
    rig.create(b"a", retention=retention)
    for body in (b"one", b"two", b"six"):
        rig.append(b"a", body)
    rig.scheduler.advance(TRIM_DELAY_MS - 1)
    assert rig.kept(b"a") == WHOLE
    rig.scheduler.advance(1)
    assert rig.kept(b"a") == Kept(cut, Snapshot(cut, START_MS + TRIM_DELAY_MS))


def test_a_busy_stream_is_cut_once_a_second(rig: Rig) -> None:
    rig.create(b"a", retention=Retention(max_messages=1))
    before = rig.engine.last_change
    for _ in range(100):
        rig.append(b"a", b"x")
        rig.scheduler.advance(20)
    assert rig.engine.last_change == before + 100 + 2


def test_what_was_cut_gives_its_memory_back(rig: Rig) -> None:
    rig.create(b"a", b"x" * 100_000, retention=Retention(max_bytes=10))
    rig.scheduler.advance(SECOND)
    assert rig.storage.used_bytes < 10_000


def test_what_was_cut_is_gone_and_what_follows_is_as_it_was(rig: Rig) -> None:
    """002 §2.2."""
    hold(rig, Retention(max_messages=2), b"one", b"two", b"three", b"four")
    rig.scheduler.advance(SECOND)
    assert rig.content(b"a") == b"threefour"
    with pytest.raises(OffsetGone):
        rig.engine.readers.page(rig.open(b"a"), 3)
    assert rig.engine.readers.page(rig.open(b"a"), 6).end == 15


def test_messages_go_when_they_are_old_though_nothing_is_appended(rig: Rig) -> None:
    hold(rig, Retention(max_age_secs=10), b"one", b"two")
    rig.scheduler.advance(8 * SECOND)
    assert earliest(rig) == 0
    rig.scheduler.advance(SECOND + 1)
    assert earliest(rig) == 3
    rig.scheduler.advance(SECOND)
    assert earliest(rig) == 6


def test_a_stream_whose_messages_are_young_is_left_alone_until_the_first_is_old(rig: Rig) -> None:
    hold(rig, Retention(max_age_secs=DAY_SECS), b"one")
    rig.scheduler.advance(SECOND)
    trimming = rig.engine.inspect().trimming
    assert trimming == Watched(streams=1, entries=1, next_at=START_MS + DAY_SECS * 1000, slices=1)


def test_an_empty_stream_is_watched_again_when_something_comes(rig: Rig) -> None:
    hold(rig, Retention(max_age_secs=2), b"one")
    rig.scheduler.advance(60 * SECOND)
    assert (earliest(rig), rig.scheduler.timers) == (3, 0)
    rig.append(b"a", b"two")
    rig.scheduler.advance(2 * SECOND)
    assert earliest(rig) == 3
    rig.scheduler.advance(2 * SECOND)
    assert earliest(rig) == 6


def test_a_policy_does_not_pass_a_clients_snapshot(rig: Rig) -> None:
    """002 §3.4."""
    hold(rig, Retention(max_messages=1), b"one")
    rig.append(b"a", b"two")
    rig.append(b"a", b"three")
    rig.publish(b"a", 3, b"sum", keep_history=True)
    rig.scheduler.advance(10 * SECOND)
    assert (earliest(rig), rig.snapshot(b"a")) == (3, b"sum")
    rig.publish(b"a", 6)
    rig.scheduler.advance(10 * SECOND)
    assert earliest(rig) == 6


def test_a_policy_goes_on_behind_its_own_snapshots(rig: Rig) -> None:
    """002 §3.4: an empty one covers what it cut."""
    hold(rig, Retention(max_messages=1), *(b"x",) * 10)
    rig.scheduler.advance(SECOND)
    assert rig.kept(b"a") == Kept(9, Snapshot(9, rig.kept(b"a").snapshot.published_at))  # type: ignore[union-attr]
    assert rig.snapshot(b"a") == b""


def test_a_policy_that_comes_with_a_bucket_is_applied(rig: Rig) -> None:
    rig.create_bucket(b"agents", Retention(max_messages=1))
    rig.create(b"/ds/agents/a", b"[1,2,3]", content_type=JSON)
    rig.scheduler.advance(SECOND)
    assert earliest(rig, b"/ds/agents/a") == 4


def test_a_policy_is_applied_to_what_a_fork_inherits(rig: Rig) -> None:
    hold(rig, Retention(max_messages=2), b"one", b"two")
    rig.fork(b"f", b"a", body=b"three")
    rig.scheduler.advance(SECOND)
    assert (earliest(rig, b"f"), earliest(rig)) == (3, 0)
    assert rig.content(b"f") == b"twothree"


def test_a_stream_is_looked_at_when_it_is_loaded(rig: Rig) -> None:
    """What was left over when the server stopped is cut when the stream comes back."""
    rig.create(b"a", b"one", retention=Retention(max_messages=1))
    rig.append(b"a", b"two")
    rig.restart()
    rig.open(b"a")
    rig.scheduler.advance(SECOND)
    assert earliest(rig) == 3


def test_a_deleted_stream_is_watched_no_more(rig: Rig) -> None:
    hold(rig, Retention(max_age_secs=DAY_SECS), b"one")
    rig.scheduler.advance(SECOND)
    rig.delete(b"a")
    assert residents(rig.engine) == 0


def test_a_soft_deleted_stream_is_cut_no_more(rig: Rig) -> None:
    """§4.2: its forks have what they inherited."""
    hold(rig, Retention(max_age_secs=2), b"one")
    rig.fork(b"f", b"a")
    rig.delete(b"a")
    rig.scheduler.advance(60 * SECOND)
    assert dict(rig.storage.scan(b"", b"", 9))[b"a"].kept == WHOLE  # type: ignore[union-attr]


def test_a_stream_that_was_created_anew_is_not_cut_by_the_old_ones_policy(rig: Rig) -> None:
    rig.create(b"a", b"x", retention=Retention(max_messages=1))
    rig.append(b"a", b"x")
    rig.delete(b"a")
    rig.create(b"a", b"x")
    rig.append(b"a", b"x")
    rig.scheduler.advance(10 * SECOND)
    assert rig.kept(b"a") == WHOLE


def test_a_cut_that_there_was_no_room_for_is_tried_again(delayed: DelayedRig) -> None:
    delayed.create(b"a", b"one", retention=Retention(max_messages=1))
    delayed.append(b"a", b"two")
    delayed.let_everything_arrive()
    delayed.scheduler.advance(SECOND)
    delayed.let_group_arrive(StorageFull("the disk is full"))
    assert earliest(delayed) == 0
    delayed.scheduler.advance(60 * SECOND)
    delayed.let_everything_arrive()
    assert earliest(delayed) == 3


def test_an_old_message_that_there_was_no_room_to_cut_goes_later(delayed: DelayedRig) -> None:
    delayed.create(b"a", b"one", retention=Retention(max_age_secs=1))
    delayed.let_everything_arrive()
    delayed.scheduler.advance(3 * SECOND)
    delayed.let_group_arrive(StorageFull("the disk is full"))
    delayed.scheduler.advance(60 * SECOND)
    delayed.let_everything_arrive()
    assert earliest(delayed) == 3


def test_readers_see_a_cut_when_it_is_durable(delayed: DelayedRig) -> None:
    delayed.create(b"a", b"one", retention=Retention(max_messages=1))
    delayed.append(b"a", b"two")
    delayed.let_everything_arrive()
    delayed.scheduler.advance(SECOND)
    assert delayed.content(b"a") == b"onetwo"
    delayed.let_everything_arrive()
    assert delayed.content(b"a") == b"two"


def test_nothing_is_cut_on_a_storage_that_failed(delayed: DelayedRig) -> None:
    delayed.create(b"a", b"one", retention=Retention(max_messages=1))
    delayed.append(b"a", b"two")
    delayed.let_everything_arrive()
    delayed.create(b"b")
    delayed.let_group_arrive(OSError("the disk is gone"))
    changes = delayed.engine.last_change
    delayed.scheduler.advance(10 * SECOND)
    assert delayed.engine.last_change == changes
    assert delayed.content(b"a") == b"onetwo"


class DamagedStorage(MemoryStorage):
    """A storage that has lost the index of a stream."""

    lost = 0

    def index_at(self, incarnation: int, offset: int, /) -> MessageIndex:
        if incarnation == self.lost:
            raise StreamDamaged("what is stored of the stream was lost")
        return super().index_at(incarnation, offset)


def test_a_damaged_stream_does_not_keep_the_others_from_being_cut() -> None:
    storage = DamagedStorage()
    rig = Rig(storage=storage)
    storage.lost = rig.create(b"lost", b"one", retention=Retention(max_age_secs=5)).head.identity.incarnation
    hold(rig, Retention(max_age_secs=5), b"one")
    rig.scheduler.advance(20 * SECOND)
    assert earliest(rig) == 3


def test_an_engine_that_is_closed_cuts_nothing(rig: Rig) -> None:
    hold(rig, Retention(max_age_secs=5), b"one")
    rig.engine.close()
    assert rig.scheduler.timers == 0


def test_a_snapshot_that_lets_a_policy_cut_more_has_it_cut(rig: Rig) -> None:
    """A policy waits at a client's snapshot; the next one frees it, also where history is kept."""
    rig.create(b"a", b"one", retention=Retention(max_messages=1))
    rig.publish(b"a", 0, keep_history=True)
    rig.append(b"a", b"two")
    rig.scheduler.advance(2 * SECOND)
    assert earliest(rig) == 0
    rig.publish(b"a", 6, keep_history=True)
    rig.scheduler.advance(SECOND)
    assert earliest(rig) == 3
