"""Appends over 64 connections to streams all over the store, beside the same with subscriptions to every stream.

Four servers with the same streams take turns. One has no subscription. One has as many as it may, and none of them
matches. The subscriptions of the third are pull-wakes that nobody has claimed yet, as when producers are faster than
workers: an append finds a wake in flight. Those of the fourth are webhooks to a receiver that is done at once: an
append wakes its subscription again and again, and what that costs is in its figures.
"""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from random import Random
from statistics import median

import uvloop

from bench.channel import Expectation
from bench.extensions.section import Section, verdict
from bench.extensions.store import store_folder
from bench.load import Bounds, run_closed_loop
from bench.meter import Meter
from bench.processes import HOST, ServerProcess, free_port, process_cpu_ns, resident_bytes
from bench.subscriptions.receiver import Arrivals, receiving
from bench.subscriptions.scene import PULL, append_request, fill, serve, subscribe, webhook
from bench.subscriptions.size import Size
from bench.summary import percentile

MAX_RATIO = 2.0

_CONNECTIONS = 64
_MAX_APPENDS = 1_000_000
_NONE, _ELSEWHERE, _PULL, _WEBHOOK = "none", "none that matches", "pull-wake", "webhook"
_HEADINGS = (
    "subscriptions",
    "appends/s",
    "p50 ms",
    "p99 ms",
    "CPU µs",
    "x CPU",
    "x p50",
    "x p99",
    "wakes/append",
    "RSS MB",
)
_QUIET_SECS, _PATIENCE_SECS, _IDLE_SHARE = 0.2, 60.0, 0.1


@dataclass(frozen=True, slots=True)
class Turn:
    """Appends for a while to one of the servers."""

    subscriptions: str
    round: int
    appends: int
    per_second: float
    p50_ms: float
    p99_ms: float
    cpu_us: float
    wakes: int
    rss_mb: float


def measure_appending(mode: str, size: Size) -> list[Section]:
    """Make the servers, and let them take turns."""
    hook_port = free_port()
    with ExitStack() as stack:
        servers: dict[str, ServerProcess] = {}
        for name in (_NONE, _ELSEWHERE, _PULL, _WEBHOOK):
            servers[name] = stack.enter_context(serve(mode, stack.enter_context(store_folder())))
            fill(servers[name].port, size)
        everything = range(size.subscriptions)
        subscribe(servers[_ELSEWHERE].port, everything, PULL, below="elsewhere")
        subscribe(servers[_PULL].port, everything, PULL)
        subscribe(servers[_WEBHOOK].port, everything, webhook(f"http://{HOST}:{hook_port}/"))
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            turns = runner.run(_take_turns(servers, hook_port, size))
    return [_section(mode, size, turns)]


async def _take_turns(servers: dict[str, ServerProcess], hook_port: int, size: Size) -> list[Turn]:
    arrivals = Arrivals()
    random = Random(1)
    turns: list[Turn] = []
    async with receiving(arrivals, hook_port):
        for number in range(-1, size.rounds):  # the first is to warm up: it wakes every pull-wake
            for name, server in servers.items():
                turn = await _turn(server, name, number, size, arrivals, random)
                turns += [turn] if number >= 0 else []
                await _idle(server)
    return turns


async def _turn(server: ServerProcess, name: str, number: int, size: Size, arrivals: Arrivals, random: Random) -> Turn:
    plans = [_appends(size, Random(random.getrandbits(64))) for _ in range(_CONNECTIONS)]
    meter, before = Meter(server.pid), arrivals.count
    bounds = Bounds(size.seconds, _MAX_APPENDS)
    load = await run_closed_loop(server.port, plans, Expectation(204), bounds, meter)
    ordered_ms = sorted(latency / 1e6 for latency in load.latencies_ns)
    return Turn(
        name,
        number,
        len(ordered_ms),
        len(ordered_ms) / meter.elapsed_ns * 1e9,
        percentile(ordered_ms, 0.50),
        percentile(ordered_ms, 0.99),
        meter.server_cpu_ns / 1e3 / len(ordered_ms),
        arrivals.count - before,
        resident_bytes(server.pid) / 1e6,
    )


def _appends(size: Size, random: Random) -> Iterator[bytes]:
    while True:
        yield append_request(random.randrange(size.subscriptions), random.randrange(size.streams_each))


async def _idle(server: ServerProcess) -> None:
    """Let a server do what it put off, such as wakes, while the receiver goes on."""
    for _ in range(int(_PATIENCE_SECS / _QUIET_SECS)):
        before_ns = process_cpu_ns(server.pid)
        await asyncio.sleep(_QUIET_SECS)
        if process_cpu_ns(server.pid) - before_ns < _IDLE_SHARE * _QUIET_SECS * 1e9:
            return


def _section(mode: str, size: Size, turns: list[Turn]) -> Section:
    count = f"{size.subscriptions:,} subscriptions over {size.streams:,} streams"
    section = Section(f"Appends of 100 B over {_CONNECTIONS} connections, {count}: {mode}", _HEADINGS)
    section.samples += [{"mode": mode, **asdict(turn)} for turn in turns]
    alone = _of(turns, _NONE)
    for name in (_NONE, _ELSEWHERE, _PULL, _WEBHOOK):
        section.rows.append(_row(_of(turns, name), alone))
    for name in (_ELSEWHERE, _PULL):
        cpu, p50 = (_ratio(_of(turns, name), alone, figure) for figure in ("cpu_us", "p50_ms"))
        claim = f"With {name}: {cpu:.2f}x the CPU, {p50:.2f}x the p50, aim <= {MAX_RATIO:g}"
        section.remarks.append(verdict(claim, met=max(cpu, p50) <= MAX_RATIO))
    section.remarks.append(_delivering(_of(turns, _WEBHOOK), alone))
    return section


def _delivering(turns: list[Turn], alone: list[Turn]) -> str:
    """Say what a webhook costs: what is spent beyond the appends, by how many went out meanwhile."""
    extra_us = [
        (mine.cpu_us - theirs.cpu_us) * mine.appends / max(mine.wakes, 1)
        for mine, theirs in zip(turns, alone, strict=True)
    ]
    share = _ratio(turns, alone, "cpu_us")
    return f"With webhook: {share:.2f}x the CPU, deliveries included, which take {median(extra_us):,.0f} µs each"


def _of(turns: list[Turn], name: str) -> list[Turn]:
    return [turn for turn in turns if turn.subscriptions == name]


def _ratio(turns: list[Turn], alone: list[Turn], figure: str) -> float:
    """How many times the figure of the same round without subscriptions: the median round speaks."""
    ratios = [getattr(mine, figure) / getattr(theirs, figure) for mine, theirs in zip(turns, alone, strict=True)]
    return float(median(ratios))


def _row(turns: list[Turn], alone: list[Turn]) -> tuple[str, ...]:
    return (
        turns[0].subscriptions,
        f"{median(turn.per_second for turn in turns):,.0f}",
        f"{median(turn.p50_ms for turn in turns):.2f}",
        f"{median(turn.p99_ms for turn in turns):.2f}",
        f"{median(turn.cpu_us for turn in turns):.1f}",
        *(f"{_ratio(turns, alone, figure):.2f}" for figure in ("cpu_us", "p50_ms", "p99_ms")),
        f"{median(turn.wakes / turn.appends for turn in turns):.3f}",
        f"{turns[-1].rss_mb:.0f}",
    )
