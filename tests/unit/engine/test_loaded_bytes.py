"""What streams take in memory: counted with their producers, and bounded where the storage can bring them back."""

import tracemalloc
from collections.abc import Callable

import pytest

from everbrook.engine.limits import Limits
from everbrook.engine.tuning import EngineTuning, StreamsTuning
from everbrook.protocol import Append, Appended, Claim, Duplicate
from everbrook.protocol.errors import BucketFull, TooManyProducers
from everbrook.storage import PRODUCER_BYTES, STREAM_BYTES, StorageFull, producers_bytes
from tests.kit.fakes import RecordingReader
from tests.unit.engine.rig import TEXT, DelayedRig, Rig, evict, resident_streams

ID_BYTES = 36
PRODUCERS_OF_ONE = 10
ONE = STREAM_BYTES + PRODUCERS_OF_ONE * (PRODUCER_BYTES + ID_BYTES)


def claim(number: int, seq: int = 0) -> Claim:
    return Claim(b"%036d" % number, 0, seq)


def fill(rig: DelayedRig, name: bytes, count: int = PRODUCERS_OF_ONE) -> None:
    """Create a stream that remembers so many producers."""
    rig.create(name)
    for number in range(count):
        rig.append(name, b"x", claim=claim(number))
    rig.let_everything_arrive()
    rig.scheduler.settle()


def loaded(rig: Rig) -> int:
    return rig.engine.inspect().loaded_bytes


def expected(rig: Rig) -> int:
    return sum(STREAM_BYTES + producers_bytes(stream.producers) for stream in resident_streams(rig.engine))


def test_what_is_loaded_is_counted_with_its_producers() -> None:
    rig = DelayedRig()
    fill(rig, b"a")
    fill(rig, b"b", 0)
    assert loaded(rig) == ONE + STREAM_BYTES


def test_a_long_id_of_a_producer_counts_in_memory() -> None:
    rig = Rig()
    rig.create(b"a")
    rig.append(b"a", b"x", claim=Claim(b"p", 0, 0))
    before = rig.storage.used_bytes
    rig.append(b"a", b"x", claim=Claim(b"p" * 200, 0, 0))
    assert rig.storage.used_bytes - before >= PRODUCER_BYTES + 200


def test_a_producer_counts_for_at_least_what_it_takes() -> None:
    rig = Rig()
    rig.create(b"a")
    count = 5000
    counted = rig.storage.used_bytes
    tracemalloc.start()
    try:
        for number in range(count):
            rig.append(b"a", b"x", claim=claim(number))
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert rig.storage.used_bytes - counted >= taken


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda rig: rig.delete(b"a"), id="deleted"),
        pytest.param(lambda rig: rig.append(b"a", b"x", claim=claim(3, 1)), id="known"),
        pytest.param(lambda rig: rig.append(b"a", b"x", claim=claim(99)), id="new"),
        pytest.param(lambda rig: rig.create(b"c", b"x"), id="created"),
        pytest.param(lambda rig: rig.fork(b"f", b"a"), id="forked"),
    ],
)
@pytest.mark.parametrize("refused", [False, True])
def test_what_is_counted_is_what_is_there(act: Callable[[Rig], object], *, refused: bool) -> None:
    rig = DelayedRig()
    fill(rig, b"a")
    act(rig)
    rig.let_group_arrive(StorageFull("no room") if refused else None)
    rig.let_everything_arrive()
    assert loaded(rig) == expected(rig)
    for _ in range(3):
        evict(rig.engine)
    assert loaded(rig) == 0


def test_forgotten_producers_are_not_counted() -> None:
    rig = Rig(Limits(producer_idle_ms=1000))
    rig.create(b"a")
    for number in range(5):
        rig.append(b"a", b"x", claim=claim(number))
    rig.scheduler.advance(1001)
    rig.append(b"a", b"x", claim=claim(9))
    assert loaded(rig) == STREAM_BYTES + PRODUCER_BYTES + ID_BYTES


