"""Limits: what is too much is refused before anything of it is kept."""

from collections.abc import Callable

import pytest

from everbrook.engine import PRODUCER_IDLE_MS
from everbrook.engine.limits import Limits
from everbrook.protocol import Append, Appended, Claim, Closed, Deleted, Duplicate, Retention
from everbrook.protocol.errors import MemoryFull, SequenceGap, StreamFull, TooManyProducers
from tests.kit.fakes import FakeClock
from tests.unit.engine.rig import JSON, TEXT, Rig, change_limits, newest, residents

DAY_MS = 24 * 3600 * 1000


def room(**limits: int) -> Rig:
    return Rig(Limits(**limits))


def holds(rig: Rig) -> tuple[int, int]:
    """Tell how much was stored and how often something changed."""
    return rig.storage.used_bytes, rig.engine.last_change


def refused_at(command: Callable[[int], object]) -> int:
    """Give a command again and again, and tell which time the memory was full."""
    for number in range(1000):
        try:
            command(number)
        except MemoryFull:
            return number
    return 1000


# One stream


def test_a_stream_takes_exactly_what_it_may() -> None:
    rig = room(max_stream_bytes=10)
    rig.create(b"a", b"12345")
    rig.append(b"a", b"67890")
    assert rig.content(b"a") == b"1234567890"


def test_an_append_that_would_outgrow_its_stream_stores_nothing() -> None:
    rig = room(max_stream_bytes=10)
    rig.create(b"a", b"12345")
    before = holds(rig)
    with pytest.raises(StreamFull) as refusal:
        rig.append(b"a", b"678901", close=True, claim=Claim(b"p", 0, 0))
    assert refusal.value.status == 413
    assert holds(rig) == before
    assert not rig.open(b"a").committed.closed
    assert isinstance(rig.append(b"a", b"67890", claim=Claim(b"p", 0, 0)), Appended)


def test_a_creation_that_brings_too_much_creates_nothing() -> None:
    rig = room(max_stream_bytes=10)
    with pytest.raises(StreamFull):
        rig.create(b"a", b"12345678901", ttl_secs=1)
    assert holds(rig) == (0, 0)
    assert residents(rig.engine) == 0
    assert rig.scheduler.timers == 0


def test_what_a_fork_inherits_does_not_count_as_its_own() -> None:
    rig = room(max_stream_bytes=10)
    rig.create(b"a", b"1234567890")
    rig.fork(b"f", b"a", body=b"abcdefghij")
    assert rig.content(b"f") == b"1234567890abcdefghij"
    with pytest.raises(StreamFull):
        rig.append(b"f", b"k")


def test_a_full_stream_can_be_closed() -> None:
    rig = room(max_stream_bytes=10)
    rig.create(b"a", b"1234567890")
    assert isinstance(rig.append(b"a", close=True), Closed)


# All streams


def test_the_memory_bounds_all_streams_together() -> None:
    rig = room(max_memory_bytes=20_000)
    rig.create(b"a", b"x" * 8000)
    rig.create(b"b")
    before = holds(rig)
    with pytest.raises(MemoryFull) as refusal:
        rig.append(b"b", b"x" * 9000)
    assert refusal.value.status == 413
    assert holds(rig) == before
    assert rig.content(b"b") == b""


def test_an_endless_row_of_empty_streams_is_refused() -> None:
    rig = room(max_memory_bytes=20_000)
    assert refused_at(lambda number: rig.create(b"%d" % number)) < 20
    assert rig.storage.used_bytes <= 20_000


def test_an_endless_row_of_forks_is_refused() -> None:
    rig = room(max_memory_bytes=20_000)
    rig.create(b"0", b"1")
    assert refused_at(lambda number: rig.fork(b"%d" % (number + 1), b"%d" % number)) < 20
    assert rig.storage.used_bytes <= 20_000


def test_many_small_messages_count_with_their_index() -> None:
    rig = room(max_memory_bytes=20_000)
    rig.create(b"a", content_type=JSON)
    with pytest.raises(MemoryFull):
        rig.append(b"a", b"[%b]" % b",".join([b"1"] * 4000), content_type=JSON)
    assert rig.content(b"a") == b""


def test_producers_count_too() -> None:
    rig = room(max_memory_bytes=20_000)
    rig.create(b"a")
    assert refused_at(lambda number: rig.append(b"a", b"x", claim=Claim(b"%d" % number, 0, 0))) < 200
    assert rig.storage.used_bytes <= 20_000


GREEDY, MODEST = b"/ds/greedy/", b"/ds/modest/"


def fill_bucket(rig: Rig) -> None:
    """Fill the memory of a bucket with streams, messages and producers."""
    for bucket_id in (b"greedy", b"modest"):
        rig.create_bucket(bucket_id)
    rig.create(GREEDY + b"a")
    refused_at(lambda number: rig.append(GREEDY + b"a", b"x", claim=Claim(b"%d" % number, 0, 0)))
    refused_at(lambda number: rig.create(GREEDY + b"%d" % number))
    refused_at(lambda _: rig.append(GREEDY + b"a", b"x" * 100))


