"""The catch-up load follows pages to the end of a stream, and notices when something is missing."""

import asyncio
import os
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from bench.catchup import CatchUp
from bench.channel import LoadFailed
from bench.load import Bounds, Load, Target
from bench.meter import Meter

CASE = CatchUp(name="catch-up", title="", messages=4, message_bytes=10)
MESSAGE = b'"%b"' % (b"x" * 8)
FULL = b"[%b,%b]" % (MESSAGE, MESSAGE)
Page = tuple[int, bytes, str]


class Reader(BaseHTTPRequestHandler):
    """Gives the first page to who starts, and the second to who follows."""

    protocol_version = "HTTP/1.1"
    pages: dict[str, Page]

    def do_GET(self) -> None:
        status, body, next_offset = self.pages[self.path.partition("offset=")[2]]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Stream-Next-Offset", next_offset)
        if next_offset == "4":
            self.send_header("Stream-Up-To-Date", "true")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


class HastyMeter(Meter):
    """Meters this process, which is never idle."""

    def __init__(self) -> None:
        super().__init__(os.getpid())

    def wait_until_idle(self) -> None:
        """Begin at once."""


def read(pages: dict[str, Page]) -> Load:
    handler = type("Pages", (Reader,), {"pages": pages})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        try:
            target = Target(server.server_port, ("/v1/stream/a",), ("4",))
            return asyncio.run(CASE.load(target, Bounds(60, 1), HastyMeter()))
        finally:
            thread.join()


def test_a_reader_follows_the_pages_until_it_is_up_to_date() -> None:
    seen = read({"-1": (200, FULL, "2"), "2": (200, FULL, "4")})

    assert len(seen.latencies_ns) == 2
    assert seen.done == 2 * len(FULL) / 1e6


def test_a_message_that_is_missing_fails_the_run() -> None:
    with pytest.raises(LoadFailed, match="expected a payload of 46 bytes in 2 pages, got 35"):
        read({"-1": (200, FULL, "2"), "2": (200, b"[%b]" % MESSAGE, "4")})


def test_a_refusal_fails_the_run() -> None:
    with pytest.raises(LoadFailed, match="got 410"):
        read({"-1": (410, b"gone", "4")})


def test_the_stream_is_as_long_as_it_says() -> None:
    case = CatchUp(name="catch-up", title="", messages=20_000)
    (plan,) = case.streams

    assert len(plan.messages) == 2
    assert len(plan.messages[0]) == 10_000 * 101 + 1
