"""Streams in memory: loaded when asked for, gone when nothing is going on, and as they were when a group is refused."""

from collections.abc import Iterator

import pytest

from everbrook.engine import EngineTuning
from everbrook.engine.tuning import ExpiryTuning, StreamsTuning
from everbrook.protocol import Appended, Claim, Duplicate, Existing
from everbrook.protocol.errors import StreamGone, StreamNotFound, Unavailable
from everbrook.storage import StorageFull
from tests.kit.fakes import RecordingReader
from tests.unit.engine.rig import DelayedRig, Rig, evict, residents

FULL = StorageFull("the disk is full")
SLICE = ExpiryTuning().slice_streams
CRAMPED = EngineTuning(streams=StreamsTuning(max_resident=1, eviction_slice=1))

# Loading


def test_a_stream_is_loaded_as_it_was(rig: Rig) -> None:
    rig.create(b"a", b"1")
    rig.append(b"a", b"2", claim=Claim(b"p", 0, 0), close=True)
    rig.restart()
    assert rig.content(b"a") == b"12"
    assert isinstance(rig.append(b"a", b"2", claim=Claim(b"p", 0, 0), close=True), Duplicate)


def test_a_fork_is_loaded_with_its_sources(rig: Rig) -> None:
    rig.create(b"a", b"1")
    rig.fork(b"b", b"a", body=b"2")
    rig.fork(b"c", b"b", body=b"3")
    rig.delete(b"b")
    rig.restart()
    assert rig.content(b"c") == b"123"
    with pytest.raises(StreamGone):
        rig.open(b"b")
    rig.delete(b"c")
    assert rig.content(b"a") == b"1"


def test_a_source_is_loaded_with_its_forks_counted(rig: Rig) -> None:
    rig.create(b"a", b"1")
    rig.fork(b"f", b"a")
    rig.restart()
    rig.delete(b"a")
    with pytest.raises(StreamGone):
        rig.open(b"a")
    assert rig.content(b"f") == b"1"


def test_a_fork_whose_source_is_loaded_already_is_loaded(rig: Rig) -> None:
    rig.create(b"a", b"1")
    rig.fork(b"f", b"a", body=b"2")
    rig.restart()
    source = rig.open(b"a")
    assert rig.content(b"f") == b"12"
    assert rig.open(b"a") is source


# Leaving memory


@pytest.fixture
def cramped() -> Iterator[DelayedRig]:
    """An engine that lets streams go whenever another one is loaded."""
    rig = DelayedRig(tuning=CRAMPED)
    yield rig
    rig.let_everything_arrive()
    rig.engine.close()


def fill(rig: DelayedRig, *names: bytes) -> None:
    """Create streams, and let the engine forget them."""
    for name in names:
        rig.create(name, name)
    rig.let_everything_arrive()
    forget(rig)


def forget(rig: DelayedRig) -> None:
    """Let every stream leave memory that can."""
    for _ in range(rig.engine.inspect().resident_streams):
        evict(rig.engine)


def test_idle_streams_leave_memory_and_come_back(cramped: DelayedRig) -> None:
    fill(cramped, b"a", b"b", b"c")
    assert residents(cramped.engine) == 0
    assert [cramped.content(name) for name in (b"a", b"b", b"c")] == [b"a", b"b", b"c"]
    cramped.scheduler.settle()
    assert residents(cramped.engine) <= 4


def test_a_stream_with_something_on_its_way_stays(cramped: DelayedRig) -> None:
    fill(cramped, b"a")
    cramped.append(b"a", b"more")
    forget(cramped)
    assert isinstance(cramped.append(b"a", b"more"), Appended)
    cramped.let_everything_arrive()
    assert cramped.content(b"a") == b"amoremore"


def test_a_source_whose_fork_is_on_its_way_stays(cramped: DelayedRig) -> None:
    fill(cramped, b"a")
    cramped.fork(b"f", b"a")
    forget(cramped)
    cramped.delete(b"a")
    cramped.let_everything_arrive()
    assert cramped.content(b"f") == b"a"


def test_a_stream_that_is_followed_stays(cramped: DelayedRig) -> None:
    fill(cramped, b"a")
    reader = cramped.follow(b"a")
    forget(cramped)
    cramped.append(b"a", b"more")
    cramped.let_everything_arrive()
    cramped.scheduler.settle()
    assert reader.received == b"more"


def test_a_page_is_read_on_when_its_stream_has_left_memory(cramped: DelayedRig) -> None:
    fill(cramped, b"a")
    cramped.append(b"a", b"bcd")
    cramped.let_everything_arrive()
    stream = cramped.open(b"a")
    forget(cramped)
    assert not stream.resident
    assert cramped.engine.readers.read_part(stream, 1, 3) == b"bc"