def test_a_bucket_does_not_fill_the_memory_of_others() -> None:
    rig = room(max_memory_bytes=40_000, max_bucket_memory_bytes=20_000)
    fill_bucket(rig)
    assert rig.storage.bucket_bytes(b"greedy") <= 20_000
    rig.create(MODEST + b"b", b"x" * 5_000)
    rig.create(b"c", b"x" * 2_000)
    assert rig.content(MODEST + b"b") == b"x" * 5_000


def test_the_base_surface_may_fill_the_memory() -> None:
    rig = room(max_memory_bytes=40_000, max_bucket_memory_bytes=20_000)
    rig.create(b"a", b"x" * 30_000)
    assert rig.content(b"a") == b"x" * 30_000


def test_a_bucket_takes_nothing_when_its_streams_are_gone() -> None:
    rig = room(max_memory_bytes=40_000, max_bucket_memory_bytes=20_000)
    fill_bucket(rig)
    for name, _ in rig.storage.scan(GREEDY, b"", 1000):
        rig.delete(name)
    assert rig.storage.bucket_bytes(b"greedy") == 0
    rig.create(GREEDY + b"a", b"x" * 15_000)


def test_a_full_memory_still_lets_streams_be_closed_and_deleted() -> None:
    rig = room(max_memory_bytes=20_000)
    rig.create(b"a")
    rig.append(b"a", b"x", claim=Claim(b"p", 0, 0))
    rig.create(b"b", b"x" * (20_000 - rig.storage.used_bytes - 2100))
    assert isinstance(rig.append(b"b", close=True), Closed)
    assert isinstance(rig.append(b"a", close=True, claim=Claim(b"p", 0, 1)), Closed)
    rig.delete(b"b")
    rig.create(b"c", b"x" * 8000)


def test_what_costs_nothing_passes_even_where_more_is_held_than_may_be(rig: Rig) -> None:
    """An operator can lower the limits while streams are there."""
    rig.create(b"a", b"x")
    change_limits(rig.engine, Limits(max_memory_bytes=1))
    with pytest.raises(MemoryFull):
        rig.append(b"a", b"y")
    assert isinstance(rig.append(b"a", close=True), Closed)


# Limits that an operator lowers while streams are there


def larger_than_allowed(*, expires_at: int | None = None, retention: Retention | None = None) -> Rig:
    rig = Rig()
    rig.create(b"a", b"12345", expires_at=expires_at, retention=retention)
    rig.append(b"a", b"67890")
    rig.append(b"a", b"abcde", claim=Claim(b"p", 0, 0))
    change_limits(rig.engine, Limits(max_memory_bytes=1, max_stream_bytes=4, max_producers_per_stream=1))
    with pytest.raises(StreamFull):
        rig.append(b"a", b"x")
    return rig


@pytest.mark.parametrize("claim", [None, Claim(b"p", 0, 1), Claim(b"another", 0, 0)])
def test_a_stream_larger_than_allowed_can_be_closed(claim: Claim | None) -> None:
    rig = larger_than_allowed()
    assert isinstance(rig.append(b"a", close=True, claim=claim), Closed)
    assert rig.open(b"a").committed.closed


def test_a_stream_larger_than_allowed_can_be_deleted() -> None:
    rig = larger_than_allowed()
    assert isinstance(rig.delete(b"a"), Deleted)


@pytest.mark.parametrize("ends", ["deleted", "expires"])
def test_a_forked_stream_larger_than_allowed_can_end(ends: str) -> None:
    rig = Rig()
    rig.create(b"a", b"1234567890", expires_at=rig.clock.now() + 1000)
    rig.fork(b"f", b"a", ttl_secs=60)
    change_limits(rig.engine, Limits(max_stream_bytes=4))
    if ends == "deleted":
        rig.delete(b"a")
    else:
        rig.scheduler.advance(1001)
    head = newest(rig.engine, b"a")
    assert head is not None
    assert head.deleted


def test_a_stream_larger_than_allowed_expires() -> None:
    rig = larger_than_allowed(expires_at=FakeClock().now() + 1000)
    rig.scheduler.advance(1001)
    assert newest(rig.engine, b"a") is None


def test_a_stream_larger_than_allowed_can_be_cut_and_then_written_to() -> None:
    rig = larger_than_allowed()
    change_limits(rig.engine, Limits(max_stream_bytes=6))
    rig.publish(b"a", 5, keep_history=True)
    rig.publish(b"a", 10)
    assert rig.kept(b"a").earliest == 10
    rig.append(b"a", b"x")
    rig.publish(b"a", 16, keep_history=True)
    rig.retain(b"a", 15)
    assert rig.kept(b"a").earliest == 15


