"""A committer that makes no progress while changes wait is noticed, and noticed again when it goes on."""

import threading
from collections.abc import Callable

import pytest

from everbrook.engine.tuning import CommitTuning
from everbrook.engine.watchdogs import stack_of
from everbrook.storage import StorageFull
from tests.unit.engine.rig import DelayedRig

BOUND_MS = int(CommitTuning().stall_secs * 1000)


def settle(delayed: DelayedRig, millis: int) -> tuple[bool, float]:
    """Let time pass. Gives whether the committer counts as stalled, and for how long it was silent."""
    delayed.scheduler.advance(millis)
    return delayed.engine.inspect().stalled, delayed.engine.stalled_secs


def test_a_change_that_waits_for_too_long_is_a_stall(delayed: DelayedRig, faults: pytest.LogCaptureFixture) -> None:
    delayed.create(b"a")
    assert settle(delayed, BOUND_MS - 1) == (False, 0.0)
    assert faults.records == []
    assert settle(delayed, 1) == (True, 10.0)
    (record,) = faults.records
    assert (record.levelname, "for 10.0 s" in record.getMessage()) == ("ERROR", True)


def test_a_stall_is_told_once_and_so_is_its_end(delayed: DelayedRig, faults: pytest.LogCaptureFixture) -> None:
    delayed.create(b"a")
    settle(delayed, 5 * BOUND_MS)
    delayed.let_group_arrive()
    assert settle(delayed, 0) == (False, 0.0)
    settle(delayed, BOUND_MS)
    assert [record.levelname for record in faults.records] == ["ERROR", "WARNING"]


def test_every_stall_is_told(delayed: DelayedRig, faults: pytest.LogCaptureFixture) -> None:
    for name in (b"a", b"b"):
        delayed.create(name)
        settle(delayed, 2 * BOUND_MS)
        delayed.let_group_arrive()
        settle(delayed, BOUND_MS)
    assert [record.levelname for record in faults.records] == ["ERROR", "WARNING"] * 2


@pytest.mark.parametrize("verdict", [None, StorageFull("full")], ids=["durable", "refused"])
def test_a_slow_disk_that_makes_progress_is_no_stall(delayed: DelayedRig, verdict: Exception | None) -> None:
    """Each group takes long, and its changes have waited for the group before, too."""
    delayed.create(b"a")
    for number in range(4):
        delayed.scheduler.settle()
        delayed.create(b"%d" % number)
        assert settle(delayed, BOUND_MS - 1) == (False, 0.0)
        delayed.let_group_arrive(verdict)
        delayed.storage.verdict = None


def test_nothing_is_watched_while_nothing_waits(delayed: DelayedRig) -> None:
    idle = delayed.scheduler.timers
    delayed.create(b"a")
    delayed.scheduler.settle()
    assert delayed.scheduler.timers == idle + 1
    delayed.let_group_arrive()
    settle(delayed, BOUND_MS)
    assert delayed.scheduler.timers == idle


def test_a_store_that_has_failed_is_not_stalled(delayed: DelayedRig, faults: pytest.LogCaptureFixture) -> None:
    delayed.create(b"a")
    delayed.let_group_arrive(OSError("gone"))
    faults.clear()
    assert settle(delayed, 2 * BOUND_MS) == (False, 0.0)
    assert faults.records == []


def test_a_closed_engine_watches_nothing(delayed: DelayedRig) -> None:
    delayed.create(b"a")
    delayed.engine.close()
    assert delayed.scheduler.timers == 0


def test_many_groups_need_one_timer(delayed: DelayedRig) -> None:
    before = delayed.scheduler.timers_ever_set
    delayed.create(b"a")
    for _ in range(50):
        delayed.append(b"a", b"x")
        delayed.let_group_arrive()
    assert delayed.scheduler.timers_ever_set == before + 1


# Stacks


def wait_here(started: threading.Event, gate: threading.Event) -> None:
    started.set()
    gate.wait()


def in_a_thread(look: Callable[[int], str]) -> str:
    started, gate = threading.Event(), threading.Event()
    thread = threading.Thread(target=wait_here, args=(started, gate))
    thread.start()
    started.wait()
    assert thread.ident is not None
    try:
        return look(thread.ident)
    finally:
        gate.set()
        thread.join()


def test_the_stack_of_a_thread_says_where_it_is() -> None:
    stack = in_a_thread(stack_of)
    assert "in wait_here\n    gate.wait()" in stack
    assert "test_the_stack_of_a_thread" not in stack


def test_a_thread_that_has_ended_has_no_stack() -> None:
    assert stack_of(-1) == "thread -1 has ended"
