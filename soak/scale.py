"""Scale: what a store of a million streams costs to open and to use, and how the cost of an append grows.

The stores are filled through the storage itself, in large groups: by HTTP a million streams would take an hour.
"""

import asyncio
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from random import Random

import uvloop

from bench.channel import Expectation
from bench.load import Bounds, run_closed_loop
from bench.meter import Meter
from bench.requests import format_request
from bench.summary import percentile
from everbrook.protocol.content_type import DEFAULT_CONTENT_TYPE
from everbrook.protocol.state import Change, Head, Identity, Write
from everbrook.storage import DurableStorage
from everbrook.storage.disk import OsDisk
from soak.ledger import PromiseBroken
from soak.progress import say
from soak.server import Server

MAX_OPEN_SECS = 2.0
MAX_FILES = 100
MAX_OWN_BYTES = 150_000_000

_MESSAGE = b"x" * 100
_GROUP, _SITTING = 10_000, 100_000
_CONNECTIONS = 64
_TOUCHED = 10_000
_SECONDS = 2.0
_LONG_AGO = 1_600_000_000_000
_BYTES = DEFAULT_CONTENT_TYPE.decode()


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process holds."""

    files: int
    own_bytes: int
    """Its memory without the pages of files, of which LMDB maps as many as there is room for."""


@dataclass(frozen=True, slots=True)
class Row:
    """Appends spread over `touched` streams of a store that holds `stored`."""

    stored: int
    store_bytes: int
    touched: int
    per_second: float
    p50_ms: float
    p99_ms: float
    usage: Usage


def measure_scale(folder: Path, *, streams: int, seed: int) -> None:
    """Build ever larger stores in one folder, and measure each. Raises when the largest misses its aims."""
    random = Random(seed)  # noqa: S311 - it must replay
    rows: list[Row] = []
    stored = 0
    for size in _sizes(streams):
        fill(folder / "acid", stored, size)
        stored = size
        with Server("acid", folder) as server:
            rows += [_appends(server, folder, stored, touched, random) for touched in _touched(size, streams)]
            server.stop()
    say(f"appends of 100 B over {_CONNECTIONS} connections\n" + format_rows(rows))
    _measure_largest(folder, stored, random)


def _sizes(streams: int) -> list[int]:
    return [size for size in (1_000, 10_000, 100_000) if size < streams] + [streams]


def _touched(size: int, streams: int) -> list[int]:
    """Over how many streams appends are spread: one number for the growth of the store, and all in the largest."""
    return [1, 10, 100, 1_000, 10_000, 100_000] if size == streams >= _SITTING else [min(1_000, size)]


def fill(folder: Path, first: int, last: int) -> None:
    """Add streams `first` to `last` to a store, each with one message."""
    for sitting in range(first, last, _SITTING):
        # Opened anew for each sitting: closing waits until all of it is folded, so that memory stays bounded.
        storage = DurableStorage(OsDisk(), folder, salt=7)
        end = min(sitting + _SITTING, last)
        for start in range(sitting, end, _GROUP):
            group = [_creation(number) for number in range(start, min(start + _GROUP, end))]
            storage.persist(group)
            storage.apply(group)
        storage.close()
        say(f"{end:,} streams stored, {store_bytes(folder) / 1e6:,.0f} MB")


def _creation(number: int) -> Change:
    name = stream_path(number).encode()
    identity = Identity(name, number + 1, DEFAULT_CONTENT_TYPE, DEFAULT_CONTENT_TYPE, _LONG_AGO)
    return (Write(Head(identity, len(_MESSAGE), _LONG_AGO), _MESSAGE, (len(_MESSAGE),), created=True),)


def stream_path(number: int) -> str:
    """Where a stream of the store lives."""
    return f"/v1/stream/scale/{number}"


def store_bytes(folder: Path) -> int:
    """How much room a store takes on the disk; a file with holes takes less than it is long."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def usage(pid: int) -> Usage:
    """Look at a process: its files beside sockets, and its own memory."""
    files = 0
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            # It may have been closed since.
            files += not str(entry.readlink()).startswith("socket:")
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    sizes = {
        name: int(kilobytes) * 1024 for name, kilobytes in re.findall(r"^(\w+):\s+(\d+) kB$", status, re.MULTILINE)
    }
    return Usage(files, sizes["RssAnon"])


def _appends(server: Server, folder: Path, stored: int, touched: int, random: Random) -> Row:
    numbers = random.sample(range(stored), touched)
    per_second, latencies_ms = _load(server, numbers, "POST", Bounds(_SECONDS, 1_000_000))
    return Row(
        stored,
        store_bytes(folder),
        touched,
        per_second,
        percentile(latencies_ms, 0.5),
        percentile(latencies_ms, 0.99),
        usage(server.pid),
    )


def _load(server: Server, numbers: Sequence[int], method: str, bounds: Bounds) -> tuple[float, list[float]]:
    """Ask for streams in turn over many connections: how many answers a second, and their latencies in order."""
    body, content_type = (_MESSAGE, _BYTES) if method == "POST" else (b"", None)
    requests = [format_request(method, stream_path(number), body, content_type) for number in numbers]
    plans: list[Iterator[bytes]] = [cycle(requests[place::_CONNECTIONS] or requests) for place in range(_CONNECTIONS)]
    meter = Meter(server.pid)
    expectation = Expectation(204 if method == "POST" else 200)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        load = runner.run(run_closed_loop(server.port, plans, expectation, bounds, meter))
    return len(load.latencies_ns) / meter.elapsed_ns * 1e9, sorted(latency / 1e6 for latency in load.latencies_ns)


def _measure_largest(folder: Path, stored: int, random: Random) -> None:
    """Open the largest store once more, read from and append to streams all over it, and hold it against the aims."""
    server = Server("acid", folder)
    open_secs = server.start()
    opened = usage(server.pid)
    try:
        for _ in range(5):
            numbers = random.sample(range(stored), min(_TOUCHED // 5, stored))
            for method in ("GET", "POST"):
                _load(server, numbers, method, Bounds(60.0, len(numbers)))
        used = usage(server.pid)
    finally:
        server.kill()
    say(
        f"{stored:,} streams: opened in {open_secs:.2f} s (aim < {MAX_OPEN_SECS:g}); {used.files} files beside sockets "
        f"(aim <= {MAX_FILES}); {used.own_bytes / 1e6:.0f} MB of memory beside pages of files "
        f"(aim < {MAX_OWN_BYTES / 1e6:.0f}), {opened.own_bytes / 1e6:.0f} MB after opening"
    )
    if open_secs > MAX_OPEN_SECS or used.files > MAX_FILES or used.own_bytes > MAX_OWN_BYTES:
        raise PromiseBroken(f"a store of {stored:,} streams misses its aims")


def format_rows(rows: Sequence[Row]) -> str:
    """Make the table."""
    lines = ["    streams stored   store MB   streams written   appends/s    p50 ms    p99 ms    own MB   files"]
    lines += [
        f"    {row.stored:14,} {row.store_bytes / 1e6:10,.0f} {row.touched:17,} {row.per_second:11,.0f} "
        f"{row.p50_ms:9.2f} {row.p99_ms:9.2f} {row.usage.own_bytes / 1e6:9.0f} {row.usage.files:7}"
        for row in rows
    ]
    return "\n".join(lines)
