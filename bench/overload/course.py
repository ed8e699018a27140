"""The course of one measurement: what a server can do, three times as much, and what it is like afterwards.

The machine may be busy with other things: rates are also given for the time in which the server ran or could have run
if it had wanted to. The time in which it had to wait for a processor is no fault of its own; that it idles is.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Self

from bench.overload.client import Client, Tally
from bench.processes import process_cpu_ns

TICK_SECS = 0.02
IN_TIME_SECS = 1.0
FACTOR = 3.0


@dataclass(frozen=True, slots=True)
class Use:
    """What a server has used so far: CPU of all its threads, and how long its main thread wanted one in vain."""

    at: float
    cpu_secs: float
    starved_secs: float

    @classmethod
    def of(cls, pid: int) -> Self:
        """Look at a process."""
        starved_ns = int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text(encoding="ascii").split()[1])
        return cls(perf_counter(), process_cpu_ns(pid) / 1e9, starved_ns / 1e9)

    def until(self, later: "Use") -> "Use":
        """Return the difference; `at` is how long it took."""
        return Use(later.at - self.at, later.cpu_secs - self.cpu_secs, later.starved_secs - self.starved_secs)


@dataclass(frozen=True, slots=True)
class Phase:
    """What became of the requests that were due in a phase. `free` counts the time in which a processor was to be had.

    What was cut off or never answered is in none of the latencies, and no goodput.
    """

    offered_per_sec: float
    goodput_per_sec: float
    goodput_per_free_sec: float
    goodput_per_cpu_sec: float
    cores: float
    free: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    late: int
    refused: int
    withheld: int
    unsent: int
    cut_off: int
    unanswered: int


@dataclass(frozen=True, slots=True)
class Course:
    """All of it. Ratios are those of goodput to the most there was, by the clock and in the time that was free.

    How fast the machine is changes meanwhile: where the server is itself again, the most is measured once more, and the
    mean counts.
    """

    most: Phase
    overloaded: Phase
    recovery_secs: float | None
    afterwards: Phase
    most_again: Phase | None
    ratio: float
    free_ratio: float
    acknowledged: int
    lost_acknowledged: int


class Crowd:
    """Clients that send together."""

    def __init__(self, clients: list[Client], server_pid: int) -> None:
        self._clients = clients
        self._server_pid = server_pid

    async def saturate(self, seconds: float, window: int) -> Phase:
        """Keep the server busy, never with more than so many requests of each client, and tell what it did."""
        self._begin()
        for client in self._clients:
            client.keep_outstanding(window)
        await asyncio.sleep(seconds / 4)
        tallies, before = self._begin(), Use.of(self._server_pid)
        await asyncio.sleep(seconds)
        used = before.until(Use.of(self._server_pid))
        for client in self._clients:
            client.keep_outstanding(0)
        await asyncio.sleep(IN_TIME_SECS)
        return summarize(tallies, used)

    async def offer(self, rate: float, seconds: float) -> tuple[list[Tally], Use]:
        """Send at a rate. What becomes of it is known a while later."""
        tallies, before = self._begin(), Use.of(self._server_pid)
        await self._send(rate, seconds)
        return tallies, before.until(Use.of(self._server_pid))

    def _begin(self) -> list[Tally]:
        tallies = [Tally() for _ in self._clients]
        for client, tally in zip(self._clients, tallies, strict=True):
            client.tally = tally
        return tallies

    async def _send(self, rate: float, seconds: float) -> None:
        """Each client has its own moment within a tick, so that they do not all send at once."""
        clients, began, number = self._clients, perf_counter(), 0
        per_turn = max(1, round(rate * TICK_SECS / len(clients)))
        turn_secs = per_turn / rate
        while (elapsed := perf_counter() - began) < seconds:
            while number * turn_secs <= elapsed:
                clients[number % len(clients)].send(per_turn, began + number * turn_secs)
                number += 1
            await asyncio.sleep(0.001)


def summarize(tallies: list[Tally], used: Use) -> Phase:
    """Count, when whatever can still be in time has come."""
    answered = sorted(pair for tally in tallies for pair in tally.answered)
    total, in_time = sum(count for _, count in answered), sum(n for secs, n in answered if secs <= IN_TIME_SECS)
    due, refused, withheld, unsent, cut_off = (
        sum(getattr(tally, name) for tally in tallies) for name in ("due", "refused", "withheld", "unsent", "cut_off")
    )
    free_secs = max(used.at - used.starved_secs, 0.01)
    return Phase(
        due / used.at,
        in_time / used.at,
        in_time / free_secs,
        in_time / max(used.cpu_secs, 0.01),
        used.cpu_secs / used.at,
        free_secs / used.at,
        _at_ms(answered, total * 0.5),
        _at_ms(answered, total * 0.99),
        _at_ms(answered, total),
        total - in_time,
        refused,
        withheld,
        unsent,
        cut_off,
        due - total - refused - withheld - unsent - cut_off,
    )


def _at_ms(answered: list[tuple[float, int]], place: float) -> float:
    """Return the latency that so many are not above."""
    seen = 0
    for secs, count in answered:
        seen += count
        if seen >= place:
            return 1000 * secs
    return 0.0


def recovered_after(tallies: list[list[Tally]], step_secs: float) -> float | None:
    """Tell when it was that from then on at least 95 of 100 requests were answered in time; None: never."""
    for number in reversed(range(len(tallies))):
        due = sum(tally.due for tally in tallies[number])
        good = sum(count for tally in tallies[number] for secs, count in tally.answered if secs <= IN_TIME_SECS)
        if good < 0.95 * due:
            return None if number == len(tallies) - 1 else (number + 1) * step_secs
    return 0.0
