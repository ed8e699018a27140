"""Puts a running server under a case and turns what was seen into a sample."""

import asyncio
from dataclasses import dataclass
from time import sleep

import uvloop

from bench.channel import LoadFailed
from bench.load import Bounds, Case, Load, Target
from bench.meter import Meter
from bench.processes import ServerProcess, resident_bytes
from bench.streams import create_stream, delete_stream, stream_path
from bench.summary import Sample, percentile

_SETTLE_SECS = 0.2
WARM_UP_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a load showed, and how much memory the server held at its end."""

    load: Load
    meter: Meter
    rss_bytes: int


def take_sample(
    case: Case,
    subject: str,
    server: ServerProcess,
    round_number: int,
    seconds: float,
    warm_up_share: float = WARM_UP_SHARE,
) -> Sample:
    """Warm the server up on streams of their own, then measure."""
    whole = Bounds(seconds, case.max_operations)
    short = Bounds(seconds * warm_up_share, case.max_operations)
    exercise(case, server, f"bench/{case.name}/{round_number}/warm-up", short)
    outcome = exercise(case, server, f"bench/{case.name}/{round_number}/measured", whole)
    return _sample(case, subject, round_number, outcome)


def exercise(case: Case, server: ServerProcess, prefix: str, bounds: Bounds) -> Outcome:
    """Make the streams of a case, load the server, and remove them again."""
    paths = tuple(stream_path(f"{prefix}/{number}") for number in range(len(case.streams)))
    plans = zip(paths, case.streams, strict=True)
    tails = tuple(create_stream(server.port, path, plan, server.headers) for path, plan in plans)
    target = Target(server.port, paths, tails, server.headers)
    meter = Meter(server.pid)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        load = runner.run(case.load(target, bounds, meter))
    outcome = Outcome(load, meter, resident_bytes(server.pid))
    for path in paths:
        delete_stream(server.port, path, server.headers)
    sleep(_SETTLE_SECS)  # the server sees the connections go before anything else is measured
    return outcome


def _sample(case: Case, subject: str, round_number: int, outcome: Outcome) -> Sample:
    meter, ordered_ns = outcome.meter, sorted(outcome.load.latencies_ns)
    if not ordered_ns:
        raise LoadFailed("nothing was answered in the time given")
    operations = len(ordered_ns) if outcome.load.done is None else outcome.load.done
    return Sample(
        case=case.name,
        subject=subject,
        round=round_number,
        operations=operations,
        missing=outcome.load.missing,
        per_second=operations / meter.elapsed_ns * 1e9,
        p50_ms=percentile(ordered_ns, 0.50) / 1e6,
        p99_ms=percentile(ordered_ns, 0.99) / 1e6,
        cpu_us=meter.server_cpu_ns / operations / 1e3,
        cpu_share=meter.server_cpu_ns / meter.elapsed_ns,
        generator_us=meter.generator_cpu_ns / operations / 1e3,
        generator_share=meter.generator_cpu_ns / meter.elapsed_ns,
        rss_mb=outcome.rss_bytes / 1e6,
    )
