"""What a start takes with all subscriptions, beside the same store without any: until it answers, and in memory."""

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from bench.extensions.section import Section
from bench.extensions.store import store_folder
from bench.extensions.timed_request import ask
from bench.meter import Meter
from bench.processes import process_cpu_ns, resident_bytes
from bench.streams import stream_path
from bench.subscriptions.scene import PULL, fill, name_of, serve, subscribe
from bench.subscriptions.size import Size

_HEADINGS = ("subscriptions", "first answer s", "at rest after CPU s", "RSS MB")


@dataclass(frozen=True, slots=True)
class Start:
    """One start."""

    subscriptions: int
    round: int
    first_answer_secs: float
    rested_cpu_secs: float
    rss_mb: float


def measure_starting(mode: str, size: Size) -> list[Section]:
    """Start on the same store again and again, before there are subscriptions and after. Memory alone has no store."""
    if mode == "memory":
        return []
    starts: list[Start] = []
    with store_folder() as folder:
        with serve(mode, folder) as server:
            fill(server.port, size)
        starts += [_start(mode, folder, 0, number) for number in range(size.rounds)]
        with serve(mode, folder) as server:
            subscribe(server.port, range(size.subscriptions), PULL)
        starts += [_start(mode, folder, size.subscriptions, number) for number in range(size.rounds)]
    return [_section(mode, size, starts)]


def _start(mode: str, folder: Path, subscriptions: int, number: int) -> Start:
    begin = time.monotonic()
    with serve(mode, folder) as server:
        path = f"__ds/subscriptions/{name_of(0)}" if subscriptions else "__ds/jwks.json"
        ask(server.port, "GET", stream_path(path))
        secs = time.monotonic() - begin
        Meter(server.pid).wait_until_idle()
        return Start(subscriptions, number, secs, process_cpu_ns(server.pid) / 1e9, resident_bytes(server.pid) / 1e6)


def _section(mode: str, size: Size, starts: list[Start]) -> Section:
    section = Section(f"Starting with {size.streams:,} streams: {mode}", _HEADINGS)
    section.samples += [{"mode": mode, **asdict(start)} for start in starts]
    for subscriptions in (0, size.subscriptions):
        mine = [start for start in starts if start.subscriptions == subscriptions]
        section.rows.append(
            (
                f"{subscriptions:,}",
                f"{median(start.first_answer_secs for start in mine):.2f}",
                f"{median(start.rested_cpu_secs for start in mine):.2f}",
                f"{median(start.rss_mb for start in mine):.0f}",
            )
        )
    return section
