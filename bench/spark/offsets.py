"""`latestOffset`: what it takes to look at many streams and decide how far the next batch goes, on the driver."""

import json
import time

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from bench.channel import Expectation
from bench.extensions.bulk_fill import send_all
from bench.extensions.section import Section
from bench.requests import format_request
from bench.spark.figures import Figure, at_most, section_of
from bench.spark.scene import Scene, Server, body, names_below
from bench.streams import stream_path
from everbrook.spark.options import parse_source
from everbrook.spark.streams.reader import Positions, StreamReader
from everbrook.spark.streams.rows import RAW

_PREFIX = "many/"
_MOVED = 10
_ROWS_EACH = 100
_NO_BOUNDS = "it can't say where messages end, so there are no limits"


def measure_offsets(scene: Scene) -> list[Section]:
    """Look at all streams after some have moved, and at a backlog in many of them."""
    return [section_of("latestOffset", [_moving(scene), _limited(scene)])]


def _moving(scene: Scene) -> Figure:
    streams = scene.size.many_streams
    figure = Figure(case=f"latestOffset of {streams:,} streams, {_MOVED} moved", unit="ms", aim=at_most(100))
    names = names_below(_PREFIX, streams)
    with scene.servers() as servers:
        for server in servers:
            server.fill(names, streams)
            reader = _reader(server, names)
            first, positions = _look(reader, {}, ReadAllAvailable())
            figure.remarks.append(
                f"{figure.case}, {'ours' if server.ours else 'reference'}: the first {first:,.0f} ms."
            )
            looks = scene.size.looks if server.ours else min(3, scene.size.looks)
            for _ in range(looks):
                _move(server, names)
                took, positions = _look(reader, positions, ReadAllAvailable())
                (figure.ours if server.ours else figure.theirs).append(took)
    return figure


def _limited(scene: Scene) -> Figure:
    streams = scene.size.backlogged
    rows = streams * _ROWS_EACH
    case = f"latestOffset with maxRowsPerTrigger={rows:,}, {streams:,} streams behind"
    figure = Figure(case=case, unit="ms", missing=_NO_BOUNDS)
    names = names_below(_PREFIX, streams)
    with scene.servers() as (server, *_others):
        server.fill(names, 10 * rows)
        reader = _reader(server, names, maxRowsPerTrigger=str(rows))
        positions: Positions = {}
        for _ in range(min(5, scene.size.looks)):
            took, positions = _look(reader, positions, ReadMaxRows(rows))
            figure.ours.append(took)
    return figure


def _reader(server: Server, names: list[str], **options: str) -> StreamReader:
    given = {"startingOffsets": "earliest", **server.select(names, _PREFIX), **options}
    return StreamReader(parse_source(given), RAW["string"])


def _look(reader: StreamReader, start: Positions, limit: ReadLimit) -> tuple[float, Positions]:
    """Take the time of a decision, and of writing it as Spark wants it."""
    began = time.perf_counter()
    positions = reader.latestOffset(start, limit)
    json.dumps(positions)
    return (time.perf_counter() - began) * 1000, positions


def _move(server: Server, names: list[str]) -> None:
    moved = names[:: max(1, len(names) // _MOVED)]
    posts = [format_request("POST", stream_path(name), body(0, 1), "application/json") for name in moved]
    send_all(server.port, posts, Expectation(204))
