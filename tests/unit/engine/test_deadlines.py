"""Lifetimes: they slide or stand (§5.1), and what has expired is removed."""

from collections.abc import Callable

import pytest

from everbrook.engine.tuning import ExpiryTuning
from everbrook.protocol import Claim
from everbrook.protocol.errors import StreamGone, StreamNotFound
from tests.kit.fakes import START_MS
from tests.unit.engine.rig import DelayedRig, Rig, residents

HOUR_SECS = 3600
SLICE = ExpiryTuning().slice_streams


def lives(rig: Rig, name: bytes = b"a") -> bool:
    """Tell whether there is such a stream, without touching it."""
    try:
        rig.engine.readers.find(name, rig.clock.now())
    except (StreamNotFound, StreamGone):
        return False
    return True


def test_a_stream_expires_when_nobody_touches_it(rig: Rig) -> None:
    rig.create(b"a", ttl_secs=2)
    rig.scheduler.advance(1999)
    assert lives(rig)
    rig.scheduler.advance(1)
    assert not lives(rig)


@pytest.mark.parametrize(
    "touch",
    [
        lambda rig: rig.open(b"a"),
        lambda rig: rig.append(b"a", b"more"),
        lambda rig: rig.append(b"a", b"same", claim=Claim(b"p", 0, 0)),
        lambda rig: rig.append(b"a", close=True),
    ],
    ids=["read", "append", "duplicate", "close"],
)
def test_reads_and_writes_begin_the_time_anew(rig: Rig, touch: Callable[[Rig], object]) -> None:
    rig.create(b"a", ttl_secs=2)
    rig.append(b"a", b"same", claim=Claim(b"p", 0, 0))
    rig.scheduler.advance(1500)
    touch(rig)
    rig.scheduler.advance(1999)
    assert lives(rig)
    rig.scheduler.advance(1)
    assert not lives(rig)


def test_closing_again_begins_the_time_anew(rig: Rig) -> None:
    rig.create(b"a", ttl_secs=2, closed=True)
    rig.scheduler.advance(1500)
    rig.append(b"a", close=True)
    rig.scheduler.advance(1500)
    assert lives(rig)


def test_looking_does_not_begin_the_time_anew(rig: Rig) -> None:
    rig.create(b"a", ttl_secs=2)
    rig.scheduler.advance(1500)
    assert lives(rig)
    rig.scheduler.advance(500)
    assert not lives(rig)


def test_creating_again_does_not_begin_the_time_anew(rig: Rig) -> None:
    rig.create(b"a", ttl_secs=2)
    rig.scheduler.advance(1500)
    rig.create(b"a", ttl_secs=2)
    rig.scheduler.advance(500)
    assert not lives(rig)


def test_an_absolute_expiry_never_moves(rig: Rig) -> None:
    rig.create(b"a", expires_at=START_MS + 2000)
    rig.scheduler.advance(1500)
    rig.append(b"a", b"more")
    rig.open(b"a")
    rig.scheduler.advance(500)
    assert not lives(rig)


def test_reading_a_fork_does_not_keep_its_source(rig: Rig) -> None:
    rig.create(b"a", b"1", ttl_secs=2)
    rig.fork(b"f", b"a")
    rig.scheduler.advance(1500)
    assert rig.content(b"f") == b"1"
    rig.scheduler.advance(1000)
    assert not lives(rig, b"a")
    assert rig.content(b"f") == b"1"


def test_what_has_run_out_is_freed_though_nobody_asks(rig: Rig) -> None:
    rig.create(b"a", b"x" * 1000, ttl_secs=1)
    rig.create(b"b", b"x" * 1000, expires_at=START_MS + 1500)
    rig.scheduler.advance(1500)
    assert rig.storage.used_bytes == 0
    assert residents(rig.engine) == 0


def test_a_stream_without_a_lifetime_sets_no_timer(rig: Rig) -> None:
    rig.create(b"a")
    assert rig.scheduler.timers == 0


def test_any_number_of_lifetimes_needs_one_timer(rig: Rig) -> None:
    for number in range(100):
        rig.create(b"%d" % number, ttl_secs=1000 - number)
    assert rig.scheduler.timers == 1


def test_a_later_deadline_sets_no_timer_of_its_own(rig: Rig) -> None:
    for number in range(100):
        rig.create(b"%d" % number, ttl_secs=1000 + number)
    assert rig.scheduler.timers_ever_set == 1


def test_a_shorter_lifetime_that_comes_later_is_seen_in_time(rig: Rig) -> None:
    rig.create(b"long", ttl_secs=HOUR_SECS)
    rig.create(b"a", b"x", ttl_secs=1)
    rig.scheduler.advance(1000)
    assert lives(rig, b"long")
    assert rig.engine.inspect().newest_streams == 1


def test_a_crowd_is_swept_in_slices(rig: Rig) -> None:
    for number in range(SLICE + 10):
        rig.create(b"%d" % number, ttl_secs=1)
    rig.clock.micros += 1_000_000
    rig.scheduler.run_timers()
    rig.scheduler.run_soon()
    assert rig.engine.inspect().newest_streams == 10
    rig.scheduler.run_soon()
    assert rig.engine.inspect().newest_streams == 0


