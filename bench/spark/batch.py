"""Batch reads: as many messages in few streams, and in many."""

import time

from pyspark.sql import Observation
from pyspark.sql.functions import count, lit

from bench.channel import LoadFailed
from bench.extensions.section import Section
from bench.spark.figures import Figure, at_least, section_of
from bench.spark.scene import Scene, Server, names_below

_PREFIX = "batch/"
_AIM = at_least(250_000)


def measure_batch(scene: Scene) -> list[Section]:
    """Read everything from the beginning to the end, into nothing."""
    size = scene.size
    figures = [_figure(scene, streams) for streams in (size.few_streams, size.many_streams)]
    return [section_of("Batch read", figures)]


def _figure(scene: Scene, streams: int) -> Figure:
    messages = scene.size.messages
    figure = Figure(case=f"batch read of {messages:,} in {streams:,} streams", unit="messages/s", aim=_AIM)
    names = names_below(_PREFIX, streams)
    with scene.servers() as servers:
        for server in servers:
            server.fill(names, messages)
            _read(scene, server, names)  # what is slower the first time is Java's
        for _ in range(scene.size.rounds):
            for server in servers:
                took = _read(scene, server, names)
                (figure.ours if server.ours else figure.theirs).append(messages / took)
    return figure


def _read(scene: Scene, server: Server, names: list[str]) -> float:
    rows = Observation("rows")
    table = scene.batch(server.select(names, _PREFIX)).observe(rows, count(lit(1)).alias("count"))
    began = time.perf_counter()
    table.write.format("noop").mode("overwrite").save()
    took = time.perf_counter() - began
    if rows.get["count"] != scene.size.messages:
        raise LoadFailed(f"{scene.size.messages} messages were there, {rows.get['count']} rows came")
    return took
