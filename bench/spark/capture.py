"""Changes of Postgres into a stream: how many rows a second, and how soon behind a commit its message is there.

Rows are inserted first, a thousand in a transaction; then a query takes them all from its slot into a stream. Where
other parts have the reference stands what it takes to look at the same changes in a slot of the same kind, over one
connection and without doing anything with them. The initial copy is of a table of the same rows.
"""

import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import psycopg
from pyspark.sql import DataFrame

import everbrook.spark
from bench.channel import LoadFailed
from bench.extensions.section import Section
from bench.spark.figures import Figure, at_least, at_most, section_of
from bench.spark.latency import Arrivals
from bench.spark.scene import Scene, Server
from everbrook import Client
from everbrook.spark import capture
from everbrook.stack.postgres import Postgres

_CHUNK = 1_000
_SLOT, _OTHER_SLOT = "bench", "bench_reference"
_PAUSES_SECS = (0.03, 0.13)
_TAIL = 0.99
_TABLE = """
    DROP TABLE IF EXISTS items;
    CREATE TABLE items (id int8 PRIMARY KEY, name text, price numeric, created_at timestamptz, data jsonb);
"""
_INSERT = """
    INSERT INTO items SELECT n, 'item ' || n, n * 1.5, now(), jsonb_build_object('number', n, 'text', 'some text')
    FROM generate_series(%s::int8, %s::int8) n
"""
_PEEK = """
    SELECT data FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL, 'proto_version', '1', 'publication_names', %s)
"""


def measure_capture(scene: Scene) -> list[Section]:
    """Measure rows a second, of changes and of the copy before them, and the way of single changes."""
    with _postgres(scene.folder) as url:
        rows = [_changes(scene, url), _copy(scene, url)]
        latency = _latency(scene, url)
    return [
        section_of("Postgres to stream; the reference only looks at the same changes", rows),
        section_of(f"Postgres to stream, p50 of {scene.size.appends} commits", [latency]),
    ]


@contextmanager
def _postgres(folder: Path) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    cluster = Postgres(folder / "captured", port)
    try:
        cluster.start().wait_ready()
        yield cluster.url()
    finally:
        cluster.stop()


@contextmanager
def _captured(scene: Scene, url: str) -> Iterator[tuple[Server, "psycopg.Connection", str]]:
    """Yield a server, a connection with an empty table, and the folder of a query. All are gone after it."""
    with scene.servers() as servers, psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_TABLE)
        try:
            yield servers[0], connection, scene.checkpoint()
        finally:
            capture.drop(url, _SLOT)
            capture.drop(url, _OTHER_SLOT)


def _frame(scene: Scene, url: str, folder: str) -> DataFrame:
    options = {"url": url, "tables": "items", "slot": _SLOT, "copyLocation": f"{folder}/copy"}
    return scene.spark.readStream.format("everbrook_postgres").options(**options).load()


def _run(scene: Scene, url: str, server: Server, folder: str) -> float:
    """Take what there is into the stream, and tell how long that took."""
    began = time.perf_counter()
    query = everbrook.spark.write_stream(
        _frame(scene, url, folder), folder, url=server.url, autoCreate=True, trigger={"availableNow": True}
    )
    query.awaitTermination()
    return time.perf_counter() - began


def _fill(connection: "psycopg.Connection", rows: int) -> None:
    for first in range(0, rows, _CHUNK):
        connection.execute(_INSERT, [first, min(first + _CHUNK, rows) - 1])


def _require(server: Server, expected: int) -> None:
    with Client(server.url) as client:
        found = sum(1 for _ in client.stream("items").read())
    if found != expected:
        raise LoadFailed(f"the stream must have {expected} messages, and has {found}")


def _changes(scene: Scene, url: str) -> Figure:
    figure = Figure(case="changes to a stream, exactly once", unit="rows/s", aim=at_least(25_000))
    for _ in range(scene.size.rounds):
        with _captured(scene, url) as (server, connection, folder):
            _run(scene, url, server, folder)  # which makes the slot
            connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [_OTHER_SLOT])
            _fill(connection, scene.size.copied)
            figure.theirs.append(scene.size.copied / _look(connection, scene.size.copied))
            figure.ours.append(scene.size.copied / _run(scene, url, server, folder))
            _require(server, scene.size.copied)
    return figure


def _look(connection: "psycopg.Connection", expected: int) -> float:
    began = time.perf_counter()
    found = connection.cursor().stream(_PEEK, [_OTHER_SLOT, _SLOT], binary=True)
    seen = sum(1 for (data,) in found if data[:1] == b"I")
    if seen != expected:
        raise LoadFailed(f"the slot must have {expected} inserts, and has {seen}")
    return time.perf_counter() - began


def _copy(scene: Scene, url: str) -> Figure:
    missing = "rows of a table are no changes"
    figure = Figure(case="the initial copy to a stream", unit="rows/s", missing=missing)
    for _ in range(scene.size.rounds):
        with _captured(scene, url) as (server, connection, folder):
            _fill(connection, scene.size.copied)
            figure.ours.append(scene.size.copied / _run(scene, url, server, folder))
            _require(server, scene.size.copied)
    return figure


def _latency(scene: Scene, url: str) -> Figure:
    figure = Figure(case="commit to message", unit="ms", aim=at_most(150))
    with _captured(scene, url) as (server, connection, folder):
        arrivals = Arrivals()
        with Client(server.url) as client:
            client.stream("items").create()
        threading.Thread(target=_follow, args=(server.url, arrivals, scene), daemon=True).start()
        query = everbrook.spark.write_stream(_frame(scene, url, folder), folder, url=server.url, autoCreate=True)
        try:
            waits = list(_insert(scene, connection, arrivals))[scene.size.warm_appends :]
        finally:
            query.stop()
    figure.ours.append(median(waits))
    tail = sorted(waits)[int(len(waits) * _TAIL)]
    figure.remarks.append(f"{figure.case}: p99 {tail:.0f} ms, least {min(waits):.0f} ms.")
    spans = [progress.durationMs for progress in query.recentProgress if progress.numInputRows]
    names = ("walCommit", "addBatch", "commitOffsets")
    parts = (f"{name} {median(span.get(name, 0) for span in spans):.0f}" for name in names)
    figure.remarks.append(f"{figure.case}, ms of a batch: {', '.join(parts)}.")
    return figure


def _insert(scene: Scene, connection: "psycopg.Connection", arrivals: Arrivals) -> Iterator[float]:
    pauses = random.Random(1)
    for number in range(scene.size.warm_appends + scene.size.appends):
        connection.execute(_INSERT, [number, number])
        committed = time.perf_counter()
        yield (arrivals.wait(number) - committed) * 1000
        time.sleep(pauses.uniform(*_PAUSES_SECS))


def _follow(url: str, arrivals: Arrivals, scene: Scene) -> None:
    last = scene.size.warm_appends + scene.size.appends - 1
    with Client(url) as client:
        for message in client.stream("items").follow():
            arrivals.add(int(message["key"]))
            if message["key"] == str(last):
                return
