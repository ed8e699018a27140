"""What goes on beside the appends, in a process of its own: snapshots are published, or as much is written to the disk.

Run as `python -m bench.extensions.publisher snapshot PORT PATH BYTES SECONDS`, or `… file PACE FOLDER BYTES SECONDS` to
write each file in PACE seconds. When ready it says so, waits for a line on its standard input, goes on for so long, and
prints how many seconds each took.
"""

import http.client
import json
import os
import sys
import time
from pathlib import Path

from bench.processes import HOST

_TIMEOUT_SECS = 60.0
_NO_CONTENT = 204
# As the server does it: a sync of everything at once would hold up those of others for longer.
_SYNC_BYTES = 4 * 1024 * 1024


def publish(port: int, path: str, body: bytes) -> None:
    """Publish a snapshot at the tail of a stream."""
    connection = http.client.HTTPConnection(HOST, port, timeout=_TIMEOUT_SECS)
    try:
        connection.request("HEAD", path)
        answer = connection.getresponse()
        answer.read()
        offset = answer.getheader("Stream-Next-Offset", "")
        connection.request("PUT", f"{path}/__ds/snapshot/{offset}", body)
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    if answer.status != _NO_CONTENT:
        raise SystemExit(
            f"publishing at {offset} must be answered with {_NO_CONTENT}, got {answer.status}: {content!r}"
        )


def write_file(folder: str, body: bytes, pace_secs: float) -> None:
    """Write a file of as many bytes in as much time, sync it as it grows, and remove it."""
    path, view, begin = Path(folder) / "bystander", memoryview(body), time.perf_counter()
    with path.open("wb", buffering=0) as file:
        for start in range(0, len(view), _SYNC_BYTES):
            file.write(view[start : start + _SYNC_BYTES])
            os.fdatasync(file.fileno())
            due = begin + pace_secs * min(start + _SYNC_BYTES, len(view)) / len(view)
            time.sleep(max(0.0, due - time.perf_counter()))
    path.unlink()


def main(kind: str, port_or_pace: str, place: str, size: str, seconds: str) -> None:
    """Do one thing again and again, at least once."""
    body = os.urandom(1_000_000) * (int(size) // 1_000_000) + bytes(int(size) % 1_000_000)
    took: list[float] = []
    print("ready", flush=True)
    sys.stdin.readline()
    begin = time.perf_counter()
    while not took or time.perf_counter() - begin < float(seconds):
        start = time.perf_counter()
        if kind == "snapshot":
            publish(int(port_or_pace), place, body)
        else:
            write_file(place, body, float(port_or_pace))
        took.append(time.perf_counter() - start)
    print(json.dumps(took))


if __name__ == "__main__":
    main(*sys.argv[1:])
