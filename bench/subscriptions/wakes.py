"""How soon a wake goes out: from the answer to an append to the webhook at its receiver, or the event in its stream.

Appends come at a moderate rate, one by one, each to the stream of a subscription that is at rest. Half of the
subscriptions are webhooks, half are pull-wakes. Everything is timed by one clock in one process. Appends at the same
rate to streams that nobody subscribes to take their turns too.
"""

import asyncio
from dataclasses import asdict, dataclass
from time import perf_counter_ns

import uvloop

from bench.channel import Channel, Expectation, LoadFailed, LoadRun, connect, disconnect
from bench.extensions.section import Section, verdict
from bench.extensions.store import store_folder
from bench.meter import Meter
from bench.processes import HOST, ServerProcess, free_port
from bench.subscriptions.receiver import Arrivals, WakeReader, receiving
from bench.subscriptions.scene import (
    APART,
    APART_FOLDERS,
    PULL,
    append_request,
    fill,
    name_of,
    serve,
    subscribe,
    webhook,
)
from bench.subscriptions.size import Size
from bench.summary import percentile

MAX_P99_MS = 50.0

_APART, _WEBHOOK, _PULL = "none: a stream apart", "webhook at its receiver", "event in the wake stream"
_HEADINGS = ("wake", "wakes", "p50 ms", "p99 ms", "slowest ms", "append p50 ms", "append p99 ms", "CPU µs each")
_PATIENCE_SECS = 30.0


Plan = list[tuple[str | None, bytes]]


@dataclass(frozen=True, slots=True)
class Turn:
    """Wakes for a while."""

    kind: str
    round: int
    wakes: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    append_p50_ms: float
    append_p99_ms: float
    cpu_us: float


class _Appender(Channel):
    """Appends one by one."""

    def append(self, request: bytes) -> "asyncio.Future[int]":
        """Append, and give when that was answered."""
        self._answered: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.send(request)
        return self._answered

    def answered(self, answer: bytes) -> None:  # noqa: ARG002 - it was checked
        """Note when."""
        self._answered.set_result(perf_counter_ns())


def measure_waking(mode: str, size: Size) -> list[Section]:
    """Make a server with subscriptions of both kinds, and wake them in turn."""
    hook_port = free_port()
    half = size.subscriptions // 2
    with store_folder() as folder, serve(mode, folder) as server:
        fill(server.port, size)
        subscribe(server.port, range(half), webhook(f"http://{HOST}:{hook_port}/"))
        subscribe(server.port, range(half, size.subscriptions), PULL)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            turns = runner.run(_take_turns(server, hook_port, size))
    return [_section(mode, size, turns)]


async def _take_turns(server: ServerProcess, hook_port: int, size: Size) -> list[Turn]:
    arrivals = Arrivals()
    turns: list[Turn] = []
    async with receiving(arrivals, hook_port):
        for number in range(size.rounds):
            turns += await _round(server, arrivals, number, size)
    return turns


async def _round(server: ServerProcess, arrivals: Arrivals, number: int, size: Size) -> list[Turn]:
    """Wake subscriptions of each kind. The wake stream is followed anew: no server pushes for ever (§5.8)."""
    run = LoadRun()
    reader, appender = WakeReader(run, arrivals), _Appender(run, Expectation(204))
    try:
        await connect(server.port, [reader, appender])
        reader.follow()
        await reader.ready
        plans = _plans(number, size).items()
        turns = [await _turn(server, appender, arrivals, kind, number, plan, size.rate) for kind, plan in plans]
        run.finish()
        await run.outcome
    finally:
        disconnect([reader, appender])
    return turns


