"""Reclaiming: bytes that nobody retains any more give their space back, and none that somebody still needs."""

from everbrook.engine import EngineTuning
from everbrook.engine.tuning import StreamsTuning
from everbrook.storage import BLOCK_BYTES
from tests.unit.engine.rig import DelayedRig, Rig, evict

LARGE = b"x" * BLOCK_BYTES


def hold(rig: Rig, name: bytes = b"a") -> None:
    """Create a stream of two messages that are large enough to be given back one by one."""
    rig.create(name, LARGE)
    rig.append(name, LARGE)


def stored_bytes(rig: Rig) -> int:
    """Count what is stored of streams, in large messages, when readers have got theirs."""
    rig.scheduler.settle()
    return rig.storage.used_bytes // BLOCK_BYTES


# Bytes


def test_what_was_cut_goes(rig: Rig) -> None:
    hold(rig)
    rig.publish(b"a", BLOCK_BYTES)
    assert stored_bytes(rig) == 1
    rig.publish(b"a", 2 * BLOCK_BYTES)
    assert stored_bytes(rig) == 0


def test_what_was_kept_goes_when_it_is_let_go_of(rig: Rig) -> None:
    hold(rig)
    rig.publish(b"a", 2 * BLOCK_BYTES, keep_history=True)
    assert stored_bytes(rig) == 2
    rig.retain(b"a", BLOCK_BYTES)
    assert stored_bytes(rig) == 1


def test_a_cut_frees_nothing_before_it_is_durable(delayed: DelayedRig) -> None:
    hold(delayed)
    delayed.let_everything_arrive()
    delayed.publish(b"a", BLOCK_BYTES)
    assert stored_bytes(delayed) == 2
    delayed.let_everything_arrive()
    assert stored_bytes(delayed) == 1


def test_what_a_fork_inherited_stays_until_the_fork_goes(rig: Rig) -> None:
    """§4.2: whatever its source cuts."""
    hold(rig)
    rig.fork(b"f", b"a")
    rig.publish(b"a", 2 * BLOCK_BYTES)
    assert stored_bytes(rig) == 2
    assert rig.content(b"f") == 2 * LARGE
    rig.delete(b"f")
    assert stored_bytes(rig) == 0


def test_what_several_forks_inherited_goes_with_the_last_that_needs_it(rig: Rig) -> None:
    hold(rig)
    rig.fork(b"f", b"a")
    rig.publish(b"a", BLOCK_BYTES)
    rig.fork(b"g", b"a")
    rig.publish(b"a", 2 * BLOCK_BYTES)
    rig.delete(b"f")
    assert stored_bytes(rig) == 1
    assert rig.content(b"g") == LARGE
    rig.delete(b"g")
    assert stored_bytes(rig) == 0


def test_a_fork_that_cuts_what_it_inherited_leaves_it_to_its_source(rig: Rig) -> None:
    hold(rig)
    rig.fork(b"f", b"a")
    rig.publish(b"f", 2 * BLOCK_BYTES)
    assert rig.content(b"a") == 2 * LARGE
    assert rig.content(b"f") == b""


def test_a_fork_of_a_cut_fork_reads_on(rig: Rig) -> None:
    hold(rig)
    rig.fork(b"f", b"a", body=LARGE)
    rig.publish(b"f", BLOCK_BYTES)
    rig.fork(b"g", b"f")
    rig.publish(b"f", 3 * BLOCK_BYTES)
    rig.publish(b"a", 2 * BLOCK_BYTES)
    rig.delete(b"f")
    rig.delete(b"a")
    assert rig.content(b"g") == 2 * LARGE


# Holding


def test_nothing_of_a_stream_goes_while_it_is_held(rig: Rig) -> None:
    hold(rig)
    stream = rig.open(b"a")
    rig.engine.reclaimer.hold(stream)
    rig.engine.reclaimer.hold(stream)
    rig.publish(b"a", 2 * BLOCK_BYTES)
    rig.engine.reclaimer.release(stream)
    assert stored_bytes(rig) == 2
    assert stream.lineage.read(0, 2 * BLOCK_BYTES) == 2 * LARGE
    rig.engine.reclaimer.release(stream)
    assert stored_bytes(rig) == 0


def test_the_end_of_a_fork_frees_nothing_of_a_source_that_is_held(rig: Rig) -> None:
    hold(rig)
    rig.fork(b"f", b"a")
    stream = rig.open(b"a")
    rig.engine.reclaimer.hold(stream)
    rig.publish(b"a", 2 * BLOCK_BYTES)
    rig.delete(b"f")
    assert stored_bytes(rig) == 2
    assert stream.lineage.read(0, 2 * BLOCK_BYTES) == 2 * LARGE
    rig.engine.reclaimer.release(stream)
    assert stored_bytes(rig) == 0


def test_holding_one_stream_holds_no_other(rig: Rig) -> None:
    hold(rig)
    hold(rig, b"b")
    rig.engine.reclaimer.hold(rig.open(b"a"))
    rig.publish(b"b", 2 * BLOCK_BYTES)
    assert stored_bytes(rig) == 2


def test_a_stream_that_was_deleted_while_it_was_held_is_let_go_of(rig: Rig) -> None:
    hold(rig)
    stream = rig.open(b"a")
    rig.engine.reclaimer.hold(stream)
    rig.delete(b"a")
    rig.engine.reclaimer.release(stream)
    assert rig.storage.used_bytes == 0


def test_what_a_crash_left_of_a_cut_goes_when_the_stream_is_loaded(rig: Rig) -> None:
    hold(rig)
    rig.engine.reclaimer.hold(rig.open(b"a"))
    rig.publish(b"a", 2 * BLOCK_BYTES)
    rig.restart()
    assert stored_bytes(rig) == 2
    rig.open(b"a")
    assert stored_bytes(rig) == 0


def test_a_stream_that_is_held_may_leave_memory_and_is_held_still() -> None:
    rig = DelayedRig(tuning=EngineTuning(streams=StreamsTuning(max_resident=0, eviction_slice=9)))
    hold(rig)
    rig.let_everything_arrive()
    stream = rig.open(b"a")
    rig.engine.reclaimer.hold(stream)
    evict(rig.engine)
    assert (stream.resident, rig.engine.inspect().held_streams) == (False, 1)
    rig.publish(b"a", 2 * BLOCK_BYTES)
    rig.let_everything_arrive()
    assert stored_bytes(rig) == 2
    assert stream.lineage.read(0, 2 * BLOCK_BYTES) == 2 * LARGE
    rig.engine.reclaimer.release(stream)
    assert stored_bytes(rig) == 0
    rig.engine.close()
