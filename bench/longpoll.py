"""The long-poll round trip: a reader waits at the tail, a writer appends, the reader gets the message."""

import asyncio
from dataclasses import dataclass
from time import perf_counter_ns

from bench.channel import Channel, Expectation, LoadFailed, LoadRun, connect, disconnect
from bench.load import Bounds, Load, Target
from bench.meter import Meter
from bench.requests import format_request
from bench.responses import header_value
from bench.streams import StreamPlan

_MESSAGE = b"m" * 100
_OK, _NO_CONTENT = 200, 204


@dataclass(frozen=True, kw_only=True)
class LongPoll:
    """Pairs of a reader and a writer, each pair on a stream of its own.

    The bound on operations keeps the streams short: the reference looks offsets up from the beginning of a stream,
    and a long stream would turn this into a measurement of that search alone.
    """

    name: str
    title: str
    pairs: int
    max_operations: int = 2_000

    @property
    def streams(self) -> tuple[StreamPlan, ...]:
        """One stream per pair."""
        return (StreamPlan("text/plain"),) * self.pairs

    async def load(self, target: Target, bounds: Bounds, meter: Meter) -> Load:
        """Let every pair go round until a bound is reached."""
        run = _LongPollRun(bounds, self.pairs)
        pairs = [_Pair(run, path, tail) for path, tail in zip(target.paths, target.tails, strict=True)]
        connections = [connection for pair in pairs for connection in (pair.reader, pair.writer)]
        try:
            await connect(target.port, connections)
            with meter:
                run.deadline_ns = perf_counter_ns() + int(bounds.seconds * 1e9)
                for pair in pairs:
                    pair.go_round()
                async with asyncio.timeout(bounds.seconds + bounds.stall_secs):
                    await run.outcome
        finally:
            disconnect(connections)
        return run.load


class _LongPollRun(LoadRun):
    def __init__(self, bounds: Bounds, pairs: int) -> None:
        super().__init__()
        self.load = Load()
        self.operations = bounds.operations
        self.deadline_ns = 0
        self._busy = pairs

    @property
    def open(self) -> bool:
        return perf_counter_ns() < self.deadline_ns and len(self.load.latencies_ns) < self.operations

    def retire(self) -> None:
        self._busy -= 1
        if self._busy == 0:
            self.finish()


class _Pair:
    """A round ends when the reader has the message and the writer its acknowledgement."""

    def __init__(self, run: _LongPollRun, path: str, tail: str) -> None:
        self.run = run
        self.reader = _Reader(self)
        self.writer = _Writer(self)
        self._path = path
        self._tail = tail
        self._append = format_request("POST", path, _MESSAGE, "text/plain")
        self._sent_ns = 0
        self._awaited = 0

    def go_round(self) -> None:
        """The poll is on its way before the append is, so the server finds the reader waiting."""
        self._awaited = 2
        self.reader.send(format_request("GET", f"{self._path}?offset={self._tail}&live=long-poll"))
        self._sent_ns = perf_counter_ns()
        self.writer.send(self._append)

    def delivered(self, answer: bytes) -> None:
        self.run.load.latencies_ns.append(perf_counter_ns() - self._sent_ns)
        tail = header_value(answer[: answer.index(b"\r\n\r\n") + 2].lower(), b"stream-next-offset")
        if tail is None:
            raise LoadFailed(f"a long-poll answer without Stream-Next-Offset: {answer!r}")
        self._tail = tail.decode()
        self.arrived()

    def arrived(self) -> None:
        self._awaited -= 1
        if self._awaited:
            return
        if self.run.open:
            self.go_round()
        else:
            self.run.retire()


class _Reader(Channel):
    def __init__(self, pair: _Pair) -> None:
        super().__init__(pair.run, Expectation(_OK, payload_bytes=len(_MESSAGE)))
        self._pair = pair

    def answered(self, answer: bytes) -> None:
        self._pair.delivered(answer)


class _Writer(Channel):
    def __init__(self, pair: _Pair) -> None:
        super().__init__(pair.run, Expectation(_NO_CONTENT))
        self._pair = pair

    def answered(self, answer: bytes) -> None:  # noqa: ARG002 - it was checked; its content does not matter here
        self._pair.arrived()