def test_a_read_that_goes_on_after_a_pause_sees_what_came(cramped: DelayedRig) -> None:
    """A reader that fell behind waits outside the feed, and comes back to the stream that it began with."""
    fill(cramped, b"a", b"b")
    stream = cramped.open(b"a")
    cramped.content(b"b")
    forget(cramped)
    cramped.append(b"a", b"more")
    cramped.let_everything_arrive()
    stream = cramped.engine.readers.current(stream)
    page = cramped.engine.readers.page(stream, 1)
    assert cramped.engine.readers.read(stream, page) == b"more"
    reader = RecordingReader()
    cramped.engine.readers.join(stream, reader)
    cramped.append(b"a", b"!")
    cramped.let_everything_arrive()
    cramped.scheduler.settle()
    assert reader.received == b"!"


def test_a_read_that_goes_on_after_a_pause_learns_that_the_stream_has_ended(cramped: DelayedRig) -> None:
    fill(cramped, b"a", b"b")
    stream = cramped.open(b"a")
    cramped.content(b"b")
    forget(cramped)
    cramped.delete(b"a")
    cramped.let_everything_arrive()
    with pytest.raises(StreamNotFound):
        cramped.engine.readers.current(stream)


def test_a_read_that_goes_on_after_a_pause_never_meets_a_successor(cramped: DelayedRig) -> None:
    fill(cramped, b"a", b"b")
    stream = cramped.open(b"a")
    cramped.content(b"b")
    forget(cramped)
    cramped.delete(b"a")
    cramped.create(b"a", b"new")
    cramped.let_everything_arrive()
    with pytest.raises(StreamNotFound):
        cramped.engine.readers.current(stream)


def test_streams_that_are_only_ever_created_leave_memory_too(cramped: DelayedRig) -> None:
    for number in range(20):
        cramped.create(b"%d" % number)
        cramped.let_everything_arrive()
        cramped.scheduler.settle()
    assert cramped.engine.inspect().resident_streams <= 3


def test_a_crowd_leaves_memory_a_few_at_a_time(cramped: DelayedRig) -> None:
    for number in range(20):
        cramped.create(b"%d" % number)
    cramped.let_everything_arrive()
    assert cramped.engine.inspect().resident_streams == 20
    cramped.scheduler.run_soon()
    assert cramped.engine.inspect().resident_streams == 19
    cramped.scheduler.settle()
    assert cramped.engine.inspect().resident_streams == 1


def test_a_source_and_its_fork_leave_memory_when_both_are_durable(cramped: DelayedRig) -> None:
    fill(cramped, b"a")
    cramped.fork(b"f", b"a")
    cramped.let_everything_arrive()
    forget(cramped)
    assert residents(cramped.engine) == 0
    cramped.delete(b"f")
    cramped.let_everything_arrive()
    forget(cramped)
    assert residents(cramped.engine) == 0


def test_a_sliding_stream_that_was_read_stays_because_only_memory_knows_of_it(cramped: DelayedRig) -> None:
    cramped.create(b"a", ttl_secs=2)
    cramped.let_everything_arrive()
    cramped.scheduler.advance(1500)
    cramped.open(b"a")
    forget(cramped)
    cramped.scheduler.advance(1000)
    assert cramped.content(b"a") == b""


def test_leaving_and_coming_back_leaves_nothing_behind_in_the_sweep(cramped: DelayedRig) -> None:
    cramped.create(b"a", ttl_secs=24 * 3600)
    for _ in range(SLICE * 2):
        cramped.append(b"a", b"x")
        cramped.let_everything_arrive()
        forget(cramped)
    assert cramped.engine.inspect().expiring.entries <= SLICE + 4


def test_deciding_on_a_fork_does_not_let_it_go_for_its_source(cramped: DelayedRig) -> None:
    fill(cramped, b"a")
    cramped.fork(b"f", b"a")
    cramped.delete(b"a")
    cramped.let_everything_arrive()
    forget(cramped)
    cramped.delete(b"f")
    cramped.let_everything_arrive()
    assert cramped.storage.used_bytes == 0


# Refused groups


def test_what_is_refused_is_as_if_it_had_never_been(delayed: DelayedRig) -> None:
    delayed.create(b"a", b"1")
    delayed.let_everything_arrive()
    delayed.append(b"a", b"2", claim=Claim(b"p", 0, 0), close=True)
    delayed.create(b"b")
    delayed.fork(b"f", b"a")
    delayed.let_group_arrive(FULL)
    assert delayed.content(b"a") == b"1"
    assert isinstance(delayed.append(b"a", b"3", claim=Claim(b"p", 0, 0)), Appended)
    delayed.delete(b"a")
    delayed.let_everything_arrive()
    assert residents(delayed.engine) == 0
    assert delayed.storage.used_bytes == 0


def test_a_refused_creation_leaves_nothing_in_memory(delayed: DelayedRig) -> None:
    delayed.create(b"a", b"1", ttl_secs=1)
    delayed.append(b"a", b"2")
    delayed.let_group_arrive(FULL)
    assert residents(delayed.engine) == 0


