"""Appends over 64 connections while large snapshots of their stream are published without a pause, and while none is.

Publishing must move the p99 of the appends by less than 2x. On a machine with few cores and one disk any other process
that writes as much moves it too: such a one takes its turns as well, beside a server that publishes nothing.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from itertools import repeat
from statistics import median

import uvloop

from bench.channel import Expectation, LoadFailed
from bench.extensions.section import Section, verdict
from bench.extensions.size import Size
from bench.extensions.store import serve, store_folder
from bench.load import Bounds, run_closed_loop
from bench.meter import Meter
from bench.processes import ServerProcess
from bench.requests import format_request
from bench.streams import StreamPlan, create_stream, stream_path
from bench.summary import percentile

MAX_RATIO = 2.0

_PATH = stream_path("bench/published")
_BYTES = "application/octet-stream"
_CONNECTIONS = 64
_MAX_APPENDS = 2_000_000
_PATIENCE_SECS = 60.0
_ALONE, _SNAPSHOT, _FILE = "nothing", "snapshot", "file"
_HEADINGS = ("meanwhile", "appends/s", "p50 ms", "p99 ms", "x p99 of nothing", "seconds each")


@dataclass(frozen=True, slots=True)
class Turn:
    """Appends for a while, and what went on beside them."""

    meanwhile: str
    round: int
    per_second: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    took_secs: list[float]


def measure_publishing(mode: str, size: Size) -> list[Section]:
    """Let the three take turns. The other process writes as fast as snapshots were published just before."""
    turns: list[Turn] = []
    with store_folder() as folder, serve(mode, folder) as server:
        create_stream(server.port, _PATH, StreamPlan(_BYTES))
        _appends(server, size.appending_secs / 4)
        for number in range(size.rounds):
            alone = _turn(server, number, size, _ALONE)
            published = _turn(server, number, size, _SNAPSHOT, str(server.port), _PATH)
            pace = median(published.took_secs)
            turns += (alone, published, _turn(server, number, size, _FILE, str(pace), str(folder)))
    return [_section(mode, size, turns)]


def _turn(server: ServerProcess, number: int, size: Size, meanwhile: str, *how: str) -> Turn:
    Meter(server.pid).wait_until_idle()
    took: list[float] = []
    with _beside([meanwhile, *how], size, took) if how else nullcontext():
        latencies_ms, per_second = _appends(server, size.appending_secs)
    p50_ms, p99_ms = percentile(latencies_ms, 0.50), percentile(latencies_ms, 0.99)
    return Turn(meanwhile, number, per_second, p50_ms, p99_ms, latencies_ms[-1], took)


def _appends(server: ServerProcess, seconds: float) -> tuple[list[float], float]:
    """Append for so long; returns the latencies in order, and how many there were a second."""
    plans = [repeat(format_request("POST", _PATH, b"x" * 100, _BYTES)) for _ in range(_CONNECTIONS)]
    meter = Meter(server.pid)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        bounds = Bounds(seconds, _MAX_APPENDS)
        load = runner.run(run_closed_loop(server.port, plans, Expectation(204), bounds, meter))
    ordered_ms = sorted(latency / 1e6 for latency in load.latencies_ns)
    return ordered_ms, len(ordered_ms) / meter.elapsed_ns * 1e9


@contextmanager
def _beside(what: list[str], size: Size, took: list[float]) -> Iterator[None]:
    """Have another process publish or write for as long as appends are made."""
    arguments = [*what, str(size.snapshot_bytes), str(size.appending_secs)]
    command = [sys.executable, "-m", "bench.extensions.publisher", *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            _begin(process)
            yield
            output, _ = process.communicate(timeout=_PATIENCE_SECS)
        finally:
            process.kill()
    if process.returncode != 0:
        raise LoadFailed(f"the publisher ended with {process.returncode}")
    took += json.loads(output)


def _begin(process: "subprocess.Popen[str]") -> None:
    """Wait until the process is ready, so that its own start is not measured, and have it begin."""
    if process.stdin is None or process.stdout is None or not process.stdout.readline():
        raise LoadFailed("the publisher did not start")
    process.stdin.write("begin\n")
    process.stdin.flush()


def _section(mode: str, size: Size, turns: list[Turn]) -> Section:
    title = f"Appends of 100 B over {_CONNECTIONS} connections beside {size.snapshot_bytes / 1e6:g} MB each: {mode}"
    section = Section(title, _HEADINGS)
    alone = _of(turns, _ALONE)
    section.rows += [_row(_of(turns, meanwhile), alone) for meanwhile in (_ALONE, _SNAPSHOT, _FILE)]
    section.samples += [{"mode": mode, **_flat(turn)} for turn in turns]
    moved = ratio(_of(turns, _SNAPSHOT), alone)
    claim = f"Publishing moves the p99 {moved:.2f}x, median of {size.rounds} rounds, aim < {MAX_RATIO:g}"
    section.remarks.append(verdict(claim, met=moved < MAX_RATIO))
    return section


def _of(turns: list[Turn], meanwhile: str) -> list[Turn]:
    return [turn for turn in turns if turn.meanwhile == meanwhile]


def ratio(turns: list[Turn], alone: list[Turn]) -> float:
    """How many times the p99 of the same round without anything beside it: the median round speaks."""
    return median(mine.p99_ms / theirs.p99_ms for mine, theirs in zip(turns, alone, strict=True))


def _row(turns: list[Turn], alone: list[Turn]) -> tuple[str, ...]:
    took = [each for turn in turns for each in turn.took_secs]
    return (
        turns[0].meanwhile,
        f"{median(turn.per_second for turn in turns):,.0f}",
        f"{median(turn.p50_ms for turn in turns):.2f}",
        f"{median(turn.p99_ms for turn in turns):.2f}",
        f"{ratio(turns, alone):.2f}",
        f"{median(took):.2f}" if took else "",
    )


def _flat(turn: Turn) -> dict[str, str | int | float]:
    figures = asdict(turn)
    took = figures.pop("took_secs")
    return figures | {"times": len(took), "median_secs": median(took) if took else 0.0}
