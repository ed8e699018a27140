"""Streams into tables of the lake, and back: how many rows a second.

What a plain `write_deltalake` of the same rows takes, which are in memory then, stands where other parts have the
reference. It neither reads streams nor messages.
"""

import shutil
import time
from itertools import count
from pathlib import Path

from deltalake import write_deltalake

import everbrook.spark
from bench.channel import LoadFailed
from bench.extensions.section import Section
from bench.spark.figures import Figure, section_of
from bench.spark.scene import Scene, Server, names_below
from everbrook import Client
from everbrook.spark.lake.columns import PARTITION
from everbrook.spark.lake.delta import open_table

_FROM, _BACK = "from/", "back"
_NOW = {"availableNow": True}
_WAYS = {
    "Delta, the schema is inferred": {},
    "Delta, messages as they are": {"schema": "raw"},
}
_runs = count()


def measure_lake(scene: Scene) -> list[Section]:
    """Write all messages to tables in each way, and one table back into streams."""
    names = names_below(_FROM, scene.size.few_streams)
    with scene.servers() as servers:
        ours = servers[0]
        ours.fill(names, scene.size.copied)
        _write(scene, ours, {})  # which warms everything up
        figures = [_figure(scene, ours, way, options) for way, options in _WAYS.items()]
        back = _replay(scene, ours)
    title = (
        f"Stream to lake, {scene.size.few_streams} streams; the reference is a plain write_deltalake of the same rows"
    )
    return [section_of(title, figures), section_of("A table back into streams", [back])]


def _figure(scene: Scene, server: Server, way: str, options: dict[str, str]) -> Figure:
    figure = Figure(case=f"stream to {way}, exactly once", unit="rows/s")
    for _ in range(scene.size.rounds):
        table, took = _write(scene, server, options)
        figure.ours.append(scene.size.copied / took)
        figure.theirs.append(scene.size.copied / _write_plainly(scene, table))
        shutil.rmtree(table)
    return figure


def _write(scene: Scene, server: Server, options: dict[str, str]) -> tuple[Path, float]:
    """Write all messages to a new table, and tell how long it took."""
    folder = scene.folder / f"table-{next(_runs)}"
    rows = scene.stream({"url": server.url, "streamPrefix": _FROM})
    began = time.perf_counter()
    query = everbrook.spark.write_lake(
        rows,
        scene.checkpoint(),
        path=str(folder),
        trigger=_NOW,
        **options,  # type: ignore[arg-type] # those of one way
    )
    query.awaitTermination()
    took = time.perf_counter() - began
    there = open_table(folder).count_rows()
    if there != scene.size.copied:
        raise LoadFailed(f"{folder.name} must have {scene.size.copied} rows, and has {there}")
    return folder, took


def _write_plainly(scene: Scene, table: Path) -> float:
    rows = open_table(table).to_table()
    plain = scene.folder / "plain"
    began = time.perf_counter()
    write_deltalake(plain, rows, partition_by=list(PARTITION))
    took = time.perf_counter() - began
    shutil.rmtree(plain)
    return took


def _replay(scene: Scene, server: Server) -> Figure:
    figure = Figure(case="Delta to streams, exactly once", unit="messages/s")
    table, _ = _write(scene, server, {})
    for _ in range(scene.size.rounds):
        folder = f"{_BACK}-{next(_runs)}/"
        rows = scene.spark.readStream.format("everbrook_lake").load(str(table))
        copies = rows.selectExpr(f"replace(stream, '{_FROM}', '{folder}') AS stream", "value", "offset")
        began = time.perf_counter()
        query = everbrook.spark.write_stream(copies, scene.checkpoint(), trigger=_NOW, url=server.url, autoCreate=True)
        query.awaitTermination()
        figure.ours.append(scene.size.copied / (time.perf_counter() - began))
        _check(server, folder, scene.size.few_streams, scene.size.copied)
    return figure


def _check(server: Server, folder: str, streams: int, messages: int) -> None:
    """Count the messages of the last stream, and make room for the next."""
    names = names_below(folder, streams)
    with Client(server.url) as client:
        there = len(client.stream(names[-1]).read().all())
        if there != messages // streams:
            raise LoadFailed(f"{names[-1]} must have {messages // streams} messages, and has {there}")
        for name in names:
            client.stream(name).delete()
