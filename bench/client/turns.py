"""The turns: each client takes one for each case in each round, in a process of its own, on one server."""

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from bench.channel import LoadFailed
from bench.processes import HOST
from bench.streams import StreamPlan, create_stream, delete_stream, stream_path
from bench.summary import percentile
from tools.node import find_node, install_packages

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
TURN_SECS = 300.0
THEIRS, ASYNC, SYNC = "TypeScript", "async", "sync"
CLIENTS = (THEIRS, ASYNC, SYNC)
JSON = "application/json"
_FILL_BATCH = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What each client does: `messages` of about 50 bytes and `room_bytes` more."""

    name: str
    title: str
    messages: int
    warm: int = 0
    room_bytes: int = 50
    filled: bool = False
    live: bool = False
    burst: int = 0
    rate: float = 0.0


@dataclass(frozen=True, slots=True)
class Turn:
    """What a turn came to. Latencies are those from before an append to the message's arrival."""

    case: str
    client: str
    round: int
    per_second: float
    cpu_us: float
    p50_ms: float
    p99_ms: float


def command(client: str, case: str, options: Mapping[str, object]) -> list[str]:
    """Give how a client is started for a case."""
    given = json.dumps(options)
    if client == THEIRS:
        node = find_node()
        install_packages(FOLDER, node)
        return [str(node.executable), str(FOLDER / "driver.mjs"), case, given]
    return [sys.executable, "-m", "bench.client.driver", client, case, given]


def take_turn(port: int, case: Case, client: str, round_number: int) -> Turn:
    """Let a client do what a case says, on a stream of its own."""
    with _stream(port, case) as url:
        driver = "follow" if case.live else case.name
        options = {"url": url, "messages": case.messages, "warm": case.warm, "bytes": case.room_bytes}
        result = (
            _follow(url, case, command(client, driver, options))
            if case.live
            else _run(command(client, driver, options))
        )
    return turn_of(case, client, round_number, result)


def turn_of(case: Case, client: str, round_number: int, result: Mapping[str, Any]) -> Turn:
    """Return the figures of a client that has done all that it was to do."""
    if result["done"] != case.messages or result.get("last", case.messages - 1) != case.messages - 1:
        raise LoadFailed(f"{client} was to do {case.messages} in {case.name!r}, and did {result['done']}")
    latencies = sorted(result.get("latencies", ())) or [0.0]
    return Turn(
        case.name,
        client,
        round_number,
        result["done"] / result["took"],
        result["cpu"] * 1e6 / result["done"],
        percentile(latencies, 0.50),
        percentile(latencies, 0.99),
    )


def _run(arguments: list[str]) -> dict[str, Any]:
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, timeout=TURN_SECS, check=False)
    if done.returncode:
        raise LoadFailed(f"a client ended with {done.returncode}: {done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _follow(url: str, case: Case, arguments: list[str]) -> dict[str, Any]:
    """Start a follower, and append once it is there."""
    with subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None  # noqa: S101 - it was asked for
            if process.stdout.readline() != "ready\n":
                raise LoadFailed("a follower ended before it began")
            time.sleep(0.5)
            _append_live(url, case)
            result: dict[str, Any] = json.loads(process.stdout.readline())
            return result
        finally:
            process.kill()


def _append_live(url: str, case: Case) -> None:
    """Append in bursts, or one message at a time at a rate; each says when it was about to be appended."""
    room = b"x" * case.room_bytes
    begin = time.perf_counter()
    with httpx2.Client() as http:
        for number in range(0, case.messages, case.burst):
            if case.rate:
                time.sleep(max(0.0, begin + number / case.rate - time.perf_counter()))
            message = b'{"kind":"bench","at":%.3f,"room":"%b"}' % (time.time() * 1000, room)
            body = b"[%b]" % b",".join([message] * case.burst)
            http.post(url, content=body, headers={"Content-Type": JSON}).raise_for_status()


@contextlib.contextmanager
def _stream(port: int, case: Case) -> Iterator[str]:
    """Yield a stream: one that is read keeps its messages for all turns, any other is new for each."""
    path = stream_path(f"bench-{case.name if case.filled else time.monotonic_ns()}")
    if not (case.filled and path in _filled):
        create_stream(port, path, StreamPlan(JSON, tuple(batches(case)) if case.filled else ()))
        _filled.add(path)
    yield f"http://{HOST}:{port}{path}"
    if not case.filled:
        delete_stream(port, path)


_filled: set[str] = set()


def batches(case: Case) -> Iterator[bytes]:
    room = "x" * case.room_bytes
    for start in range(0, case.messages, _FILL_BATCH):
        numbers = range(start, min(start + _FILL_BATCH, case.messages))
        yield json.dumps(
            [{"id": number, "kind": "bench", "value": number / 2, "room": room} for number in numbers],
            separators=(",", ":"),
        ).encode()
