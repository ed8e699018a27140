"""Streams of every kind to be exported, servers to import them to, and how two servers are compared."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from everbrook import Bucket, Client, Stream
from everbrook.server.assembly import open_storage
from everbrook.settings import StorageMode
from tests.kit.server_process import EVERBROOK, serving
from tests.kit.server_thread import RunningServer, configured

TIMEOUT_SECS = 120


@contextmanager
def server_in(folder: Path, mode: str = "memory") -> Iterator[str]:
    """A server of a storage mode, with its data in a folder, in a process of its own."""
    folder.mkdir(exist_ok=True)
    with serving(folder, DS_STORAGE__MODE=mode, DS_STORAGE__DATA_DIR="data") as server:
        yield "http://{}:{}".format(*server.address)


@contextmanager
def running_in(folder: Path, mode: str = "memory", **settings: object) -> Iterator[str]:
    """The same in a thread of this process, which starts at once."""
    folder.mkdir(exist_ok=True)
    chosen = configured(storage__mode=StorageMode(mode), storage__data_dir=str(folder / "data"), **settings)
    with RunningServer(chosen, open_storage(chosen)) as server:
        yield server.origin


def fill(url: str) -> None:
    """Make streams of every kind."""
    with Client(url) as client:
        values = client.stream("values")
        values.create(retention="max-messages=100000")
        values.extend([{"n": number, "text": "é\n"} for number in range(3000)])
        text = client.stream("some/text")
        text.create(content_type="text/plain; charset=utf-8", ttl_secs=3600)
        for message in (b"one\n", b"two", "é".encode()[:1], "é".encode()[1:]):
            text.append(message)
        binary = client.stream("binary")
        binary.create(content_type="application/octet-stream")
        binary.append(b"\x00\xff\n")
        binary.close(b"\xfe")
        cut = client.stream("cut")
        cut.create()
        cut.extend(range(10))
        cut.publish(b'{"sum": 10}', offset="0000000000000010")
        cut.fork("fork")
        cut.append(10)
        client.stream("empty").create(closed=True)
        client.bucket("agents").create(retention="max-age=86400")
        client.bucket("agents").stream("user 1").create(data=[1, 2], content_type="application/json")


def contents(url: str) -> dict[str, Any]:
    """Everything that a server has, but for times, and counted from where each stream begins."""
    with Client(url) as client:
        roots: dict[str, Client | Bucket] = {
            "": client,
            **{bucket.name: client.bucket(bucket.name) for bucket in client.buckets()},
        }
        return {
            f"{bucket}/{info.name}": described(root.stream(info.name))
            for bucket, root in roots.items()
            for info in root.list()
        }


def described(stream: "Stream[Any]") -> list[Any]:
    head, snapshot = stream.head(), stream.snapshot()
    earliest = int(head.earliest_offset or 0)
    frames = [frame for page in stream.frames(f"{earliest:016}") for frame in page]
    return [
        (head.content_type, head.closed, head.ttl_secs, head.expires_at, head.retention, int(head.offset) - earliest),
        snapshot and (int(snapshot.offset) - earliest, snapshot.data, snapshot.content_type),
        [(frame.offset - earliest, frame.payload) for frame in frames],
    ]


def everbrook(*args: str, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    line = [EVERBROOK, *args]
    return subprocess.run(line, cwd=cwd, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECS)


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
