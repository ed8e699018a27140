"""Reads for programs: a page as frames beside the same page as JSON and as bytes, and finding where to begin.

What a client in Python takes to decode a page belongs to its cost. Finding an offset is measured beside a plain HEAD.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter_ns

import msgspec

from bench.extensions.bootstrap import long_stream
from bench.extensions.section import Section
from bench.extensions.size import Size
from bench.extensions.store import serve, store_folder
from bench.extensions.timed_request import Timing, ask, quietest, time_request
from bench.processes import ServerProcess
from bench.streams import SetupFailed, StreamPlan, create_stream, stream_path
from everbrook.protocol.frames import Frames, decode_frames

_JSON, _RAW = stream_path("bench/json"), stream_path("bench/raw")
_BYTES = "application/octet-stream"
_APPEND_BYTES = 10_000
_LAST = 10
_HEADINGS = ("asked for", "p50 ms", "p99 ms", "CPU ms", "KB")
_DECODE_HEADINGS = ("decoded in Python", "ms", "ns per message")

Decode = Callable[[bytes], object]


@dataclass(slots=True)
class _Request:
    title: str
    method: str
    path: str
    timings: list[Timing] = field(default_factory=list)


def measure_reads(mode: str, size: Size) -> list[Section]:
    """Fill a stream of JSON and one of bytes, and read them in every way."""
    with store_folder() as folder:
        with serve(mode, folder) as server:
            _fill(server, size)
            if mode == "memory":
                return _measure(mode, server, size)
        with serve(mode, folder) as server:
            return _measure(mode, server, size)


def _fill(server: ServerProcess, size: Size) -> None:
    create_stream(server.port, _JSON, long_stream(size.messages).streams[0])
    appends = (b"x" * _APPEND_BYTES,) * (size.raw_bytes // _APPEND_BYTES)
    create_stream(server.port, _RAW, StreamPlan(_BYTES, appends))


def _measure(mode: str, server: ServerProcess, size: Size) -> list[Section]:
    requests = _requests(server, size)
    for _ in range(size.rounds):
        for request in requests:
            request.timings.append(time_request(server, request.method, request.path, size.seconds))
    section = Section(f"Reads of {size.messages:,} messages of 20 B, 1 connection: {mode}", _HEADINGS)
    for request in requests:
        _add_row(section, mode, request)
    return [section, *([_decoding(server, size)] if mode == "memory" else [])]


def _requests(server: ServerProcess, size: Size) -> list[_Request]:
    tail = int(ask(server.port, "HEAD", _JSON).headers["stream-next-offset"])
    middle = tail // size.messages * (size.messages // 2)
    at = next(iter(_frames(server, middle))).time
    seeks = [f"offset=-1&skip={size.skip}", f"last={_LAST}", f"at={at}"]
    _require_offsets(server, tail, size, seeks)
    return [
        _Request("a page of bytes", "GET", f"{_RAW}?offset=-1"),
        _Request("a page of JSON", "GET", f"{_JSON}?offset={middle:016}"),
        _Request("a page of frames", "GET", f"{_JSON}?offset={middle:016}&format=frames"),
        _Request("HEAD", "HEAD", _JSON),
        *(_Request(f"HEAD {query}", "HEAD", f"{_JSON}?{query}") for query in seeks),
        _Request(f"GET last={_LAST}", "GET", f"{_JSON}?last={_LAST}"),
    ]


def _frames(server: ServerProcess, offset: int) -> Frames:
    return decode_frames(ask(server.port, "GET", f"{_JSON}?offset={offset:016}&format=frames").body)


def _require_offsets(server: ServerProcess, tail: int, size: Size, seeks: list[str]) -> None:
    """See to it that what is measured is right: all messages are of one length, so every offset can be said."""
    each = tail // size.messages
    found = [int(ask(server.port, "HEAD", f"{_JSON}?{query}").headers["stream-offset"]) for query in seeks]
    if found[:2] != [size.skip * each, tail - _LAST * each] or not 0 <= found[2] <= tail // 2:
        raise SetupFailed(f"{seeks} of a stream of {tail} bytes must not begin at {found}")


def _add_row(section: Section, mode: str, request: _Request) -> None:
    best = quietest(request.timings)
    section.rows.append(
        (
            request.title,
            f"{best.p50_ms:.3f}",
            f"{best.p99_ms:.3f}",
            f"{best.cpu_ms:.3f}",
            f"{best.payload_bytes / 1e3:,.0f}",
        )
    )
    for number, timing in enumerate(request.timings):
        section.samples.append({"mode": mode, "asked_for": request.title, "round": number, **timing.sample()})


def _decoding(server: ServerProcess, size: Size) -> Section:
    """Decode a page in every way, as often as there are rounds of ten; the fastest speaks."""
    page = ask(server.port, "GET", f"{_JSON}?offset=-1").body
    frames = ask(server.port, "GET", f"{_JSON}?offset=-1&format=frames").body
    messages = len(decode_frames(frames))
    if json.loads(page) != [msgspec.json.decode(frame.payload) for frame in decode_frames(frames)]:
        raise SetupFailed("a page of frames must hold the messages of the same page of JSON")
    ways: dict[str, tuple[Decode, bytes]] = {
        "JSON, json.loads": (json.loads, page),
        "JSON, msgspec": (msgspec.json.decode, page),
        "frames, as columns": (decode_frames, frames),
        "frames, each a row": (lambda body: list(decode_frames(body)), frames),
        "frames, each payload by msgspec": (_decode_payloads, frames),
    }
    section = Section(f"Decoding a page of {messages:,} messages of 20 B", _DECODE_HEADINGS)
    for title, (decode, body) in ways.items():
        took_ns = min(_decode_ns(decode, body) for _ in range(10 * size.rounds))
        section.rows.append((title, f"{took_ns / 1e6:.2f}", f"{took_ns / messages:.0f}"))
        section.samples.append({"decoded": title, "ms": took_ns / 1e6, "messages": messages})
    return section


def _decode_payloads(body: bytes) -> list[object]:
    decoder: msgspec.json.Decoder[object] = msgspec.json.Decoder()
    return [decoder.decode(frame.payload) for frame in decode_frames(body)]


def _decode_ns(decode: Decode, body: bytes) -> int:
    begin_ns = perf_counter_ns()
    decode(body)
    return perf_counter_ns() - begin_ns
