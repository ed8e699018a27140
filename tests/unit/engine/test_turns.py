"""Turns: long work leaves the loop to others, however much of it there is."""

from collections.abc import Callable
from functools import partial

import pytest

from everbrook.engine.faults import Callback, Faults
from everbrook.engine.turns import REST_SECS, WORK_SECS, Turns
from tests.kit.fakes import FakeClock, FakeScheduler

HOSTILE = b"/ds/hostile/a"


class Loop:
    """Turns of a loop that are taken by hand. `group` is called when the pending changes, if any, are durable."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.scheduler = FakeScheduler(self.clock)
        self.faults = Faults(self.clock, self.scheduler)
        self.pending = False
        self.waiting_for_group: list[Callable[[], None]] = []
        self.turns = Turns(self.faults, self.clock)
        self.turns.when_group_ends = self.when_group_ends
        self.done: list[bytes] = []

    def when_group_ends(self, call: Callable[[], None]) -> bool:
        if self.pending:
            self.waiting_for_group.append(call)
        return self.pending

    def end_group(self) -> None:
        calls, self.waiting_for_group = self.waiting_for_group, []
        for call in calls:
            call()

    def work(self, name: bytes, slices: int, *, secs: float = 0.0) -> None:
        """Do work that takes some slices."""
        self.done.append(name)
        self.clock.micros += round(secs * 1_000_000)
        if slices > 1:
            self.turns.wait(name, partial(self.work, name, slices - 1, secs=secs), bool)

    def wait(self, name: bytes, slices: int = 1, *, secs: float = 0.0) -> None:
        self.turns.wait(name, partial(self.work, name, slices, secs=secs), bool)

    def turns_until_idle(self) -> list[int]:
        """Take turns until nothing is left to do. Gives how many slices were done after each of them."""
        counts = []
        while self.scheduler.run_soon():
            counts.append(len(self.done))
        return counts


@pytest.fixture
def loop() -> Loop:
    return Loop()


def test_a_turn_of_the_loop_has_one_slice(loop: Loop) -> None:
    for number in range(5):
        loop.wait(b"/v1/stream/%d" % number, 2)
    assert loop.turns_until_idle() == list(range(1, 11))


def test_buckets_take_turns(loop: Loop) -> None:
    for name in (b"/ds/greedy/a", b"/ds/greedy/b", b"/ds/greedy/c", b"/ds/modest/d"):
        loop.wait(name, 2)
    loop.scheduler.settle()
    assert [place for place, name in enumerate(loop.done) if name == b"/ds/modest/d"] == [1, 3]


def test_the_work_of_the_server_takes_turns_with_that_of_a_bucket(loop: Loop) -> None:
    loop.wait(HOSTILE, 4)
    for _ in range(2):
        loop.turns.wait_as_server(Callback.TIMER, partial(loop.work, b"expiry", 1), bool)
    loop.scheduler.settle()
    assert loop.done == [HOSTILE, b"expiry", HOSTILE, b"expiry", HOSTILE, HOSTILE]


def test_slices_rest_until_the_pending_changes_are_durable(loop: Loop) -> None:
    loop.pending = True
    loop.wait(HOSTILE, 5, secs=0.6 * WORK_SECS)
    assert loop.turns_until_idle() == [1, 2, 2]
    loop.end_group()
    assert loop.turns_until_idle() == [3, 4, 4]


def test_slices_rest_only_for_a_while(loop: Loop) -> None:
    loop.pending = True
    loop.wait(HOSTILE, 3, secs=1.1 * WORK_SECS)
    loop.turns_until_idle()
    for slices in (2, 3):
        loop.clock.micros += round(REST_SECS * 1_000_000)
        loop.scheduler.run_timers()
        loop.turns_until_idle()
        assert len(loop.done) == slices
    assert len(loop.waiting_for_group) == 1


def test_a_rest_ends_once(loop: Loop) -> None:
    loop.pending = True
    loop.wait(HOSTILE, 5, secs=1.1 * WORK_SECS)
    loop.turns_until_idle()
    loop.end_group()
    loop.clock.micros += round(REST_SECS * 1_000_000)
    loop.scheduler.run_timers()
    assert loop.turns_until_idle() == [2, 2]


def test_slices_do_not_rest_while_no_changes_are_pending(loop: Loop) -> None:
    loop.wait(HOSTILE, 5, secs=1.1 * WORK_SECS)
    assert loop.turns_until_idle() == [1, 2, 3, 4, 5]


def test_work_that_is_long_past_needs_no_rest(loop: Loop) -> None:
    loop.wait(HOSTILE, secs=1.1 * WORK_SECS)
    loop.turns_until_idle()
    loop.pending = True
    loop.clock.micros += round(2 * REST_SECS * 1_000_000)
    loop.wait(HOSTILE)
    assert loop.turns_until_idle() == [2]


@pytest.mark.usefixtures("faults")
def test_one_that_fails_stops_no_other(loop: Loop) -> None:
    failed = list[str]()
    loop.turns.wait(b"/ds/first/a", lambda: 1 // 0, lambda: failed.append("first"))
    loop.wait(b"/ds/other/a")
    loop.scheduler.settle()
    assert failed == ["first"]
    assert loop.done == [b"/ds/other/a"]


@pytest.mark.usefixtures("faults")
def test_an_exception_before_a_slice_leaves_it_for_the_next_turn(loop: Loop) -> None:
    def raise_once(_kind: Callback, _callback: object, _arguments: object) -> None:
        loop.faults.intercept = None
        raise RuntimeError("injected")

    loop.faults.intercept = raise_once
    loop.wait(b"/ds/first/a")
    loop.scheduler.settle()
    assert loop.done == [b"/ds/first/a"]


@pytest.mark.usefixtures("faults")
def test_an_exception_at_the_end_of_a_rest_ends_it(loop: Loop) -> None:
    def raise_once(_kind: Callback, _callback: object, _arguments: object) -> None:
        loop.faults.intercept = None
        raise RuntimeError("injected")

    loop.pending = True
    loop.wait(HOSTILE, 2, secs=1.1 * WORK_SECS)
    loop.turns_until_idle()
    loop.clock.micros += round(REST_SECS * 1_000_000)
    loop.faults.intercept = raise_once
    loop.scheduler.run_timers()
    assert loop.turns_until_idle() == [2]
