"""Quotas: exact under whatever is on its way, freed by what goes, and kept over a restart."""

import pytest

from everbrook.engine.limits import Limits
from everbrook.engine.quotas import NO_QUOTA, Quota
from everbrook.engine.usage import EVERYTHING, Amount
from everbrook.protocol import Closed, PublishSnapshot, Retention
from everbrook.protocol.errors import BucketFull, StoreFull
from tests.kit.fakes import DelayedStorage
from tests.kit.work import count_lines
from tests.unit.engine.model.needing import check_usage
from tests.unit.engine.rig import TEXT, Rig, held

ACME, ONE, TWO = b"acme", b"/ds/acme/one", b"/ds/acme/two"


def quota_of(rig: Rig, **bounds: int) -> Rig:
    rig.create_bucket(ACME)
    rig.engine.buckets.set_quota(ACME, Quota(**bounds))
    return rig


def test_a_bucket_takes_exactly_what_it_may(rig: Rig) -> None:
    quota_of(rig, max_bytes=10)
    rig.create(ONE, b"12345")
    rig.create(TWO, b"1234")
    rig.append(TWO, b"5")
    with pytest.raises(BucketFull):
        rig.append(ONE, b"6")
    assert isinstance(rig.append(ONE, close=True), Closed)


def test_other_buckets_are_not_bounded_by_it(rig: Rig) -> None:
    quota_of(rig, max_bytes=10)
    rig.create_bucket(b"other")
    rig.create(b"/ds/other/one", b"a" * 100)
    rig.create(b"/v1/stream/one", b"a" * 100)


def test_a_quota_outlives_a_restart(rig: Rig) -> None:
    quota_of(rig, max_bytes=10, max_streams=1)
    rig.create(ONE, b"12345678")
    rig.restart()
    assert rig.engine.buckets.quota(ACME) == Quota(10, 1)
    with pytest.raises(BucketFull):
        rig.append(ONE, b"901")
    with pytest.raises(BucketFull):
        rig.create(TWO)


@pytest.mark.parametrize("restart", [False, True])
def test_a_quota_outlives_its_bucket(rig: Rig, *, restart: bool) -> None:
    """Who may delete a bucket and create it again is not rid of its bound by that."""
    quota_of(rig, max_bytes=10)
    rig.engine.buckets.delete(ACME)
    if restart:
        rig.restart()
    rig.create_bucket(ACME)
    assert rig.engine.buckets.quota(ACME) == Quota(10)
    with pytest.raises(BucketFull):
        rig.create(ONE, b"a" * 100)


@pytest.mark.parametrize("restart", [False, True])
def test_the_quota_of_a_bucket_that_is_gone_can_be_taken_back(rig: Rig, *, restart: bool) -> None:
    quota_of(rig, max_bytes=10)
    rig.engine.buckets.delete(ACME)
    rig.engine.buckets.unset_quota(ACME)
    if restart:
        rig.restart()
    rig.create_bucket(ACME)
    assert rig.engine.buckets.quota(ACME) == NO_QUOTA
    rig.create(ONE, b"a" * 100)


def test_what_retention_lets_go_of_makes_room() -> None:
    rig = Rig(Limits(max_bucket_bytes=10))
    rig.create_bucket(ACME)
    rig.create(ONE, b"1234567890", retention=Retention(max_messages=1))
    with pytest.raises(BucketFull):
        rig.append(ONE, b"1")
    rig.publish(ONE, 10, b"s")
    rig.append(ONE, b"123456789")


def forked_and_cut(bounds: dict[str, int]) -> Rig:
    """A source that has let go of its five bytes and of a snapshot of three, both of which a fork needs."""
    rig = quota_of(Rig(), **bounds)
    rig.create(ONE, b"12345")
    rig.publish(ONE, 5, b"old", keep_history=True)
    rig.fork(TWO, ONE)
    rig.publish(ONE, 5, b"")
    return rig