def _plans(number: int, size: Size) -> dict[str, Plan]:
    """Return what is appended in a round, and whom that wakes. No pull-wake is woken twice: nobody claims it."""
    half = size.subscriptions // 2
    each = min(int(size.rate * size.waking_secs), half // size.rounds)
    folders = range(number * each, (number + 1) * each)
    return {
        _APART: [(None, append_request(folder % APART_FOLDERS, 0, APART)) for folder in folders],
        _WEBHOOK: [(name_of(folder), append_request(folder, 0)) for folder in folders],
        _PULL: [(name_of(half + folder), append_request(half + folder, 0)) for folder in folders],
    }


async def _turn(
    server: ServerProcess,
    appender: _Appender,
    arrivals: Arrivals,
    kind: str,
    number: int,
    plan: Plan,
    rate: float,
) -> Turn:
    waits: list[tuple[int, asyncio.Future[int]]] = []
    appends_ns: list[int] = []
    with (meter := Meter(server.pid)):
        begin_ns = perf_counter_ns()
        for place, (name, request) in enumerate(plan):
            await _until(begin_ns + int(place / rate * 1e9))
            woken = arrivals.expect(name) if name else None
            sent_ns = perf_counter_ns()
            answered_ns = await appender.append(request)
            appends_ns.append(answered_ns - sent_ns)
            waits += [(answered_ns, woken)] if woken else []
        latencies_ns = await _latencies_ns(waits)
    return _summarise(kind, number, latencies_ns, appends_ns, meter.server_cpu_ns)


async def _until(moment_ns: int) -> None:
    left_ns = moment_ns - perf_counter_ns()
    if left_ns > 0:
        await asyncio.sleep(left_ns / 1e9)


async def _latencies_ns(waits: list[tuple[int, "asyncio.Future[int]"]]) -> list[int]:
    """Return how long after the answer each wake was there. One that was there before took no time."""
    try:
        async with asyncio.timeout(_PATIENCE_SECS):
            return [max(0, await woken - answered_ns) for answered_ns, woken in waits]
    except TimeoutError:
        missing = sum(not woken.done() for _, woken in waits)
        raise LoadFailed(f"{missing} wakes did not come within {_PATIENCE_SECS:g} s") from None


def _summarise(kind: str, number: int, latencies_ns: list[int], appends_ns: list[int], cpu_ns: int) -> Turn:
    waits_ms, appends_ms = (sorted(each / 1e6 for each in values) for values in (latencies_ns, appends_ns))
    return Turn(
        kind,
        number,
        len(waits_ms),
        percentile(waits_ms, 0.50) if waits_ms else 0.0,
        percentile(waits_ms, 0.99) if waits_ms else 0.0,
        waits_ms[-1] if waits_ms else 0.0,
        percentile(appends_ms, 0.50),
        percentile(appends_ms, 0.99),
        cpu_ns / 1e3 / len(appends_ms),
    )


def _section(mode: str, size: Size, turns: list[Turn]) -> Section:
    section = Section(
        f"Wakes at {size.rate:g} appends/s, {size.subscriptions:,} subscriptions over {size.streams:,} streams: {mode}",
        _HEADINGS,
    )
    section.samples += [{"mode": mode, **asdict(turn)} for turn in turns]
    section.rows += [_row(_quietest(turns, kind)) for kind in (_APART, _WEBHOOK, _PULL)]
    for kind in (_WEBHOOK, _PULL):
        p99_ms, worst_ms = _quietest(turns, kind).p99_ms, max(turn.p99_ms for turn in turns if turn.kind == kind)
        claim = f"{kind}: p99 {p99_ms:.1f} ms in the quietest round, {worst_ms:.1f} in the worst, aim < {MAX_P99_MS:g}"
        section.remarks.append(verdict(claim, met=p99_ms < MAX_P99_MS))
    return section


def _quietest(turns: list[Turn], kind: str) -> Turn:
    """Return the round that other work on the machine disturbed least."""
    return min((turn for turn in turns if turn.kind == kind), key=lambda turn: turn.p99_ms + turn.append_p99_ms)


def _row(turn: Turn) -> tuple[str, ...]:
    waits_ms = (turn.p50_ms, turn.p99_ms, turn.max_ms)
    return (
        turn.kind,
        f"{turn.wakes:,}",
        *(f"{wait_ms:.2f}" if turn.wakes else "" for wait_ms in waits_ms),
        f"{turn.append_p50_ms:.2f}",
        f"{turn.append_p99_ms:.2f}",
        f"{turn.cpu_us:.0f}",
    )
