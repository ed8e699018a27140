"""What a case is, and the closed loop: every connection sends its next request when the last one was answered."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Protocol

from bench.channel import Channel, Expectation, LoadRun, connect, disconnect
from bench.meter import Meter
from bench.streams import StreamPlan


@dataclass(frozen=True, slots=True)
class Bounds:
    """A load ends at whichever comes first; a server that lets it stall for too long has failed."""

    seconds: float
    operations: int
    stall_secs: float = 30.0


@dataclass(frozen=True, slots=True)
class Target:
    """A server with the streams that the case asked for."""

    port: int
    paths: tuple[str, ...]
    tails: tuple[str, ...]
    headers: Mapping[str, str] = field(default_factory=dict)
    """What every request must carry."""


@dataclass(slots=True)
class Load:
    """What the load generator saw. `missing` counts deliveries that never came.

    `done` is how much was done, in the unit of the case, where that is not one per latency.
    """

    latencies_ns: list[int] = field(default_factory=list)
    missing: int = 0
    done: float | None = None


class Case(Protocol):
    """A load that a server can be put under."""

    @property
    def name(self) -> str:
        """How the command line calls it."""

    @property
    def title(self) -> str:
        """How the table calls it."""

    @property
    def streams(self) -> tuple[StreamPlan, ...]:
        """The streams it needs, made anew for every round."""

    @property
    def max_operations(self) -> int:
        """A bound that keeps the data of one round within memory."""

    async def load(self, target: Target, bounds: Bounds, meter: Meter) -> Load:
        """Load the server, with the meter running from the first request to the last answer."""


RequestPlan = Callable[[Target, int], Iterator[bytes]]


@dataclass(frozen=True, kw_only=True)
class ClosedLoop:
    """`connections` connections, each with one request under way at any time."""

    name: str
    title: str
    streams: tuple[StreamPlan, ...]
    connections: int
    expectation: Expectation
    requests: RequestPlan
    max_operations: int = 1_000_000

    async def load(self, target: Target, bounds: Bounds, meter: Meter) -> Load:
        """Keep every connection busy until a bound is reached."""
        plans = [self.requests(target, number) for number in range(self.connections)]
        return await run_closed_loop(target.port, plans, self.expectation, bounds, meter)


class _ClosedLoopRun(LoadRun):
    def __init__(self, bounds: Bounds, connections: int) -> None:
        super().__init__()
        self.load = Load()
        self.operations = bounds.operations
        self.deadline_ns = 0
        self._busy = connections

    def retire(self) -> None:
        """One connection has had its last answer."""
        self._busy -= 1
        if self._busy == 0:
            self.finish()


class _Worker(Channel):
    run: _ClosedLoopRun

    def __init__(self, run: _ClosedLoopRun, expectation: Expectation, requests: Iterator[bytes]) -> None:
        super().__init__(run, expectation)
        self._requests = requests
        self._sent_ns = 0
        self._latencies_ns = run.load.latencies_ns

    def send_next(self) -> None:
        self._sent_ns = perf_counter_ns()
        self.send(next(self._requests))

    def answered(self, answer: bytes) -> None:  # noqa: ARG002 - it was checked; its content does not matter here
        now_ns = perf_counter_ns()
        latencies_ns = self._latencies_ns
        latencies_ns.append(now_ns - self._sent_ns)
        if now_ns < self.run.deadline_ns and len(latencies_ns) < self.run.operations:
            self._sent_ns = now_ns
            self.send(next(self._requests))
        else:
            self.run.retire()


async def run_closed_loop(
    port: int, plans: Sequence[Iterator[bytes]], expectation: Expectation, bounds: Bounds, meter: Meter
) -> Load:
    """One connection per request plan, until a bound is reached and the last requests are answered."""
    run = _ClosedLoopRun(bounds, len(plans))
    workers = [_Worker(run, expectation, requests) for requests in plans]
    try:
        await connect(port, workers)
        with meter:
            run.deadline_ns = perf_counter_ns() + int(bounds.seconds * 1e9)
            for worker in workers:
                worker.send_next()
            async with asyncio.timeout(bounds.seconds + bounds.stall_secs):
                await run.outcome
    finally:
        disconnect(workers)
    return run.load
