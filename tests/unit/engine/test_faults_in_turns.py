"""A turn that fails, of what is periodic or was put off, ends neither the loop nor the work behind it."""

import asyncio
from collections.abc import Callable

import pytest

from everbrook.engine.faults import Callback, Faults
from everbrook.protocol.errors import Unavailable
from tests.kit.fakes import FakeClock, FakeScheduler
from tests.unit.engine.faulty import fail, poisoned
from tests.unit.engine.rig import DelayedRig, Rig

Log = pytest.LogCaptureFixture


class Once:
    """Raises in the next callback of a kind, before it does its work."""

    def __init__(self, faults: Faults, kind: Callback) -> None:
        self.raised = False
        self._kind = kind
        faults.intercept = self

    def __call__(self, kind: Callback, callback: Callable[..., object], args: tuple[object, ...]) -> None:
        if kind is self._kind and not self.raised:
            self.raised = True
            fail()
        callback(*args)


def test_what_is_periodic_goes_on_with_its_next_period(faults: Log) -> None:
    clock = FakeClock()
    scheduler = FakeScheduler(clock)
    noted, came = Faults(clock, scheduler), list[float]()

    def come() -> None:
        came.append(clock.elapsed())
        fail()

    timer = noted.every(Callback.METRICS, 1.0, come)
    scheduler.advance(3_000)
    timer.cancel()
    scheduler.advance(3_000)
    assert (len(came), noted.counts[Callback.METRICS]) == (3, 3)


def test_what_is_periodic_may_end_itself() -> None:
    clock = FakeClock()
    scheduler = FakeScheduler(clock)
    noted, came = Faults(clock, scheduler), list[str]()

    def come() -> None:
        came.append("came")
        timer.cancel()

    timer = noted.every(Callback.METRICS, lambda: 1.0, come)
    scheduler.advance(3_000)
    assert came == ["came"]


def test_what_depends_on_a_callback_is_put_right_and_may_fail_too(faults: Log) -> None:
    clock = FakeClock()
    scheduler = FakeScheduler(clock)
    noted, told = Faults(clock, scheduler), list[str]()
    noted.soon(Callback.LIVE, fail, failed=lambda: told.append("put right"))
    noted.soon(Callback.LIVE, fail, failed=fail)
    scheduler.settle()
    assert (told, noted.counts[Callback.LIVE]) == (["put right"], 3)


def test_a_task_that_fails_is_counted(faults: Log) -> None:
    clock = FakeClock()
    noted, told = Faults(clock, FakeScheduler(clock)), list[str]()

    async def work() -> None:
        fail()

    asyncio.run(noted.attempt(Callback.DELIVERY, work, lambda: told.append("told")))
    assert (told, noted.counts[Callback.DELIVERY]) == (["told"], 1)


def test_streams_expire_after_a_slice_that_failed(rig: Rig, faults: Log) -> None:
    rig.create(b"a", ttl_secs=1)
    once = Once(rig.engine.faults, Callback.TIMER)
    rig.scheduler.advance(1_000)
    assert once.raised
    assert rig.storage.used_bytes > 0
    rig.scheduler.advance(2_000)
    assert rig.storage.used_bytes == 0


def test_readers_are_told_when_what_has_come_can_not_be_delivered(rig: Rig, faults: Log) -> None:
    rig.create(b"a")
    reader = rig.follow(b"a")
    Once(rig.engine.faults, Callback.READER)
    rig.append(b"a", b"1")
    rig.scheduler.settle()
    assert [error.status for error in reader.errors] == [500]
    again = rig.follow(b"a")
    rig.append(b"a", b"2")
    rig.scheduler.settle()
    assert again.received == b"2"


def test_a_step_of_the_committer_that_fails_poisons_the_store(delayed: DelayedRig, faults: Log) -> None:
    """Nothing would become durable any more, and nobody would know."""
    delayed.create(b"a")
    told = delayed.answers()
    Once(delayed.engine.faults, Callback.COMMIT)
    delayed.scheduler.settle()
    assert [type(each) for each in told] == [Unavailable]
    assert delayed.engine.failure is not None


def test_who_ends_the_process_is_told_of_a_failure_again_if_that_fails(delayed: DelayedRig, faults: Log) -> None:
    failures = poisoned(delayed)
    delayed.create(b"a")
    Once(delayed.engine.faults, Callback.FAILURE)
    delayed.let_group_arrive(OSError("gone"))
    delayed.scheduler.settle()
    assert failures == [delayed.engine.failure]
