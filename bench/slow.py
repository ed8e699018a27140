"""`python -m bench.slow`: what one client notices of 2,000 sockets that send the beginning of a request, very slowly.

The client appends one message after the other, without them, with them, and without them again, in turns on one
server; the median of its p99s with them must be within twice that without.
"""

import argparse
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from statistics import median

from bench.overload.__main__ import start
from bench.processes import HOST, resident_bytes

SOCKETS = 2000
ROUNDS = 7
APPENDS = 1000
PAUSE_SECS = 0.001
# Each of the slow sockets sends a byte so often: that is what keeps it from being cut off.
SLOW_SECS = 10.0
# That 2,000 connections are made at once is another matter: it takes the server a tenth of a second, and is over.
SETTLE_SECS = 0.5
WANTED_RATIO = 2.0
_BEGINNING = b"POST /v1/stream/slow HTTP/1.1\r\nHost: a\r\nX-Slow: "
_APPEND = b"POST /v1/stream/quick HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
_CREATE = b"PUT /v1/stream/quick HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\n\r\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; 1 if the client is held up."""
    parser = argparse.ArgumentParser(prog="bench.slow", description=__doc__)
    parser.add_argument("--mode", default="memory")
    parser.add_argument("--sockets", type=int, default=SOCKETS)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, start(options.mode, folder, control=True, slowed=False) as server:
        without, beside = measure(server.port, options.sockets)
        rss_mb = resident_bytes(server.pid) / 1e6
    alone, attacked = typical(without), typical(beside)
    print(
        f"{options.mode}, {options.sockets:,} slow sockets: p50 {typical(without, 0.5):.3f} -> "
        f"{typical(beside, 0.5):.3f} ms, p99 {alone:.3f} -> {attacked:.3f} ms ({attacked / alone:.2f}x), "
        f"medians of {ROUNDS} rounds of {APPENDS:,} appends; the server holds {rss_mb:.0f} MB"
    )
    return int(attacked > WANTED_RATIO * alone)


def measure(port: int, count: int) -> tuple[list[list[float]], list[list[float]]]:
    """Return the latencies of the client without and beside slow sockets, in turns."""
    without: list[list[float]] = []
    beside: list[list[float]] = []
    with socket.create_connection((HOST, port)) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _ask(client, _CREATE)
        for _ in range(ROUNDS):
            without.append(_append_all(client, []))
            beside.append(_beside(client, port, count))
            time.sleep(0.5)
    return without, beside


def _beside(client: socket.socket, port: int, count: int) -> list[float]:
    slow = []
    try:
        for _ in range(count):
            slow.append(socket.create_connection((HOST, port)))
            slow[-1].sendall(_BEGINNING)
        time.sleep(SETTLE_SECS)
        return _append_all(client, slow)
    finally:
        for each in slow:
            each.close()


def _append_all(client: socket.socket, slow: list[socket.socket]) -> list[float]:
    latencies, began, sent = [], time.perf_counter(), 0
    for _ in range(APPENDS):
        while slow and sent < (time.perf_counter() - began) / SLOW_SECS * len(slow):
            slow[sent % len(slow)].sendall(b"a")
            sent += 1
        time.sleep(PAUSE_SECS)
        latencies.append(_ask(client, _APPEND))
    return latencies


def _ask(client: socket.socket, request: bytes) -> float:
    began = time.perf_counter()
    client.sendall(request)
    answer = client.recv(65536)
    if not answer.startswith((b"HTTP/1.1 204", b"HTTP/1.1 201")):
        raise RuntimeError(f"the client was not served: {answer[:200]!r}")
    return (time.perf_counter() - began) * 1000


def typical(rounds: list[list[float]], share: float = 0.99) -> float:
    """Return the latency that so large a share is not above, in the median round."""
    return median(sorted(latencies)[int(len(latencies) * share)] for latencies in rounds)


if __name__ == "__main__":
    sys.exit(main())