def test_the_position_of_a_producer_is_counted_once() -> None:
    rig = Rig(Limits(producer_idle_ms=1000))
    rig.create(b"a")
    stored = []
    for seq, position in enumerate((b"1" * 10, b"2" * 1000, b"3" * 10)):
        rig.engine.execute(Append(b"a", rig.clock.now(), TEXT, b"x", claim=claim(0, seq), position=position))
        stored.append(rig.storage.used_bytes)
    assert loaded(rig) == STREAM_BYTES + PRODUCER_BYTES + ID_BYTES + 10
    assert stored[1] > stored[0] + 900 > stored[2] + 800


def test_streams_leave_memory_when_they_take_too_much_and_come_back() -> None:
    rig = DelayedRig(Limits(max_loaded_bytes=20 * ONE), tuning=EngineTuning(streams=StreamsTuning(eviction_slice=1)))
    names = [b"%d" % number for number in range(50)]
    for name in names:
        fill(rig, name)
    for name in names:
        assert isinstance(rig.append(name, b"x", claim=claim(0)), Duplicate)
        rig.scheduler.settle()
        assert loaded(rig) <= 20 * ONE


def test_memory_mode_lets_no_stream_go() -> None:
    rig = Rig(Limits(max_loaded_bytes=1))
    for name in (b"a", b"b"):
        rig.create(name)
        rig.append(name, b"x", claim=claim(0))
        rig.append(name, b"x", claim=claim(1))
    rig.scheduler.settle()
    assert rig.engine.inspect().resident_streams == 2


def test_what_can_not_leave_memory_takes_no_producers_without_a_bound() -> None:
    rig = DelayedRig(Limits(max_loaded_bytes=ONE))
    rig.create(b"a")
    rig.let_everything_arrive()
    rig.engine.readers.join(rig.open(b"a"), RecordingReader())

    def append_for_ever() -> None:
        for number in range(100):
            rig.append(b"a", b"x", claim=claim(number))

    with pytest.raises(TooManyProducers):
        append_for_ever()
    assert loaded(rig) <= ONE + ONE // 8 + STREAM_BYTES + PRODUCER_BYTES + ID_BYTES
    assert isinstance(rig.append(b"a", b"x", claim=claim(0, 1)), Appended)
    assert isinstance(rig.append(b"a", b"x"), Appended)


def test_producers_of_one_bucket_leave_room_for_those_of_others() -> None:
    rig = DelayedRig(Limits(max_loaded_bytes=ONE))
    for bucket in (b"acme", b"other"):
        rig.create_bucket(bucket)
        rig.create(b"/ds/%b/s" % bucket)
    rig.let_everything_arrive()
    rig.engine.readers.join(rig.open(b"/ds/acme/s"), RecordingReader())

    def append_for_ever() -> None:
        for number in range(100):
            rig.append(b"/ds/acme/s", b"x", claim=claim(number))

    with pytest.raises(TooManyProducers):
        append_for_ever()
    assert isinstance(rig.append(b"/ds/other/s", b"x", claim=claim(0)), Appended)


def test_the_quota_of_a_bucket_bounds_its_producers_beside_its_streams() -> None:
    rig = Rig(Limits(max_bucket_bytes=3 * (PRODUCER_BYTES + ID_BYTES)))
    rig.create_bucket(b"acme")
    for name in (b"/ds/acme/s", b"/ds/acme/t", b"a"):
        rig.create(name)
    for number in range(3):
        rig.append(b"/ds/acme/s", b"x", claim=claim(number))
    for name in (b"/ds/acme/s", b"/ds/acme/t"):
        with pytest.raises(BucketFull):
            rig.append(name, b"x", claim=claim(3))
    assert isinstance(rig.append(b"/ds/acme/s", b"x", claim=claim(0, 1)), Appended)
    assert isinstance(rig.append(b"/ds/acme/t", b"x"), Appended)
    assert isinstance(rig.append(b"a", b"x", claim=claim(3)), Appended)
    rig.delete(b"/ds/acme/s")
    assert isinstance(rig.append(b"/ds/acme/t", b"x", claim=claim(3)), Appended)
