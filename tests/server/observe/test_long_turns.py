"""Long turns of the event loop are logged with their cause, and counted."""

from functools import partial
from time import thread_time

import pytest

from everbrook.engine import Callback, Faults
from everbrook.protocol import Head
from everbrook.server.asgi import AsgiApplication
from everbrook.server.observe.counters import BACKGROUND, Counters
from everbrook.server.observe.event_loop import LONG_SECS, LongTurns, TimedScheduler
from everbrook.storage import MemoryStorage
from tests.kit.asgi_mount import Mounted
from tests.kit.fakes import FakeClock, FakeScheduler
from tests.kit.server_thread import configured
from tests.kit.servers import Connect, Start
from tests.server.observe.scrape import value


def work(secs: float = 2 * LONG_SECS) -> None:
    """Use a processor."""
    until = thread_time() + secs
    while thread_time() < until:
        pass


class WorkingStorage(MemoryStorage):
    """A storage whose scans are much work."""

    busy = False

    def scan(self, prefix: bytes, after: bytes, limit: int) -> list[tuple[bytes, Head | None]]:
        if self.busy:
            work()
        return super().scan(prefix, after, limit)


def causes(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the log says that long turns were for."""
    return [message.rpartition(" ms: ")[2] for message in caplog.messages if message.startswith("a turn of")]


def counted(counters: Counters) -> dict[str, int]:
    return {label: count for label, count in counters.of("long_turns").items() if count}


def test_a_request_that_takes_a_long_turn_is_logged_and_counted(
    start: Start, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    storage = WorkingStorage()
    wire = connect(start(storage=storage))
    storage.busy = True
    assert wire.get("/v1/stream/__ds/streams").status == 200
    storage.busy = False
    assert value(wire, "everbrook_long_turns_total", operation="listing") == 1
    assert value(wire, "everbrook_long_turns_total", operation="read") == 0
    assert causes(caplog) == ["listing"]


def test_a_request_that_takes_a_long_turn_under_another_server_is_too(caplog: pytest.LogCaptureFixture) -> None:
    storage = WorkingStorage()
    streams = AsgiApplication(configured(), lambda _: storage)
    with Mounted(streams, streams) as server, server.connect() as wire:
        assert wire.get("/healthz").status == 200
        storage.busy = True
        assert wire.get("/v1/stream/__ds/streams").status == 200
        storage.busy = False
        assert value(wire, "everbrook_long_turns_total", operation="listing") == 1
    assert causes(caplog) == ["listing"]


def test_a_callback_that_takes_long_is_named(caplog: pytest.LogCaptureFixture) -> None:
    loop, counters = FakeScheduler(FakeClock()), Counters()
    turns = LongTurns(counters)
    scheduler = TimedScheduler(loop, turns)
    scheduler.call_soon(work)
    loop.run_soon()
    turns.worked = lambda: 0.0
    scheduler.call_soon(work)
    loop.run_soon()
    assert counted(counters) == {BACKGROUND: 1}
    assert [message.endswith("ms: work") for message in caplog.messages if message.startswith("a turn of")] == [True]


def test_what_a_guard_calls_is_named_and_not_the_guard(caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    loop = FakeScheduler(clock)
    faults = Faults(clock, TimedScheduler(loop, LongTurns(Counters())))
    faults.soon(Callback.TIMER, work, failed=bool)
    faults.later(Callback.TIMER, 1, partial(work, 2 * LONG_SECS))
    faults.every(Callback.TIMER, 1, work)
    loop.run_soon()
    clock.micros += 1_000_000
    loop.run_timers()
    assert causes(caplog) == ["work"] * 3


def test_timers_and_calls_from_threads_are_timed_too() -> None:
    clock, counters = FakeClock(), Counters()
    loop = FakeScheduler(clock)
    scheduler = TimedScheduler(loop, LongTurns(counters))
    scheduler.call_later(1, work)
    scheduler.call_later(1, work).cancel()
    scheduler.call_soon_threadsafe(work)
    clock.micros += 1_000_000
    loop.run_timers()
    loop.run_from_threads()
    assert counted(counters) == {BACKGROUND: 2}


def test_what_only_waited_was_no_long_turn() -> None:
    counters = Counters()
    turns = LongTurns(counters)
    turns.answered("read", 10.0)
    turns.worked = lambda: LONG_SECS / 2
    turns.answered("append", 10.0)
    turns.called(10.0, work)
    assert counted(counters) == {}


def test_answers_that_waited_for_a_long_turn_are_not_counted_beside_it() -> None:
    counters = Counters()
    turns = LongTurns(counters)
    turns.worked = lambda: 1.0
    turns.answered("listing", 1.0)
    turns.answered("append", 1.1)
    turns.called(1.2, work)
    assert counted(counters) == {"listing": 1}
