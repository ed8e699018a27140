"""Listing: the streams that live, in the order of their names; and whether a bucket has any (002 §1.4, §1.5)."""

import pytest

from everbrook.engine.buckets import EXPIRED_AT_ONCE
from everbrook.protocol import Deleted, bucket_prefix
from everbrook.protocol.errors import BucketNotEmpty, BucketNotFound
from everbrook.storage import StorageFull
from tests.kit.fakes import START_MS
from tests.unit.engine.rig import DelayedRig, Rig, is_populated

AGENTS = bucket_prefix(b"agents")
FULL = StorageFull("the disk is full")


def listed(rig: Rig, prefix: bytes = b"", after: bytes = b"", limit: int = 1000) -> list[bytes]:
    return [name for name, _ in rig.engine.listing.living(prefix, after, limit)]


# Listing


def test_streams_are_listed_in_the_order_of_their_names(rig: Rig) -> None:
    for name in (b"b", b"a/2", b"a", b"a/10", b"\xc3\xa9"):
        rig.create(name)
    assert listed(rig) == [b"a", b"a/10", b"a/2", b"b", b"\xc3\xa9"]
    assert listed(rig, b"a/") == [b"a/10", b"a/2"]


def test_a_listing_goes_on_after_a_name(rig: Rig) -> None:
    """002 §1.4: an exclusive cursor, that need not exist."""
    for number in range(7):
        rig.create(b"x%d" % number)
    assert listed(rig, b"x", limit=3) == [b"x0", b"x1", b"x2"]
    assert listed(rig, b"x", b"x2", 3) == [b"x3", b"x4", b"x5"]
    assert listed(rig, b"x", b"x5", 3) == [b"x6"]
    assert listed(rig, b"x", b"x4~", 9) == [b"x5", b"x6"]


def test_a_listing_shows_each_stream_as_it_is(rig: Rig) -> None:
    rig.create(b"a", b"12")
    rig.append(b"a", b"3", close=True)
    ((_, head),) = rig.engine.listing.living(b"", b"", 9)
    assert head is rig.open(b"a").committed


def test_streams_that_have_ended_are_not_listed(rig: Rig) -> None:
    rig.create(b"deleted")
    rig.delete(b"deleted")
    rig.create(b"forked")
    rig.fork(b"fork", b"forked")
    rig.delete(b"forked")
    rig.create(b"over", expires_at=START_MS + 1000)
    rig.create(b"sliding", ttl_secs=1)
    rig.clock.micros += 1_000_000
    assert listed(rig) == [b"fork"]


def test_a_page_is_full_though_streams_in_it_have_ended(rig: Rig) -> None:
    """002 §1.4: `has_more` is told by a page that is full."""
    for number in range(20):
        rig.create(b"%02d" % number, ttl_secs=1 if number % 3 else None)
    rig.clock.micros += 1_000_000
    assert listed(rig, limit=3) == [b"00", b"03", b"06"]
    assert listed(rig, after=b"06", limit=9) == [b"09", b"12", b"15", b"18"]


def test_a_stream_that_was_read_lately_is_listed(rig: Rig) -> None:
    """§5.1: its time began anew."""
    rig.create(b"a", ttl_secs=2)
    rig.scheduler.advance(1500)
    rig.open(b"a")
    rig.scheduler.advance(1500)
    assert listed(rig) == [b"a"]


def test_a_stream_that_is_not_in_memory_is_listed_while_it_lives(rig: Rig) -> None:
    rig.create(b"a", ttl_secs=2)
    rig.create(b"b")
    rig.restart()
    assert listed(rig) == [b"a", b"b"]
    rig.clock.micros += 2_000_000
    assert listed(rig) == [b"b"]
    assert rig.engine.inspect().resident_streams == 0


def test_a_stream_is_listed_when_it_is_durable_and_as_long(delayed: DelayedRig) -> None:
    delayed.create(b"a")
    assert listed(delayed) == []
    delayed.let_everything_arrive()
    delayed.delete(b"a")
    assert listed(delayed) == [b"a"]
    delayed.let_everything_arrive()
    assert listed(delayed) == []


def test_streams_are_counted_by_what_their_names_begin_with(rig: Rig) -> None:
    for bucket_id, count in ((b"agents", 2), (b"agents-b", 1)):
        rig.create_bucket(bucket_id)
        for number in range(count):
            rig.create(b"/ds/%b/%d" % (bucket_id, number))
    assert rig.engine.listing.count(AGENTS) == 2


# Whether there is a stream


def populated(rig: Rig) -> bool:
    return is_populated(rig.engine, AGENTS)


@pytest.fixture
def agents(delayed: DelayedRig) -> DelayedRig:
    """An empty bucket."""
    delayed.create_bucket(b"agents")
    delayed.let_everything_arrive()
    return delayed


def test_a_bucket_has_a_stream_from_the_moment_that_it_is_decided(agents: DelayedRig) -> None:
    agents.create(b"/ds/agents/a")
    assert populated(agents)
    agents.let_everything_arrive()
    assert populated(agents)


def test_a_bucket_has_no_stream_from_the_moment_that_the_last_is_deleted(agents: DelayedRig) -> None:
    agents.create(b"/ds/agents/a")
    agents.let_everything_arrive()
    agents.delete(b"/ds/agents/a")
    assert not populated(agents)
    agents.let_everything_arrive()
    assert not populated(agents)


def test_a_stream_that_came_and_went_is_none(agents: DelayedRig) -> None:
    agents.create(b"/ds/agents/a")
    agents.delete(b"/ds/agents/a")
    assert not populated(agents)


