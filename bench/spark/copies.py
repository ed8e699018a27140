"""Stream to stream: streams are copied to others of the same server, exactly once, until there is nothing left."""

import time
from collections.abc import Callable
from itertools import count

from pyspark.sql import DataFrame

import everbrook.spark
from bench.channel import LoadFailed
from bench.extensions.section import Section
from bench.spark.figures import Figure, at_least, section_of
from bench.spark.scene import Scene, Server, names_below
from everbrook import Client

_FROM, _TO = "from/", "to"
_AIM = at_least(100_000)
_runs = count()

Write = Callable[[Scene, DataFrame, Server], None]


def measure_copying(scene: Scene) -> list[Section]:
    """Copy with the helper, and with the plain sink."""
    ways = {"the helper write_stream": _helper, "the plain sink": _plain}
    figures = [_figure(scene, way, write) for way, write in ways.items()]
    return [section_of(f"Stream to stream, {scene.size.few_streams} streams", figures)]


def _figure(scene: Scene, way: str, write: Write) -> Figure:
    figure = Figure(case=f"stream to stream with {way}", unit="messages/s", aim=_AIM)
    names = names_below(_FROM, scene.size.few_streams)
    with scene.servers() as servers:
        for server in servers:
            server.fill(names, scene.size.copied)
            _copy(scene, server, names, write)
        for _ in range(scene.size.rounds):
            for server in servers:
                took = _copy(scene, server, names, write)
                (figure.ours if server.ours else figure.theirs).append(scene.size.copied / took)
    return figure


def _copy(scene: Scene, server: Server, names: list[str], write: Write) -> float:
    folder = f"{_TO}-{next(_runs)}/"
    rows = scene.stream(server.select(names, _FROM))
    copies = rows.selectExpr(f"replace(stream, '{_FROM}', '{folder}') AS stream", "value", "offset")
    began = time.perf_counter()
    write(scene, copies, server)
    took = time.perf_counter() - began
    _check(server, names, folder, scene.size.copied // len(names))
    return took


def _helper(scene: Scene, copies: DataFrame, server: Server) -> None:
    now = {"availableNow": True}
    query = everbrook.spark.write_stream(copies, scene.checkpoint(), trigger=now, url=server.url, autoCreate=True)
    query.awaitTermination()


def _plain(scene: Scene, copies: DataFrame, server: Server) -> None:
    writer = copies.writeStream.format("everbrook").options(url=server.url, autoCreate="true")
    query = writer.option("checkpointLocation", scene.checkpoint()).trigger(availableNow=True).start()
    query.awaitTermination()


def _check(server: Server, names: list[str], folder: str, expected: int) -> None:
    """Count the messages of the first and of the last copy, and make room for the next."""
    copies = [name.replace(_FROM, folder) for name in names]
    with Client(server.url) as client:
        for copy in (copies[0], copies[-1]):
            there = len(client.stream(copy).read().all())
            if there != expected:
                raise LoadFailed(f"{copy} must have {expected} messages, and has {there}")
        for copy in copies:
            client.stream(copy).delete()
