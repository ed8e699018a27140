"""Bootstraps of a stream of very many small messages, by a client that reads fast and by one that reads slowly.

The server must not take more than 64 MB for one. Beside it the same stream is read page by page.
"""

import asyncio
import http.client
import re
import time
from dataclasses import asdict, dataclass
from statistics import median

from bench.catchup import CatchUp
from bench.channel import LoadFailed
from bench.extensions.memory import ExtraMemory
from bench.extensions.section import Section, verdict
from bench.extensions.size import Size
from bench.extensions.store import serve, store_folder
from bench.load import Bounds, Target
from bench.meter import Meter
from bench.processes import HOST, ServerProcess
from bench.streams import create_stream, stream_path

MAX_EXTRA_BYTES = 64_000_000

_PATH = stream_path("bench/long")
_MESSAGE_BYTES = 20
_BUFFER_BYTES = 64 * 1024
_TIMEOUT_SECS = 60.0
_CONTENT_TYPE = re.compile(r"multipart/mixed; boundary=(\S+)\Z")
_HEADINGS = ("read", "messages/s", "MB/s", "CPU µs/message", "seconds", "extra MB")


@dataclass(frozen=True, slots=True)
class Transfer:
    """One whole read of the stream."""

    read: str
    round: int
    messages: int
    body_bytes: int
    elapsed_secs: float
    cpu_secs: float
    extra_bytes: int


def long_stream(messages: int) -> CatchUp:
    """Describe the stream, and how it is read page by page."""
    return CatchUp(name="catch-up", title="", messages=messages, message_bytes=_MESSAGE_BYTES)


def measure_bootstrap(mode: str, size: Size) -> list[Section]:
    """Fill a stream, and read it in each way in turn."""
    case = long_stream(size.messages)
    with store_folder() as folder:
        with serve(mode, folder) as server:
            create_stream(server.port, _PATH, case.streams[0])
            if mode == "memory":
                return [_section(mode, case, _transfers(server, case, size))]
        # Opened again, nothing is left of the memory that filling took, and all that is taken is seen.
        with serve(mode, folder) as server:
            return [_section(mode, case, _transfers(server, case, size))]


def _transfers(server: ServerProcess, case: CatchUp, size: Size) -> list[Transfer]:
    transfers = []
    for number in range(size.rounds):
        transfers += [
            _take(server, case, "bootstrap, fast", number, None),
            _take(server, case, "bootstrap, slow", number, size.slow_bytes_per_second),
            _catch_up(server, case, number),
        ]
    return transfers


def _take(server: ServerProcess, case: CatchUp, read: str, number: int, bytes_per_second: float | None) -> Transfer:
    meter = Meter(server.pid)
    meter.wait_until_idle()
    with ExtraMemory(server.pid) as memory, meter:
        body_bytes = bootstrap(server.port, case, bytes_per_second)
    return Transfer(
        read,
        number,
        case.messages,
        body_bytes,
        meter.elapsed_ns / 1e9,
        meter.server_cpu_ns / 1e9,
        memory.extra_bytes,
    )


def _catch_up(server: ServerProcess, case: CatchUp, number: int) -> Transfer:
    meter = Meter(server.pid)
    with ExtraMemory(server.pid) as memory:
        load = asyncio.run(case.load(Target(server.port, (_PATH,), ("",)), Bounds(0.0, 1), meter))
    return Transfer(
        "page by page",
        number,
        case.messages,
        int((load.done or 0.0) * 1e6),
        meter.elapsed_ns / 1e9,
        meter.server_cpu_ns / 1e9,
        memory.extra_bytes,
    )


def bootstrap(port: int, case: CatchUp, bytes_per_second: float | None) -> int:
    """Read a bootstrap, no faster than told. Returns the length of its body, which must be that of its parts."""
    connection = http.client.HTTPConnection(HOST, port, timeout=_TIMEOUT_SECS)
    try:
        connection.request("GET", f"{_PATH}/__ds/bootstrap")
        answer = connection.getresponse()
        match = _CONTENT_TYPE.match(answer.getheader("Content-Type", ""))
        if match is None:
            raise LoadFailed(f"a bootstrap must be multipart/mixed, got {answer.status}: {answer.read(400)!r}")
        received = _receive(answer, bytes_per_second)
    finally:
        connection.close()
    expected = body_bytes(match[1], case)
    if received != expected:
        raise LoadFailed(f"expected a body of {expected} bytes, got {received}")
    return received


def _receive(answer: http.client.HTTPResponse, bytes_per_second: float | None) -> int:
    buffer, received, begin = memoryview(bytearray(_BUFFER_BYTES)), 0, time.perf_counter()
    while size := answer.readinto(buffer):
        received += size
        if bytes_per_second:
            time.sleep(max(0.0, begin + received / bytes_per_second - time.perf_counter()))
    return received


def body_bytes(boundary: str, case: CatchUp) -> int:
    """Say how long the bootstrap of the stream is: an empty part, one for each message, and the end."""
    first = f"--{boundary}\r\nContent-Type: application/octet-stream\r\n\r\n"
    part = f"\r\n--{boundary}\r\nContent-Type: application/json\r\n\r\n"
    return len(first) + case.messages * (len(part) + case.message_bytes) + len(f"\r\n--{boundary}--\r\n")


def _section(mode: str, case: CatchUp, transfers: list[Transfer]) -> Section:
    section = Section(f"Bootstrap of {case.messages:,} messages of {case.message_bytes} B: {mode}", _HEADINGS)
    for read in dict.fromkeys(transfer.read for transfer in transfers):
        section.rows.append(_row([transfer for transfer in transfers if transfer.read == read]))
    section.samples += [{"mode": mode, **asdict(transfer)} for transfer in transfers]
    extra = max(transfer.extra_bytes for transfer in transfers if transfer.read.startswith("bootstrap"))
    claim = f"Most extra memory of a bootstrap in any round {extra / 1e6:.1f} MB, aim < {MAX_EXTRA_BYTES / 1e6:g}"
    section.remarks.append(verdict(claim, met=extra < MAX_EXTRA_BYTES))
    return section


def _row(transfers: list[Transfer]) -> tuple[str, ...]:
    """Speed from the quietest round; the most memory that any round took."""
    best = min(transfers, key=lambda transfer: transfer.elapsed_secs)
    cpu_us = median(transfer.cpu_secs / transfer.messages * 1e6 for transfer in transfers)
    return (
        best.read,
        f"{best.messages / best.elapsed_secs:,.0f}",
        f"{best.body_bytes / best.elapsed_secs / 1e6:,.0f}",
        f"{cpu_us:.2f}",
        f"{best.elapsed_secs:.2f}",
        f"{max(transfer.extra_bytes for transfer in transfers) / 1e6:.1f}",
    )