def test_a_stream_that_went_and_came_is_one(agents: DelayedRig) -> None:
    agents.create(b"/ds/agents/a")
    agents.let_everything_arrive()
    agents.delete(b"/ds/agents/a")
    agents.create(b"/ds/agents/a")
    assert populated(agents)


def test_a_stream_that_is_not_in_memory_is_one(agents: DelayedRig) -> None:
    agents.create(b"/ds/agents/a")
    agents.let_everything_arrive()
    agents.restart()
    assert populated(agents)


def test_a_stream_behind_many_that_are_being_deleted_is_found(agents: DelayedRig) -> None:
    for number in range(200):
        agents.create(b"/ds/agents/%03d" % number)
    agents.let_everything_arrive()
    for number in range(199):
        agents.delete(b"/ds/agents/%03d" % number)
    assert populated(agents)
    agents.delete(b"/ds/agents/199")
    assert not populated(agents)


def test_a_stream_that_was_refused_is_none(agents: DelayedRig) -> None:
    agents.create(b"/ds/agents/a")
    agents.let_group_arrive(FULL)
    assert not populated(agents)


# Deleting buckets


def test_a_bucket_that_is_being_created_takes_streams(delayed: DelayedRig) -> None:
    """002 §1.2: whoever knows of it may use it."""
    delayed.create_bucket(b"agents")
    delayed.create(b"/ds/agents/a", b"1")
    delayed.let_everything_arrive()
    assert delayed.content(b"/ds/agents/a") == b"1"


def test_a_bucket_that_is_being_deleted_takes_no_streams(agents: DelayedRig) -> None:
    """002 §1.5."""
    agents.engine.buckets.delete(b"agents")
    with pytest.raises(BucketNotFound):
        agents.create(b"/ds/agents/a")


def test_a_bucket_with_a_stream_on_its_way_is_not_deleted(agents: DelayedRig) -> None:
    """002 §1.5: 409."""
    agents.create(b"/ds/agents/a")
    with pytest.raises(BucketNotEmpty):
        agents.engine.buckets.delete(b"agents")


def test_streams_whose_time_has_run_out_do_not_keep_a_bucket(rig: Rig) -> None:
    """002 §1.5: nobody can see them."""
    rig.create_bucket(b"agents")
    for number in range(3):
        rig.create(b"/ds/agents/%d" % number, ttl_secs=1)
    with pytest.raises(BucketNotEmpty):
        rig.engine.buckets.delete(b"agents")
    rig.clock.micros += 1_000_000
    assert isinstance(rig.engine.buckets.delete(b"agents"), Deleted)
    assert rig.storage.used_bytes == 0


def test_a_stream_that_lives_keeps_its_bucket_whichever_of_them_comes_first(rig: Rig) -> None:
    rig.create_bucket(b"agents")
    for name in (b"/ds/agents/a", b"/ds/agents/c"):
        rig.create(name, ttl_secs=1)
    rig.create(b"/ds/agents/b", ttl_secs=9)
    rig.clock.micros += 1_000_000
    with pytest.raises(BucketNotEmpty):
        rig.engine.buckets.delete(b"agents")
    assert listed(rig, AGENTS) == [b"/ds/agents/b"]


def test_many_streams_whose_time_has_run_out_go_a_slice_at_a_time(rig: Rig) -> None:
    rig.create_bucket(b"agents")
    for number in range(2 * EXPIRED_AT_ONCE + 1):
        rig.create(b"/ds/agents/%04d" % number, ttl_secs=1)
    rig.clock.micros += 1_000_000
    first = rig.engine.buckets.expire_some(b"agents", b"")
    assert first == b"/ds/agents/%04d" % (EXPIRED_AT_ONCE - 1)
    second = rig.engine.buckets.expire_some(b"agents", first)
    assert second is not None
    assert rig.engine.buckets.expire_some(b"agents", second) is None
    assert isinstance(rig.engine.buckets.delete(b"agents"), Deleted)


def test_nothing_more_expires_behind_a_stream_for_which_the_bucket_stays(rig: Rig) -> None:
    rig.create_bucket(b"agents")
    rig.create(b"/ds/agents/0000")
    for number in range(1, EXPIRED_AT_ONCE + 1):
        rig.create(b"/ds/agents/%04d" % number, ttl_secs=1)
    rig.clock.micros += 1_000_000
    assert rig.engine.buckets.expire_some(b"agents", b"") is None
    assert rig.engine.listing.count(b"/ds/agents/") == EXPIRED_AT_ONCE + 1


def test_a_soft_deleted_stream_keeps_its_bucket(rig: Rig) -> None:
    """§4.2: a fork still reads it."""
    rig.create_bucket(b"agents")
    rig.create(b"/ds/agents/a", b"1")
    rig.fork(b"/ds/agents/f", b"/ds/agents/a")
    rig.delete(b"/ds/agents/a")
    with pytest.raises(BucketNotEmpty):
        rig.engine.buckets.delete(b"agents")
    rig.delete(b"/ds/agents/f")
    assert isinstance(rig.engine.buckets.delete(b"agents"), Deleted)


def test_buckets_are_there_after_a_restart(rig: Rig) -> None:
    rig.create_bucket(b"agents")
    rig.create(b"/ds/agents/a", b"1")
    rig.restart()
    with pytest.raises(BucketNotEmpty):
        rig.engine.buckets.delete(b"agents")
    rig.append(b"/ds/agents/a", b"2")
    assert rig.content(b"/ds/agents/a") == b"12"
