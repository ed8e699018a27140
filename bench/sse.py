"""The fan-out: many SSE readers of one stream, one writer at a steady rate.

Writer and readers live in one process and read one clock, so a latency is the time from sending a message to its
receipt by a reader. The writer is an open loop: it sends on time whether or not earlier appends were answered, so a
server that falls behind shows it as latency.
"""

import asyncio
from dataclasses import dataclass
from time import perf_counter_ns

from bench.channel import Channel, Expectation, LoadConnection, LoadRun, connect, disconnect
from bench.load import Bounds, Load, Target
from bench.meter import Meter
from bench.requests import format_request
from bench.streams import StreamPlan

_MARK = b"#"
_NUMBER_DIGITS = 8
_MESSAGE_BYTES = 100
_STATUS_LINE = b"HTTP/1.1 200 "
_NO_CONTENT = 204


@dataclass(frozen=True, kw_only=True)
class FanOut:
    """`readers` SSE readers of one stream that grows by `rate` messages a second. An operation is a delivery."""

    name: str
    title: str
    readers: int
    rate: int
    max_operations: int = 1_000_000
    streams: tuple[StreamPlan, ...] = (StreamPlan("text/plain"),)
    drain_secs: float = 15.0
    stretch: float = 2.0  # a server that falls behind needs some seconds to show it

    async def load(self, target: Target, bounds: Bounds, meter: Meter) -> Load:
        """Connect the readers, then send on time and wait until everything has arrived everywhere."""
        messages = min(int(bounds.seconds * self.stretch * self.rate), bounds.operations // self.readers)
        run = _FanOutRun(self.readers, max(1, messages))
        writer = _Writer(run, target.paths[0], self.rate)
        readers = [_Reader(run, number) for number in range(self.readers)]
        try:
            await _open_readers(target, run, readers, bounds.stall_secs)
            await connect(target.port, [writer])
            with meter:
                writer.send_due()
                await _wait_for_deliveries(run, len(run.due) / self.rate + self.drain_secs)
        finally:
            writer.stop()
            disconnect([writer, *readers])
        return run.load


async def _open_readers(target: Target, run: "_FanOutRun", readers: list["_Reader"], stall_secs: float) -> None:
    await connect(target.port, readers)
    subscribe = format_request("GET", f"{target.paths[0]}?offset=now&live=sse")
    for reader in readers:
        reader.transport.write(subscribe)
    async with asyncio.timeout(stall_secs):
        await asyncio.wait([run.ready, run.outcome], return_when=asyncio.FIRST_COMPLETED)
    if run.outcome.done():
        run.outcome.result()


async def _wait_for_deliveries(run: "_FanOutRun", seconds: float) -> None:
    """A server may be too slow to deliver everything in time: that is a result, not a failure."""
    await asyncio.wait([run.outcome], timeout=seconds)
    if run.outcome.done():
        run.outcome.result()
    run.load.missing = run.undelivered
    run.finish()


class _FanOutRun(LoadRun):
    def __init__(self, readers: int, messages: int) -> None:
        super().__init__()
        self.load = Load()
        self.due = range(messages)
        self.sent_ns: list[int] = []
        self.undelivered = readers * messages
        self.unacknowledged = messages
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._joining = readers

    def settle(self) -> None:
        """Finish once everything has arrived everywhere and every append was acknowledged."""
        if self.undelivered == 0 and self.unacknowledged == 0:
            self.finish()

    def joined(self) -> None:
        """One more reader is caught up and waits."""
        self._joining -= 1
        if self._joining == 0:
            self.ready.set_result(None)


class _Writer(Channel):
    run: _FanOutRun

    def __init__(self, run: _FanOutRun, path: str, rate: int) -> None:
        super().__init__(run, Expectation(_NO_CONTENT))
        self._path = path
        self._interval_secs = 1 / rate
        self._timer: asyncio.TimerHandle | None = None

    def send_due(self) -> None:
        """Send the next message and come back when the one after it is due, counted from the start."""
        loop = asyncio.get_running_loop()
        number = len(self.run.sent_ns)
        if number == 0:
            self._start_secs = loop.time()
        body = format_message(number)
        request = format_request("POST", self._path, body, "text/plain")
        self.run.sent_ns.append(perf_counter_ns())
        self.send(request)
        if number + 1 < len(self.run.due):
            due_secs = self._start_secs + (number + 1) * self._interval_secs
            self._timer = loop.call_at(due_secs, self.send_due)

    def answered(self, answer: bytes) -> None:  # noqa: ARG002 - it was checked; its content does not matter here
        self.run.unacknowledged -= 1
        self.run.settle()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def format_message(number: int) -> bytes:
    """A message that a reader finds without parsing events: a mark, then its number, then padding."""
    return (b"%s%0*d" % (_MARK, _NUMBER_DIGITS, number)).ljust(_MESSAGE_BYTES, b".")


class _Reader(LoadConnection):
    """Every reader has to get every message once and in order, whatever events and chunks they come in."""

    run: _FanOutRun

    def __init__(self, run: _FanOutRun, number: int) -> None:
        super().__init__(run)
        self._number = number
        self._live = False
        self._partial = b""
        self._next = 0
        self._latencies_ns = run.load.latencies_ns

    def data_received(self, data: bytes) -> None:
        now_ns = perf_counter_ns()
        if self._partial:
            data, self._partial = self._partial + data, b""
        if self._live:
            self._take_messages(data, now_ns)
        else:
            self._join(data)

    def _join(self, data: bytes) -> None:
        """A reader waits at the tail once the first control event is there."""
        head, separator, events = data.partition(b"\r\n\r\n")
        if separator and not (head.startswith(_STATUS_LINE) and b"text/event-stream" in head):
            self.run.fail(f"expected an event stream, got {data[:400]!r}")
        elif b"event: control" in events and b"\n\n" in events:
            self._live = True
            self.run.joined()
        else:
            self._partial = data

    def _take_messages(self, data: bytes, now_ns: int) -> None:
        run = self.run
        at = data.find(_MARK)
        while at >= 0:
            digits = data[at + 1 : at + 1 + _NUMBER_DIGITS]
            if len(digits) < _NUMBER_DIGITS:
                self._partial = data[at:]
                return
            if digits != b"%0*d" % (_NUMBER_DIGITS, self._next):
                run.fail(f"reader {self._number} expected message {self._next}, got {digits!r}")
                return
            self._latencies_ns.append(now_ns - run.sent_ns[self._next])
            self._next += 1
            run.undelivered -= 1
            at = data.find(_MARK, at + 1)
        if run.undelivered == 0:
            run.settle()
