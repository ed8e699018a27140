"""Turns: long work leaves the loop to others, however much of it there is."""

from functools import partial

import pytest

from everbrook.engine.faults import Callback, Faults
from everbrook.engine.turns import FREE_TURNS, Turns
from tests.kit.fakes import FakeClock, FakeScheduler


@pytest.fixture
def scheduler() -> FakeScheduler:
    return FakeScheduler(FakeClock())


@pytest.fixture
def faults(scheduler: FakeScheduler) -> Faults:
    return Faults(FakeClock(), scheduler)


def work(turns: Turns, name: bytes, done: list[bytes], slices: int) -> None:
    """Do work that takes some slices."""
    done.append(name)
    if slices > 1:
        turns.wait(name, partial(work, turns, name, done, slices - 1), bool)


def test_a_turn_of_the_loop_has_one_slice(scheduler: FakeScheduler, faults: Faults) -> None:
    turns, done = Turns(faults), list[bytes]()
    for number in range(5):
        turns.wait(b"/v1/stream/%d" % number, partial(work, turns, b"/v1/stream/%d" % number, done, 2), bool)
    counts = []
    while scheduler.run_soon():
        counts.append(len(done))
    assert counts == list(range(1, 11))


def test_after_a_long_slice_some_turns_have_none(scheduler: FakeScheduler, faults: Faults) -> None:
    turns, done = Turns(faults), list[bytes]()

    def work_long(slices: int) -> None:
        turns.slice_was_long()
        work(turns, b"/ds/greedy/a", done, 1)
        if slices > 1:
            turns.wait(b"/ds/greedy/a", partial(work_long, slices - 1), bool)

    turns.wait(b"/ds/greedy/a", partial(work_long, 3), bool)
    counts = []
    while scheduler.run_soon():
        counts.append(len(done))
    assert counts == [1] * (1 + FREE_TURNS) + [2] * (1 + FREE_TURNS) + [3]


def test_buckets_take_turns(scheduler: FakeScheduler, faults: Faults) -> None:
    turns, done = Turns(faults), list[bytes]()
    for name in (b"/ds/greedy/a", b"/ds/greedy/b", b"/ds/greedy/c", b"/ds/modest/d"):
        turns.wait(name, partial(work, turns, name, done, 2), bool)
    scheduler.settle()
    assert [place for place, name in enumerate(done) if name == b"/ds/modest/d"] == [1, 3]


def test_one_that_fails_stops_no_other(scheduler: FakeScheduler, faults: Faults) -> None:
    turns, done, failed = Turns(faults), list[bytes](), list[str]()
    turns.wait(b"/ds/first/a", lambda: 1 // 0, lambda: failed.append("first"))
    turns.wait(b"/ds/other/a", partial(work, turns, b"/ds/other/a", done, 1), bool)
    scheduler.settle()
    assert failed == ["first"]
    assert done == [b"/ds/other/a"]


def test_an_exception_before_a_slice_leaves_it_for_the_next_turn(scheduler: FakeScheduler, faults: Faults) -> None:
    turns, done = Turns(faults), list[bytes]()

    def raise_once(_kind: Callback, _callback: object, _arguments: object) -> None:
        faults.intercept = None
        raise RuntimeError("injected")

    faults.intercept = raise_once
    turns.wait(b"/ds/first/a", partial(work, turns, b"/ds/first/a", done, 1), bool)
    scheduler.settle()
    assert done == [b"/ds/first/a"]
