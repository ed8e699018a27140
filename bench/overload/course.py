"""The course of one measurement: what a server can do, three times as much, and what it is like afterwards."""

import asyncio
from dataclasses import dataclass
from time import perf_counter

from bench.overload.client import Client, Tally
from bench.processes import process_cpu_ns

TICK_SECS = 0.02
IN_TIME_SECS = 1.0
FACTOR = 3.0
FIRST_RATE = 4000.0
GROWTH = 1.3
# So much of what is offered must be acknowledged in time for a rate to be sustained.
SUSTAINED = 0.95
DRAIN_SECS = 0.3


@dataclass(frozen=True, slots=True)
class Phase:
    """What became of one rate."""

    offered_per_sec: float
    goodput_per_sec: float
    goodput_per_cpu_sec: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    refused: int
    withheld: int
    unsent: int
    lost: int
    late: int


@dataclass(frozen=True, slots=True)
class Course:
    """All of it."""

    sustained_per_sec: float
    max_goodput_per_sec: float
    overloaded: Phase
    afterwards: Phase
    most_per_cpu_sec: float
    goodput_ratio: float
    cpu_ratio: float
    recovered_ratio: float
    acknowledged: int
    lost_acknowledged: int


class Crowd:
    """Clients that send together at a rate."""

    def __init__(self, clients: list[Client], server_pid: int) -> None:
        self._clients = clients
        self._server_pid = server_pid

    async def offer(self, rate: float, seconds: float, settle_secs: float = 0.0) -> Phase:
        """Send at a rate, and tell what became of it, but for the time in which it settles."""
        await self._send(rate, settle_secs)
        self._begin()
        began, cpu_ns = perf_counter(), process_cpu_ns(self._server_pid)
        await self._send(rate, seconds)
        took, cpu_secs = perf_counter() - began, (process_cpu_ns(self._server_pid) - cpu_ns) / 1e9
        return _phase([client.tally for client in self._clients], took, cpu_secs)

    def _begin(self) -> None:
        for client in self._clients:
            client.tally = Tally()

    async def _send(self, rate: float, seconds: float) -> None:
        """Each client has its own moment within a tick, so that they do not all send at once."""
        began, sent, number = perf_counter(), 0.0, 0
        per_turn = max(1, round(rate * TICK_SECS / len(self._clients)))
        while (elapsed := perf_counter() - began) < seconds:
            due = elapsed * rate
            while sent + per_turn <= due:
                self._clients[number % len(self._clients)].send(per_turn)
                sent += per_turn
                number += 1
            await asyncio.sleep(0.001)


def _phase(tallies: list[Tally], took: float, cpu_secs: float) -> Phase:
    latencies = sorted(latency for tally in tallies for latency in tally.latencies)
    in_time = sum(latency <= IN_TIME_SECS for latency in latencies)
    return Phase(
        sum(tally.due for tally in tallies) / took,
        in_time / took,
        in_time / cpu_secs,
        _at(latencies, 0.5),
        _at(latencies, 0.99),
        _at(latencies, 1.0),
        sum(tally.refused for tally in tallies),
        sum(tally.withheld for tally in tallies),
        sum(tally.unsent for tally in tallies),
        sum(tally.lost for tally in tallies),
        len(latencies) - in_time,
    )


def _at(latencies: list[float], share: float) -> float:
    return latencies[min(len(latencies) - 1, int(len(latencies) * share))] * 1000 if latencies else 0.0


async def find_sustained(crowd: Crowd, seconds: float) -> tuple[float, float, float]:
    """Give the largest rate that is sustained, and the largest goodput on the way, per second and per CPU second."""
    rate, sustained, most, most_per_cpu = FIRST_RATE, 0.0, 0.0, 0.0
    while True:
        phase = await crowd.offer(rate, seconds, settle_secs=0.2)
        most = max(most, phase.goodput_per_sec)
        most_per_cpu = max(most_per_cpu, phase.goodput_per_cpu_sec)
        if phase.goodput_per_sec < SUSTAINED * phase.offered_per_sec:
            await asyncio.sleep(2.0)
            return sustained or rate, most, most_per_cpu
        sustained, rate = phase.goodput_per_sec, rate * GROWTH


async def run(crowd: Crowd, seconds: float) -> tuple[tuple[float, float, float], Phase, Phase]:
    """Find the sustained rate, offer three times as much, and then half of it."""
    found = await find_sustained(crowd, 1.0)
    overloaded = await crowd.offer(FACTOR * found[0], seconds, settle_secs=1.0)
    afterwards = await crowd.offer(found[0] / 2, 2.0, settle_secs=5.0)
    await asyncio.sleep(DRAIN_SECS)
    return found, overloaded, afterwards
