"""Latency: from before an append to the arrival of its row, one message at a time on a stream that rests otherwise.

The row has arrived when `foreachBatch` holds it as an Arrow table; that of a copy, when a follower of it has it.
"""

import random
import threading
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import cast

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

import everbrook.spark
from bench.channel import LoadFailed
from bench.extensions.section import Section
from bench.spark.figures import Aim, Figure, at_most, section_of
from bench.spark.scene import Scene, Server
from everbrook import Client

_SHORTEST_PAUSE_SECS, _LONGEST_PAUSE_SECS = 0.03, 0.13
_PATIENCE_SECS = 60.0
_TAIL = 0.99
_NO_SIZES = "its offsets do not say how much a batch is, so tasks read every batch"


class Arrivals:
    """Knows when each message has come."""

    def __init__(self) -> None:
        self._at: dict[int, float] = {}
        self._changed = threading.Condition()

    def add(self, number: int) -> None:
        """Note that a message is here."""
        with self._changed:
            self._at[number] = time.perf_counter()
            self._changed.notify_all()

    def wait(self, number: int) -> float:
        """Wait for a message, and tell when it came."""
        with self._changed:
            if not self._changed.wait_for(lambda: number in self._at, _PATIENCE_SECS):
                raise LoadFailed(f"message {number} did not come within {_PATIENCE_SECS:g} s")
            return self._at[number]


Start = Callable[[Scene, DataFrame, Server, Arrivals], StreamingQuery]


def measure_latency(scene: Scene) -> list[Section]:
    """Measure both ways of reading, and a whole copy."""
    figures = [
        _figure(scene, "append to processed row, through executors", "tasks", _collect, at_most(80)),
        _figure(scene, "append to processed row, on the driver", "auto", _collect, at_most(50), _NO_SIZES),
        _figure(scene, "append to its copy in another stream, write_stream", "auto", _copy, None),
    ]
    return [section_of(f"Latency, p50 of {scene.size.appends} appends", figures)]


def _figure(scene: Scene, case: str, read_on: str, start: Start, aim: Aim | None, missing: str = "") -> Figure:
    figure = Figure(case=case, unit="ms", aim=aim, missing=missing)
    with scene.servers() as servers:
        for server in servers:
            if server.ours or not missing:
                waits = _waits(scene, server, read_on, start, figure)
                (figure.ours if server.ours else figure.theirs).append(median(waits))
                whose = "ours" if server.ours else "reference"
                figure.remarks.append(f"{case}, {whose}: p99 {_p99(waits):.0f} ms, least {min(waits):.0f} ms.")
    return figure


def _p99(waits: list[float]) -> float:
    return sorted(waits)[int(len(waits) * _TAIL)]


def _waits(scene: Scene, server: Server, read_on: str, start: Start, figure: Figure) -> list[float]:
    arrivals = Arrivals()
    with Client(server.url) as client:
        for name in ("source", "copy"):
            client.stream(name).create()
        query = start(scene, scene.stream({"url": server.url, "stream": "source", "readOn": read_on}), server, arrivals)
        try:
            waits = list(_append(scene, client, arrivals))
        finally:
            query.stop()
    if server.ours:
        figure.remarks.append(_anatomy(figure.case, query))
    return waits[scene.size.warm_appends :]


def _append(scene: Scene, client: Client, arrivals: Arrivals) -> Iterator[float]:
    """Append one message after the other, each after a pause once the last has come."""
    pauses = random.Random(1)
    for number in range(scene.size.warm_appends + scene.size.appends):
        began = time.perf_counter()
        client.stream("source").append(number)
        yield (arrivals.wait(number) - began) * 1000
        time.sleep(pauses.uniform(_SHORTEST_PAUSE_SECS, _LONGEST_PAUSE_SECS))


def _anatomy(case: str, query: StreamingQuery) -> str:
    """Return what Spark took how long for in its last batches."""
    spans = [progress.durationMs for progress in query.recentProgress if progress.numInputRows]
    names = ("walCommit", "queryPlanning", "addBatch", "commitOffsets")
    parts = [f"{name} {median(span.get(name, 0) for span in spans):.0f}" for name in names] if spans else ["unknown"]
    return f"{case}, ours, ms of a batch: {', '.join(parts)}."


def _collect(scene: Scene, rows: DataFrame, server: Server, arrivals: Arrivals) -> StreamingQuery:  # noqa: ARG001
    def take(batch: DataFrame, _number: int) -> None:
        for value in batch.toArrow().column("value").to_pylist():
            arrivals.add(int(value))

    return rows.writeStream.foreachBatch(take).option("checkpointLocation", scene.checkpoint()).start()


def _copy(scene: Scene, rows: DataFrame, server: Server, arrivals: Arrivals) -> StreamingQuery:
    threading.Thread(target=_follow, args=(server.url, arrivals, scene), daemon=True).start()
    query = everbrook.spark.write_stream(rows.select("value"), scene.checkpoint(), stream="copy", url=server.url)
    return cast("StreamingQuery", query)


def _follow(url: str, arrivals: Arrivals, scene: Scene) -> None:
    last = scene.size.warm_appends + scene.size.appends - 1
    with Client(url) as client:
        for number in client.stream("copy").follow():
            arrivals.add(int(number))
            if number == last:
                return
