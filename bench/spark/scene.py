"""What every part needs: a session of Spark, and both servers with streams of JSON in them.

A part gets servers of its own, which are empty and are gone after it.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from pyspark.sql import DataFrame, DataFrameReader, SparkSession

import everbrook.spark
from bench.channel import Expectation
from bench.extensions.bulk_fill import send_all
from bench.processes import HOST
from bench.requests import format_request
from bench.spark.size import Size
from bench.streams import stream_path
from bench.subjects import SUBJECTS

_OURS, _THEIRS = "everbrook-memory", "node-memory"
_JSON = "application/json"
_CHUNK = 1_000
CONFIG = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.memory": "2g",
}
_numbers = count()


@dataclass(frozen=True, slots=True)
class Server:
    """A server that runs. Ours can list its streams and bound reads; of the other streams are known by name."""

    port: int
    ours: bool

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://{HOST}:{self.port}"

    def fill(self, names: Sequence[str], messages: int) -> None:
        """Create streams, and part as many messages among them."""
        puts = [format_request("PUT", stream_path(name), b"", _JSON) for name in names]
        send_all(self.port, puts, Expectation(201))
        each = messages // len(names)
        parts = [(name, first) for name in names for first in range(0, each, _CHUNK)]
        posts = [
            format_request("POST", stream_path(name), body(first, min(_CHUNK, each - first)), _JSON)
            for name, first in parts
        ]
        if posts:
            send_all(self.port, posts, Expectation(204))

    def select(self, names: Sequence[str], prefix: str) -> dict[str, str]:
        """Say which streams are read: those that begin so, or where there is no list, each by its name."""
        return {"url": self.url} | ({"streamPrefix": prefix} if self.ours else {"streams": ",".join(names)})


def body(first: int, messages: int) -> bytes:
    """Make messages of about 100 bytes, as one append has them."""
    return b"[" + b",".join(_message(number) for number in range(first, first + messages)) + b"]"


def _message(number: int) -> bytes:
    return b'{"id":%9d,"item":"tea","amount":12.5,"at":"2026-01-01T10:00:00Z","note":"%020d"}' % (number, number)


def names_below(prefix: str, streams: int) -> list[str]:
    """Name so many streams."""
    return [f"{prefix}{number:05d}" for number in range(streams)]


@dataclass(frozen=True, slots=True)
class Scene:
    """The session, a folder for checkpoints, and how much is to be done."""

    spark: SparkSession
    folder: Path
    size: Size

    @contextmanager
    def servers(self) -> Iterator[list[Server]]:
        """Run our server, and behind it in the list the reference if it takes part."""
        with ExitStack() as stack:
            names = [_OURS, _THEIRS] if self.size.reference else [_OURS]
            started = [stack.enter_context(SUBJECTS[name].start()) for name in names]
            yield [Server(process.port, ours=place == 0) for place, process in enumerate(started)]

    def checkpoint(self) -> str:
        """Return a folder for the checkpoint of a query that was never run."""
        return str(self.folder / f"checkpoint-{next(_numbers)}")

    def stream(self, options: dict[str, str]) -> DataFrame:
        """Read streams from their beginnings, as they grow."""
        reader = self.spark.readStream.format("everbrook").options(startingOffsets="earliest", **options)
        return reader.load()

    def batch(self, options: dict[str, str]) -> DataFrame:
        """Read what streams hold."""
        reader: DataFrameReader = self.spark.read.format("everbrook").options(**options)
        return reader.load()


@contextmanager
def open_scene(folder: Path, size: Size) -> Iterator[Scene]:
    """Start Spark on two cores. Nothing that is set for the user's own servers may count."""
    os.environ.pop("EVERBROOK_URL", None)
    spark = everbrook.spark.session("bench", master="local[2]", config=CONFIG)
    try:
        yield Scene(spark, folder, size)
    finally:
        spark.stop()
