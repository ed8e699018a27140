"""The streams and the subscriptions of a run: each subscription has a glob, which matches a folder of streams."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.channel import Expectation
from bench.extensions.bulk_fill import create_streams, send_all
from bench.processes import ServerProcess, free_port
from bench.requests import format_request
from bench.streams import StreamPlan, create_stream, stream_path
from bench.subjects import HIGH
from bench.subscriptions.size import Size

WAKE_STREAM = "wake/bench"
# Streams below here are nobody's.
APART = "apart"
APART_FOLDERS = 100
BODY = b"x" * 100
BYTES = "application/octet-stream"
# Long enough that nothing lapses while it is measured.
LEASE_TTL_MS = 600_000
# Closing may have to fold all that was written.
_STOP_TIMEOUT_SECS = 60.0
_ENVIRONMENT = {
    "DS_LIMITS__MAX_MEMORY_BYTES": HIGH,
    "DS_LIMITS__MAX_STREAM_BYTES": HIGH,
    "DS_LOG__LEVEL": "error",
    "DS_WEBHOOKS__ALLOW_LOOPBACK_HTTP": "true",
}


def serve(mode: str, folder: Path) -> ServerProcess:
    """Describe a server on a folder. A mode without a disk leaves it empty."""
    port = free_port()
    command = [str(Path(sys.executable).with_name("everbrook")), "serve", "--port", str(port), "--storage", mode]
    command += ["--data-dir", str(folder)] if mode != "memory" else []
    return ServerProcess(command, _ENVIRONMENT, port, stop_timeout_secs=_STOP_TIMEOUT_SECS)


def path_of(folder: int, number: int, below: str = "bench") -> str:
    """Return the path of a stream below the stream root."""
    return f"{below}/{folder:05d}/{number}"


def name_of(folder: int) -> str:
    """Return the id of the subscription to a folder."""
    return f"sub-{folder:05d}"


def fill(port: int, size: Size) -> None:
    """Create the streams, each with a message, and the stream that wakes are written to."""
    numbers = [(folder, number) for folder in range(size.subscriptions) for number in range(size.streams_each)]
    create_streams(port, [stream_path(path_of(*each)) for each in numbers], BODY)
    create_streams(port, [stream_path(path_of(folder, 0, APART)) for folder in range(APART_FOLDERS)], BODY)
    create_stream(port, stream_path(WAKE_STREAM), StreamPlan("application/json"))


def webhook(url: str) -> dict[str, Any]:
    """Describe delivery to a receiver."""
    return {"type": "webhook", "webhook": {"url": url}}


PULL: Mapping[str, Any] = {"type": "pull-wake", "wake_stream": WAKE_STREAM}


def subscribe(port: int, folders: range, delivery: Mapping[str, Any], below: str = "bench") -> None:
    """Create a subscription for each of some folders, whose glob matches all in it."""
    requests = [
        format_request(
            "PUT",
            stream_path(f"__ds/subscriptions/{name_of(folder)}"),
            json.dumps({**delivery, "pattern": f"{below}/{folder:05d}/*", "lease_ttl_ms": LEASE_TTL_MS}).encode(),
            "application/json",
        )
        for folder in folders
    ]
    send_all(port, requests, Expectation(201))


def append_request(folder: int, number: int, below: str = "bench") -> bytes:
    """Format an append."""
    return format_request("POST", stream_path(path_of(folder, number, below)), BODY, BYTES)