def test_two_slices_have_changes_that_are_not_durable(delayed: DelayedRig) -> None:
    for number in range(2 * SLICE + 10):
        delayed.create(b"%d" % number, ttl_secs=1)
    delayed.let_everything_arrive()
    delayed.scheduler.advance(2_000)
    assert delayed.engine.inspect().newest_streams == 10
    delayed.scheduler.advance(1_000)
    assert delayed.engine.inspect().newest_streams == 10
    delayed.let_everything_arrive()
    delayed.scheduler.advance(1)
    assert delayed.engine.inspect().newest_streams == 0


def test_a_stream_that_was_touched_is_looked_at_again(rig: Rig) -> None:
    rig.create(b"a", ttl_secs=2)
    rig.scheduler.advance(1500)
    rig.open(b"a")
    rig.scheduler.advance(500)
    assert lives(rig)
    assert rig.engine.inspect().expiring.entries == rig.scheduler.timers == 1
    rig.scheduler.advance(1500)
    assert rig.storage.used_bytes == 0


def test_deleted_streams_leave_the_heap(rig: Rig) -> None:
    for number in range(5 * SLICE):
        rig.create(b"%d" % number, ttl_secs=HOUR_SECS)
    for number in range(5 * SLICE):
        rig.delete(b"%d" % number)
    expiring = rig.engine.inspect().expiring
    assert (expiring.streams, expiring.entries <= SLICE + 1) == (0, True)


def test_touching_a_stream_again_and_again_takes_one_place_in_the_heap(rig: Rig) -> None:
    rig.create(b"a", ttl_secs=1)
    for _ in range(100):
        rig.scheduler.advance(700)
        rig.append(b"a", b"x")
    assert rig.engine.inspect().expiring.entries == 1


def test_a_sliding_stream_lives_while_it_is_followed(rig: Rig) -> None:
    """§5.1: a stream with active live readers will not expire."""
    rig.create(b"a", ttl_secs=1)
    reader = rig.follow(b"a")
    rig.scheduler.advance(10_000)
    assert lives(rig)
    assert reader.errors == []


def test_a_followed_stream_lives_even_before_its_deadline_is_worked_off(rig: Rig) -> None:
    """§5.1: a stream with active live readers will not expire, however busy the loop is."""
    rig.create(b"a", b"1", ttl_secs=1)
    rig.follow(b"a")
    rig.clock.micros += 5_000_000
    assert rig.content(b"a") == b"1"


def test_the_time_of_a_followed_stream_begins_when_the_last_one_leaves(rig: Rig) -> None:
    rig.create(b"a", ttl_secs=1)
    stream, readers = rig.open(b"a"), [rig.follow(b"a"), rig.follow(b"a")]
    rig.scheduler.advance(5500)
    for reader in readers:
        rig.engine.readers.leave(stream, reader)
        rig.scheduler.advance(900)
    assert lives(rig)
    rig.scheduler.advance(100)
    assert not lives(rig)
    assert rig.storage.used_bytes == 0


def test_an_absolute_expiry_ends_a_stream_that_is_followed(rig: Rig) -> None:
    rig.create(b"a", expires_at=START_MS + 1000)
    reader = rig.follow(b"a")
    rig.scheduler.advance(1000)
    assert not lives(rig)
    assert [type(error) for error in reader.errors] == [StreamNotFound]


def test_an_expired_stream_that_forks_read_goes_with_the_last_of_them(rig: Rig) -> None:
    """§4.2: expiring a stream with living forks soft-deletes it."""
    rig.create(b"a", b"1", ttl_secs=1)
    rig.fork(b"f", b"a", ttl_secs=HOUR_SECS)
    rig.scheduler.advance(1000)
    with pytest.raises(StreamGone):
        rig.open(b"a")
    assert rig.content(b"f") == b"1"
    rig.delete(b"f")
    assert rig.storage.used_bytes == 0


def test_taking_the_name_of_an_expired_fork_frees_the_source_that_only_it_kept(rig: Rig) -> None:
    """§4.2: the cascade goes up the chain, whichever way the last fork ends."""
    rig.create(b"a", b"1")
    rig.fork(b"f", b"a", ttl_secs=1)
    rig.delete(b"a")
    rig.clock.micros += 1_000_000
    rig.create(b"f")
    assert lives(rig, b"f")
    assert rig.engine.inspect().newest_streams == 1


def test_a_clock_that_is_set_back_only_delays(rig: Rig) -> None:
    rig.create(b"a", ttl_secs=1)
    rig.clock.set_back_ms = 10_000
    rig.scheduler.advance(10_999)
    assert lives(rig)
    rig.scheduler.advance(1)
    assert rig.storage.used_bytes == 0


def test_an_engine_that_is_closed_looks_at_nothing(rig: Rig) -> None:
    rig.create(b"a", ttl_secs=1)
    rig.engine.close()
    assert rig.scheduler.timers == 0


def test_a_loaded_stream_gets_a_full_time_again(rig: Rig) -> None:
    rig.create(b"a", b"1", ttl_secs=2)
    rig.scheduler.advance(1500)
    rig.restart()
    assert rig.content(b"a") == b"1"
    rig.scheduler.advance(1999)
    assert lives(rig)
    rig.scheduler.advance(1)
    assert rig.storage.used_bytes == 0


def test_nothing_expires_on_a_storage_that_failed(delayed: DelayedRig) -> None:
    delayed.create(b"a", b"1", ttl_secs=1)
    delayed.let_group_arrive()
    delayed.create(b"b")
    delayed.let_group_arrive(OSError("the disk is gone"))
    delayed.scheduler.advance(1000)
    assert delayed.storage.load(b"a") is not None
    assert delayed.engine.last_change == 2