@pytest.mark.parametrize("restart", [False, True])
def test_what_is_cut_while_a_fork_needs_it_makes_no_room(*, restart: bool) -> None:
    rig = forked_and_cut({"max_bytes": 10})
    if restart:
        rig.restart()
    with pytest.raises(BucketFull):
        rig.append(ONE, b"678")
    rig.append(ONE, b"67")
    assert (rig.content(TWO), rig.snapshot(TWO)) == (b"12345", b"old")


@pytest.mark.parametrize("restart", [False, True])
def test_the_end_of_the_last_fork_makes_room(*, restart: bool) -> None:
    rig = forked_and_cut({"max_bytes": 10})
    rig.fork(b"/ds/acme/three", TWO)
    if restart:
        rig.restart()
    rig.delete(TWO)
    assert held(rig.engine, ACME).size == 8
    rig.delete(b"/ds/acme/three")
    assert held(rig.engine, ACME).size == 0
    rig.append(ONE, b"1234567890")


def test_what_comes_first_after_a_start_is_counted_right() -> None:
    rig = quota_of(Rig(), max_bytes=10)
    rig.create(ONE, b"12345")
    rig.fork(TWO, ONE)
    rig.restart()
    with pytest.raises(BucketFull):
        rig.engine.begin_snapshot(PublishSnapshot(ONE, rig.clock.now(), 5, TEXT), 6)
    rig.publish(ONE, 5, b"12345")
    assert held(rig.engine, ACME).size == 10


def test_a_source_goes_whole_with_its_last_fork() -> None:
    rig = forked_and_cut({"max_bytes": 10})
    rig.delete(ONE)
    assert held(rig.engine, ACME).size == 8
    rig.delete(TWO)
    assert held(rig.engine, ACME) == Amount(0, 0)


def test_snapshots_count(rig: Rig) -> None:
    quota_of(rig, max_bytes=10)
    rig.create(ONE, b"12345")
    with pytest.raises(BucketFull):
        rig.publish(ONE, 5, b"a" * 11)


def test_a_piece_of_a_snapshot_is_refused_beyond_the_quota(rig: Rig) -> None:
    quota_of(rig, max_bytes=10)
    rig.create(ONE, b"12345")
    upload = rig.engine.begin_snapshot(PublishSnapshot(ONE, rig.clock.now(), 5, TEXT))
    upload.write(b"a" * 10)
    with pytest.raises(BucketFull):
        upload.write(b"a")


def test_a_piece_of_a_snapshot_is_checked_at_little_cost(rig: Rig) -> None:
    """The publication is decided when it begins and when it ends, not with each piece."""
    quota_of(rig, max_bytes=100)
    rig.create(ONE, b"12345")
    upload = rig.engine.begin_snapshot(PublishSnapshot(ONE, rig.clock.now(), 5, TEXT))
    assert count_lines(lambda: upload.write(b"a")) <= 43


def test_changes_on_their_way_count() -> None:
    storage = DelayedStorage()
    rig = Rig(Limits(max_total_bytes=10), storage)
    rig.create(b"/v1/stream/a", b"123456")
    with pytest.raises(StoreFull):
        rig.create(b"/v1/stream/b", b"12345")


@pytest.mark.parametrize("restart", [False, True])
def test_what_is_counted_is_what_is_there(rig: Rig, *, restart: bool) -> None:
    quota_of(rig, max_bytes=1000)
    rig.create(ONE, b"12345")
    check_usage(rig.engine, EVERYTHING)
    rig.fork(TWO, ONE, body=b"678")
    rig.append(ONE, b"9")
    rig.publish(ONE, 6, b"snap")
    rig.delete(TWO)
    rig.create(TWO, b"1")
    if restart:
        rig.restart()
    check_usage(rig.engine, EVERYTHING)
    check_usage(rig.engine, ACME)
    assert held(rig.engine, ACME).streams == 2