def test_a_policy_cuts_a_stream_larger_than_allowed() -> None:
    rig = larger_than_allowed(retention=Retention(max_bytes=5))
    rig.scheduler.advance(60_000)
    assert rig.kept(b"a").earliest == 10


def test_a_duplicate_is_told_apart_in_a_full_memory() -> None:
    rig = room(max_memory_bytes=20_000)
    rig.create(b"a")
    rig.append(b"a", b"x" * 10_000, claim=Claim(b"p", 0, 0))
    assert isinstance(rig.append(b"a", b"x" * 10_000, claim=Claim(b"p", 0, 0)), Duplicate)


# Producers


def test_a_stream_remembers_as_many_producers_as_it_may() -> None:
    rig = room(max_producers_per_stream=2)
    rig.create(b"a")
    for name in (b"p", b"q"):
        rig.append(b"a", name, claim=Claim(name, 0, 0))
    before = holds(rig)
    with pytest.raises(TooManyProducers) as refusal:
        rig.append(b"a", b"r", claim=Claim(b"r", 0, 0))
    assert refusal.value.status == 429
    assert holds(rig) == before


def test_known_producers_go_on_where_there_is_room_for_no_other() -> None:
    rig = room(max_producers_per_stream=1)
    rig.create(b"a")
    for seq in range(3):
        assert isinstance(rig.append(b"a", b"x", claim=Claim(b"p", 0, seq)), Appended)
    assert isinstance(rig.append(b"a", b"x", claim=Claim(b"p", 0, 2)), Duplicate)
    assert isinstance(rig.append(b"a", b"x"), Appended)


def test_the_number_of_producers_is_per_stream() -> None:
    rig = room(max_producers_per_stream=1)
    for name in (b"a", b"b"):
        rig.create(name)
        rig.append(name, b"x", claim=Claim(name, 0, 0))
    rig.fork(b"f", b"a")
    rig.append(b"f", b"x", claim=Claim(b"p", 0, 0))


def test_an_idle_producer_makes_room_after_seven_days() -> None:
    """§5.2.1: in memory, state is kept for seven days."""
    assert PRODUCER_IDLE_MS == 7 * DAY_MS
    rig = room(max_producers_per_stream=1, producer_idle_ms=PRODUCER_IDLE_MS)
    rig.create(b"a")
    rig.append(b"a", b"x", claim=Claim(b"p", 0, 0))
    rig.scheduler.advance(7 * DAY_MS)
    with pytest.raises(TooManyProducers):
        rig.append(b"a", b"x", claim=Claim(b"q", 0, 0))
    rig.scheduler.advance(1)
    rig.append(b"a", b"x", claim=Claim(b"q", 0, 0))
    record = rig.storage.load(b"a")
    assert record is not None
    assert list(record.producers) == [b"q"]


def test_a_producer_with_a_position_is_never_forgotten() -> None:
    rig = room(producer_idle_ms=PRODUCER_IDLE_MS)
    rig.create(b"a")
    rig.engine.execute(Append(b"a", rig.clock.now(), TEXT, b"x", claim=Claim(b"p", 0, 0), position=b"10"))
    rig.scheduler.advance(8 * DAY_MS)
    rig.append(b"a", b"x", claim=Claim(b"q", 0, 0))
    record = rig.storage.load(b"a")
    assert record is not None
    assert set(record.producers) == {b"p", b"q"}


def test_a_producer_that_goes_on_is_not_idle() -> None:
    rig = room(producer_idle_ms=PRODUCER_IDLE_MS)
    rig.create(b"a")
    for seq in range(3):
        rig.append(b"a", b"x", claim=Claim(b"p", 0, seq))
        rig.scheduler.advance(6 * DAY_MS)
    rig.append(b"a", b"x", claim=Claim(b"q", 0, 0))
    assert isinstance(rig.append(b"a", b"x", claim=Claim(b"p", 0, 3)), Appended)


def test_a_forgotten_producer_is_new_again() -> None:
    rig = room(producer_idle_ms=PRODUCER_IDLE_MS)
    rig.create(b"a")
    rig.append(b"a", b"x", claim=Claim(b"p", 5, 0))
    rig.scheduler.advance(7 * DAY_MS + 1)
    rig.append(b"a", b"x", claim=Claim(b"q", 0, 0))
    with pytest.raises(SequenceGap):
        rig.append(b"a", b"x", claim=Claim(b"p", 5, 1))
    assert isinstance(rig.append(b"a", b"x", claim=Claim(b"p", 0, 0)), Appended)


def test_producers_are_never_forgotten_where_idling_is_not_bounded(rig: Rig) -> None:
    rig.create(b"a")
    rig.append(b"a", b"x", claim=Claim(b"p", 0, 0))
    rig.scheduler.advance(1000 * DAY_MS)
    rig.append(b"a", b"x", claim=Claim(b"q", 0, 0))
    assert isinstance(rig.append(b"a", b"x", claim=Claim(b"p", 0, 0)), Duplicate)
