"""Time that a test moves by hand, a storage that a test lets finish by hand, and readers that write down what they get.

Nothing here waits for real time: a test decides what happens next, so every failure replays.
"""

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from queue import Empty, Queue
from typing import ParamSpec, TypeVar

from everbrook.engine import Batch, Clock, Stream
from everbrook.protocol import Change, Edit, Head, Write
from everbrook.protocol.errors import ProtocolError
from everbrook.storage import MemoryStorage

START_MS = 1_800_000_000_000
HANDOVER_SECS = 5.0
BUSY = 20_000

Given = ParamSpec("Given")
Result = TypeVar("Result")


class FakeClock(Clock):
    """A clock that stands still until it is moved. What it shows can be set, `micros` only grows, as a loop's time."""

    def __init__(self) -> None:
        self.micros = START_MS * 1000
        self.set_back_ms = 0
        self.drawn = 0.0

    def now(self) -> int:
        return self.micros // 1000 - self.set_back_ms

    def elapsed(self) -> float:
        return self.micros / 1_000_000

    def chance(self) -> float:
        return self.drawn


@dataclass(order=True)
class FakeTimer:
    """A callback and when it is due."""

    due: int
    number: int
    call: Callable[[], object] = field(compare=False)
    cancelled: bool = field(default=False, compare=False)

    def cancel(self) -> None:
        self.cancelled = True


class FakeScheduler:
    """An event loop whose turns are taken by hand, and whose time is the clock's."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._timers: list[FakeTimer] = []
        self._soon: deque[FakeTimer] = deque()
        self._from_threads: Queue[FakeTimer] = Queue()
        self._number = 0
        self.timers_ever_set = 0
        self._run_at_this_time = 0

    def _timer(self, delay_micros: int, callback: Callable[..., object], args: tuple[object, ...]) -> FakeTimer:
        self._number += 1
        return FakeTimer(self._clock.micros + delay_micros, self._number, lambda: callback(*args))

    def call_soon(self, callback: Callable[..., object], *args: object) -> FakeTimer:
        timer = self._timer(0, callback, args)
        self._soon.append(timer)
        return timer

    def call_later(self, delay: float, callback: Callable[..., object], *args: object) -> FakeTimer:
        timer = self._timer(max(0, round(delay * 1_000_000)), callback, args)
        heapq.heappush(self._timers, timer)
        self.timers_ever_set += 1
        return timer

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: object) -> FakeTimer:
        timer = FakeTimer(0, 0, lambda: callback(*args))
        self._from_threads.put(timer)
        return timer

    @property
    def timers(self) -> int:
        """How many timers are set."""
        return sum(not timer.cancelled for timer in self._timers)

    @property
    def next_due(self) -> int | None:
        """When the next timer is due."""
        while self._timers and self._timers[0].cancelled:
            heapq.heappop(self._timers)
        return self._timers[0].due if self._timers else None

    @property
    def has_from_threads(self) -> bool:
        """Whether callbacks from other threads wait."""
        return not self._from_threads.empty()

    def take_from_thread(self) -> None:
        """Wait for a callback from another thread, and run it."""
        self._from_threads.get(timeout=HANDOVER_SECS).call()

    def run_from_threads(self) -> int:
        """Run what has come from other threads until now. Tells how much that was."""
        run = 0
        while True:
            try:
                timer = self._from_threads.get_nowait()
            except Empty:
                return run
            timer.call()
            run += 1

    def run_soon(self) -> int:
        """Run what was to run soon; what that asks for belongs to the next turn. Tells how much was run."""
        ready, self._soon = self._soon, deque()
        return self._run(ready)

    def run_timers(self) -> int:
        """Run the timers that are due. Tells how many were."""
        ready = deque[FakeTimer]()
        while self._timers and self._timers[0].due <= self._clock.micros:
            ready.append(heapq.heappop(self._timers))
        return self._run(ready)

    def _run(self, ready: deque[FakeTimer]) -> int:
        for timer in ready:
            if not timer.cancelled:
                timer.call()
        self._run_at_this_time += len(ready)
        assert self._run_at_this_time < BUSY, "the loop is kept busy: callbacks set themselves up again without end"
        return len(ready)

    def settle(self) -> None:
        """Take turns until nothing is due."""
        self._run_at_this_time = 0
        while self.run_soon() + self.run_timers():
            pass

    def advance(self, millis: int) -> None:
        """Let time pass, with everything happening when it is due."""
        end = self._clock.micros + millis * 1000
        self.settle()
        while self._timers and self._timers[0].due <= end:
            self._clock.micros = max(self._clock.micros, self._timers[0].due)
            self.settle()
        self._clock.micros = end


class HandWorker(Executor):
    """A thread whose work is done when the test says so, in the test's own."""

    def __init__(self) -> None:
        self._steps: deque[Callable[[], object]] = deque()
        self._stopped = False

    def submit(self, fn: Callable[Given, Result], /, *args: Given.args, **kwargs: Given.kwargs) -> "Future[Result]":
        if self._stopped:
            raise RuntimeError("the worker takes no more")
        self._steps.append(lambda: fn(*args, **kwargs))
        return Future()

    def run(self, at_most: int = BUSY) -> int:
        """Do what there is to do. Tells how much that was."""
        run = 0
        while self._steps and run < at_most:
            self._steps.popleft()()
            run += 1
        return run

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002
        if cancel_futures:
            self._steps.clear()
        if wait:
            self.run()
        self._stopped = True


class LastingStorage(MemoryStorage):
    """A storage that is done at once, and that outlives its engine."""

    def close(self) -> None:
        """Keep everything."""


class DelayedStorage(LastingStorage):
    """A storage that takes its time, without a thread: a group arrives, or fails, when the test says so.

    The committer's executor is a `HandWorker` then: a group is on its way until that runs.
    """

    blocking = True

    def __init__(self) -> None:
        super().__init__()
        self.groups: list[Sequence[Change]] = []
        self.verdict: BaseException | None = None

    def persist(self, group: Sequence[Change]) -> None:
        self.groups.append(group)
        if self.verdict:
            raise self.verdict


class Bystander:
    """Follows nothing."""

    def arrived(self, stream: Stream) -> None: ...

    def left(self, stream: Stream) -> None: ...

    def appended(self, stream: Stream, writes: Sequence[Write]) -> None: ...

    def became_durable(self, stream: Stream, edit: Edit, before: Head) -> None: ...


class RecordingReader:
    """Follows a stream from its tail on and writes down what it gets."""

    def __init__(self, *, once: Callable[["RecordingReader"], None] | None = None) -> None:
        """Call `once` within the first delivery."""
        self.batches: list[Batch] = []
        self.errors: list[ProtocolError] = []
        self.lagged = 0
        self._once = once

    @property
    def received(self) -> bytes:
        return b"".join(batch.stored for batch in self.batches)

    def deliver(self, batch: Batch) -> None:
        self.batches.append(batch)
        if self._once:
            call, self._once = self._once, None
            call(self)

    def lag(self) -> None:
        self.lagged += 1

    def fail(self, error: ProtocolError) -> None:
        self.errors.append(error)