def test_a_refused_fork_does_not_count(cramped: DelayedRig) -> None:
    fill(cramped, b"a")
    cramped.fork(b"f", b"a")
    cramped.let_group_arrive(FULL)
    forget(cramped)
    assert residents(cramped.engine) == 0
    cramped.fork(b"f", b"a")
    cramped.let_group_arrive(FULL)
    cramped.delete(b"a")
    cramped.let_everything_arrive()
    assert cramped.storage.used_bytes == 0


def test_what_waits_for_a_refused_group_is_told(delayed: DelayedRig) -> None:
    delayed.create(b"a")
    on_its_way = delayed.answers()
    delayed.scheduler.settle()
    delayed.create(b"b")
    queued = delayed.answers()
    delayed.let_group_arrive(FULL)
    assert [type(told) for told in on_its_way + queued] == [Unavailable, Unavailable]
    assert delayed.engine.failure is None


def test_writing_goes_on_when_there_is_room_again(delayed: DelayedRig) -> None:
    delayed.create(b"a")
    delayed.let_group_arrive(FULL)
    delayed.create(b"a", b"1")
    told = delayed.answers()
    delayed.let_group_arrive()
    assert told == [None]
    assert delayed.content(b"a") == b"1"


def test_what_needs_no_change_is_answered_after_a_refusal(delayed: DelayedRig) -> None:
    delayed.create(b"a")
    delayed.let_everything_arrive()
    delayed.append(b"a", b"1")
    delayed.let_group_arrive(FULL)
    assert isinstance(delayed.create(b"a"), Existing)
    assert delayed.answers() == [None]


def test_a_refused_deletion_leaves_the_stream_and_its_readers(delayed: DelayedRig) -> None:
    delayed.create(b"a", b"1")
    delayed.let_everything_arrive()
    reader = delayed.follow(b"a")
    delayed.delete(b"a")
    delayed.create(b"a", b"new")
    delayed.let_group_arrive(FULL)
    delayed.append(b"a", b"2")
    delayed.let_everything_arrive()
    delayed.scheduler.settle()
    assert delayed.content(b"a") == b"12"
    assert (reader.received, reader.errors) == (b"2", [])


def test_a_refused_cascade_leaves_the_whole_chain(delayed: DelayedRig) -> None:
    delayed.create(b"a", b"1")
    delayed.fork(b"f", b"a", body=b"2")
    delayed.delete(b"a")
    delayed.let_everything_arrive()
    delayed.delete(b"f")
    delayed.let_group_arrive(FULL)
    assert delayed.content(b"f") == b"12"
    with pytest.raises(StreamGone):
        delayed.open(b"a")
    delayed.delete(b"f")
    delayed.let_everything_arrive()
    assert delayed.storage.used_bytes == 0


def test_a_refused_soft_deletion_does_not_shorten_a_lifetime(delayed: DelayedRig) -> None:
    delayed.create(b"a", b"1", ttl_secs=2)
    delayed.fork(b"f", b"a")
    delayed.let_everything_arrive()
    delayed.scheduler.advance(1500)
    delayed.open(b"a")
    delayed.delete(b"a")
    delayed.let_group_arrive(FULL)
    delayed.scheduler.advance(1000)
    assert delayed.content(b"a") == b"1"


def test_an_answer_that_is_asked_for_late_is_never_that_of_another_change(delayed: DelayedRig) -> None:
    """What was refused stays refused, also when later changes are stored."""
    told: list[Unavailable | None] = []
    delayed.create(b"a")
    refused = delayed.engine.last_change
    delayed.let_group_arrive(FULL)
    delayed.create(b"b")
    delayed.let_everything_arrive()
    delayed.engine.when_durable(refused, told.append)
    assert [type(answer) for answer in told] == [Unavailable]


def test_an_expiry_that_was_refused_is_tried_again_after_a_while(delayed: DelayedRig) -> None:
    delayed.create(b"a", b"1", ttl_secs=1)
    delayed.let_everything_arrive()
    delayed.scheduler.advance(1000)
    delayed.let_group_arrive(FULL)
    delayed.scheduler.advance(1000)
    assert delayed.engine.last_change == delayed.engine.durable_change
    delayed.scheduler.advance(60_000)
    delayed.let_everything_arrive()
    assert delayed.storage.used_bytes == 0


def test_refusals_leave_nothing_behind_in_the_sweep(delayed: DelayedRig) -> None:
    """A disk that is full for hours refuses a great deal."""
    delayed.create(b"a", ttl_secs=24 * 3600)
    delayed.let_everything_arrive()
    for _ in range(100):
        delayed.append(b"a", b"x")
        delayed.let_group_arrive(FULL)
    assert delayed.engine.inspect().expiring.entries <= 2


def test_refusals_that_put_off_an_expiry_leave_little_behind_in_the_sweep(delayed: DelayedRig) -> None:
    delayed.create(b"a", ttl_secs=1)
    delayed.let_everything_arrive()
    for _ in range(2 * SLICE):
        delayed.append(b"a", b"x")
        delayed.let_group_arrive(FULL)
        delayed.clock.micros += 1000
    assert delayed.engine.inspect().expiring.entries <= SLICE + 2
