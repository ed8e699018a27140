"""Listings: what a page of streams costs in ever larger buckets, wherever it begins.

A page of 1,000 must come in under 20 ms, and cost among 100,000 streams what it costs among 1,000. Beside it a plain
read of as many bytes shows what the connection takes of that.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter_ns

from bench.extensions.bulk_fill import create_streams
from bench.extensions.section import Sample, Section, verdict
from bench.extensions.size import Size
from bench.extensions.store import serve, store_folder
from bench.extensions.timed_request import Timing, ask, quietest, time_request
from bench.processes import ServerProcess
from bench.streams import SetupFailed, StreamPlan, create_stream, delete_stream

MAX_PAGE_MS = 20.0
MAX_GROWTH = 1.3

_BUCKET = "/ds/bench"
_LISTING = f"{_BUCKET}/streams"
_PLAIN = "/v1/stream/as-many-bytes"
_BYTES = "application/octet-stream"
_MESSAGE = b"x" * 20
_DIGITS = 6
_HEADINGS = ("streams", "asked for", "p50 ms", "p99 ms", "CPU ms", "x fewest", "KB")

Servers = Mapping[int, ServerProcess]


@dataclass(slots=True)
class _Series:
    """What one page of one bucket cost in every round, and in the first answer of all."""

    total: int
    asked_for: str
    path: str
    timings: list[Timing] = field(default_factory=list)


def measure_listing(mode: str, size: Size) -> list[Section]:
    """Fill a bucket of each size, and list it: as it was filled, and after the store was opened again.

    What was filled into files is measured opened again alone: it is on the disk either way.
    """
    sections = []
    with ExitStack() as stack:
        folders = {total: stack.enter_context(store_folder()) for total in size.streams}
        with _running(mode, folders) as servers:
            for total, server in servers.items():
                _fill(server, total)
            if mode in {"memory", "acid"}:
                sections.append(_measure(f"{mode}, as it was filled", servers, size))
        if mode != "memory":
            with _running(mode, folders) as servers:
                sections.append(_measure(f"{mode}, opened again", servers, size))
    return sections


@contextmanager
def _running(mode: str, folders: Mapping[int, Path]) -> Iterator[Servers]:
    with ExitStack() as stack:
        yield {total: stack.enter_context(serve(mode, folder)) for total, folder in folders.items()}


def _fill(server: ServerProcess, total: int) -> None:
    ask(server.port, "PUT", _BUCKET, expected=201)
    create_streams(server.port, [f"{_BUCKET}/{stream_id(number)}" for number in range(total)], _MESSAGE)


def stream_id(number: int) -> str:
    """Name a stream so that the order of names is that of numbers."""
    return f"s-{number:0{_DIGITS}}"


def pages(total: int, page: int) -> dict[str, str]:
    """Say how to ask for full pages of a bucket: where they begin must not make them shorter."""
    shared = len(stream_id(0)) - len(str(page)) + 1
    return {
        "first page": f"limit={page}",
        "middle page": f"limit={page}&after={_before((total - page) // 2)}",
        "last page": f"limit={page}&after={_before(total - page)}",
        "prefix": f"limit={page}&prefix={stream_id(total // 2 // page * page)[:shared]}",
    }


def _before(number: int) -> str:
    return stream_id(number - 1) if number else ""


def _measure(store: str, servers: Servers, size: Size) -> Section:
    section = Section(f"Listing, a page of {size.page:,} streams, 1 connection: {store}", _HEADINGS)
    first_ms = {total: _first_page_ms(server, size.page) for total, server in servers.items()}
    series = _series(servers, size)
    for _ in range(size.rounds):
        for each in series:
            each.timings.append(time_request(servers[each.total], "GET", each.path, size.seconds))
    delete_stream(servers[max(servers)].port, _PLAIN)
    for each in series:
        _add_row(section, store, each, series)
    asked = ", ".join(f"{took:.1f} among {total:,}" for total, took in first_ms.items())
    section.remarks.append(f"The first listing since the server began took {asked} ms.")
    section.samples.append({"store": store, **{f"first_ms_{total}": took for total, took in first_ms.items()}})
    section.remarks += _verdicts(series, size)
    return section


def _first_page_ms(server: ServerProcess, page: int) -> float:
    begin_ns = perf_counter_ns()
    listing = json.loads(ask(server.port, "GET", f"{_LISTING}?limit={page}").body)
    took_ns = perf_counter_ns() - begin_ns
    if listing["stream_count"] != page:
        raise SetupFailed(f"a page must have {page} streams, got {listing['stream_count']}")
    return took_ns / 1e6


def _series(servers: Servers, size: Size) -> list[_Series]:
    series = [
        _Series(total, asked_for, f"{_LISTING}?{query}")
        for total in servers
        for asked_for, query in pages(total, size.page).items()
    ]
    for each in series:
        _require_full(servers[each.total], each, size.page)
    largest = max(servers)
    series.append(_Series(largest, f"{size.moved} that moved", _move(servers[largest], largest, size.moved)))
    series.append(_Series(largest, "a plain read", _plain_read(servers[largest], series[0].path)))
    return series


def _require_full(server: ServerProcess, series: _Series, page: int) -> None:
    listing = json.loads(ask(server.port, "GET", series.path).body)
    if listing["stream_count"] != page:
        raise SetupFailed(f"{series.asked_for} must have {page} streams, got {listing['stream_count']}")


def _move(server: ServerProcess, total: int, moved: int) -> str:
    """Append to a few streams all over the bucket, and say how to ask for them."""
    token = json.loads(ask(server.port, "GET", f"{_LISTING}?limit=1").body)["token"]
    for number in range(0, total, total // moved):
        path = f"{_BUCKET}/{stream_id(number)}"
        ask(server.port, "POST", path, _MESSAGE, {"Content-Type": _BYTES}, expected=204)
    path = f"{_LISTING}?changed_since={token}"
    listing = json.loads(ask(server.port, "GET", path).body)
    if listing["stream_count"] != moved:
        raise SetupFailed(f"{moved} streams moved, got {listing['stream_count']}")
    return path


def _plain_read(server: ServerProcess, path: str) -> str:
    """Make a stream as long as a page of the listing."""
    page = ask(server.port, "GET", path).body
    create_stream(server.port, _PLAIN, StreamPlan(_BYTES, (page,)))
    return _PLAIN


def _add_row(section: Section, store: str, series: _Series, all_series: list[_Series]) -> None:
    best = quietest(series.timings)
    fewest = _fewest(series, all_series)
    growth = "" if fewest is series else f"{growth_of(series.timings, fewest.timings):.2f}"
    section.rows.append(
        (
            f"{series.total:,}",
            series.asked_for,
            f"{best.p50_ms:.2f}",
            f"{best.p99_ms:.2f}",
            f"{best.cpu_ms:.2f}",
            growth,
            f"{best.payload_bytes / 1e3:.0f}",
        )
    )
    for number, timing in enumerate(series.timings):
        key: Sample = {"store": store, "streams": series.total, "asked_for": series.asked_for, "round": number}
        section.samples.append({**key, **timing.sample()})


def _fewest(series: _Series, all_series: list[_Series]) -> _Series:
    """Find the same page of the smallest bucket."""
    return next(each for each in all_series if each.asked_for == series.asked_for)


def growth_of(timings: list[Timing], fewest: list[Timing]) -> float:
    """How many times as much CPU as in the smallest bucket, each in its cheapest round: other work only adds to it."""
    return min(timing.cpu_ms for timing in timings) / min(timing.cpu_ms for timing in fewest)


def _verdicts(series: list[_Series], size: Size) -> list[str]:
    listings = [each for each in series if each.asked_for in pages(size.page, size.page)]
    slowest = max(quietest(each.timings).p99_ms for each in listings)
    growth = max(growth_of(each.timings, _fewest(each, listings).timings) for each in listings)
    return [
        verdict(f"Slowest p99 {slowest:.1f} ms, aim < {MAX_PAGE_MS:g}", met=slowest < MAX_PAGE_MS),
        verdict(f"Largest growth {growth:.2f}, aim < {MAX_GROWTH:g}", met=growth < MAX_GROWTH),
    ]
