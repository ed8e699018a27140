"""Streams into a table of Postgres: how many rows a second, and how soon behind an append its row is committed.

The rows are events, and the table is `session_events` with its two keys. What a plain COPY of the same rows takes, over
one connection and with nothing else going on, stands where other parts have the reference.
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

import everbrook.spark
from bench.channel import Expectation, LoadFailed
from bench.extensions.bulk_fill import send_all
from bench.extensions.section import Section
from bench.requests import format_request
from bench.spark.figures import Figure, at_least, at_most, section_of
from bench.spark.latency import Arrivals
from bench.spark.scene import Scene, Server, names_below
from bench.streams import stream_path
from everbrook import Client
from everbrook.stack.postgres import Postgres

_JSON = "application/json"
_CHUNK = 1_000
_OTHER_STREAMS = "events/"
_COLUMNS = "stream_name, event_key, event_type, operation, payload, ds_offset"
_NOTIFY = """
    CREATE FUNCTION told() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM pg_notify('rows', NEW.event_key); RETURN NULL; END $$;
    CREATE TRIGGER told AFTER INSERT ON session_events FOR EACH ROW EXECUTE FUNCTION told();
"""
_PAUSES_SECS = (0.03, 0.13)
_TAIL = 0.99


def measure_tables(scene: Scene) -> list[Section]:
    """Measure rows a second, and the way of single events."""
    with _postgres(scene.folder) as url:
        rows = _rows(scene, url)
        latency = _latency(scene, url)
    title = f"Stream to Postgres, {scene.size.few_streams} streams; the reference is a plain COPY of the same rows"
    return [
        section_of(title, [rows]),
        section_of(f"Stream to Postgres, p50 of {scene.size.appends} appends", [latency]),
    ]


@contextmanager
def _postgres(folder: Path) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    cluster = Postgres(folder / "postgres", port)
    try:
        cluster.start().wait_ready()
        yield cluster.url()
    finally:
        cluster.stop()


# Rows a second


def _rows(scene: Scene, url: str) -> Figure:
    figure = Figure(case="stream to session_events, exactly once", unit="rows/s", aim=at_least(85_000))
    names = names_below(_OTHER_STREAMS, scene.size.few_streams)
    with scene.servers() as servers:
        ours = servers[0]
        _fill(ours, names, scene.size.messages)
        _write(scene, ours, url)  # which makes the table, and warms everything up
        for _ in range(scene.size.rounds):
            figure.ours.append(scene.size.messages / _write(scene, ours, url))
            figure.theirs.append(scene.size.messages / _copy(url, scene.size.messages))
    return figure


def _fill(server: Server, names: list[str], messages: int) -> None:
    puts = [format_request("PUT", stream_path(name), b"", _JSON) for name in names]
    send_all(server.port, puts, Expectation(201))
    each = messages // len(names)
    posts = [
        format_request("POST", stream_path(name), _events(first, min(_CHUNK, each - first)), _JSON)
        for name in names
        for first in range(0, each, _CHUNK)
    ]
    send_all(server.port, posts, Expectation(204))


def _events(first: int, count: int) -> bytes:
    """Make events of about 100 bytes, as one append has them."""
    events = (
        b'{"key":"m%09d","type":"message","operation":"set","value":{"from":"ada","text":"%032d"}}' % (number, number)
        for number in range(first, first + count)
    )
    return b"[" + b",".join(events) + b"]"


def _write(scene: Scene, server: Server, url: str) -> float:
    """Write all events to an empty table, and tell how long it took."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS session_events, everbrook_positions")
    began = time.perf_counter()
    rows = scene.stream({"url": server.url, "streamPrefix": _OTHER_STREAMS})
    query = everbrook.spark.write_postgres(rows, scene.checkpoint(), url=url, trigger={"availableNow": True})
    query.awaitTermination()
    took = time.perf_counter() - began
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT count(*) FROM session_events").fetchone()
    if found != (scene.size.messages,):
        raise LoadFailed(f"session_events must have {scene.size.messages} rows, and has {found}")
    return took


def _copy(url: str, expected: int) -> float:
    """Copy the rows that are there to a table of the same kind, from memory."""
    with psycopg.connect(url) as connection:
        with connection.cursor().copy(f"COPY session_events ({_COLUMNS}) TO STDOUT") as copy:
            text = b"".join(bytes(part) for part in copy)
        connection.execute("DROP TABLE IF EXISTS plain")
        connection.execute("CREATE TABLE plain (LIKE session_events INCLUDING ALL)")
        connection.commit()
        began = time.perf_counter()
        with connection.cursor() as cursor:
            with cursor.copy(f"COPY plain ({_COLUMNS}) FROM STDIN") as copy:
                for place in range(0, len(text), 1 << 20):
                    copy.write(text[place : place + (1 << 20)])
            copied = cursor.rowcount
        connection.commit()
        took = time.perf_counter() - began
        connection.execute("DROP TABLE plain")
    if copied != expected:
        raise LoadFailed(f"COPY must take {expected} rows, and took {copied}")
    return took


# The way of single events


def _latency(scene: Scene, url: str) -> Figure:
    figure = Figure(case="append to committed row", unit="ms", aim=at_most(80))
    with scene.servers() as servers, Client(servers[0].url) as client:
        client.stream("source").create()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("TRUNCATE session_events, everbrook_positions")
            connection.execute(_NOTIFY)
        rows = scene.stream({"url": servers[0].url, "stream": "source"})
        query = everbrook.spark.write_postgres(rows, scene.checkpoint(), url=url)
        try:
            waits = list(_append(scene, client, _arrivals(url, scene)))[scene.size.warm_appends :]
        finally:
            query.stop()
    figure.ours.append(median(waits))
    tail = sorted(waits)[int(len(waits) * _TAIL)]
    figure.remarks.append(f"{figure.case}: p99 {tail:.0f} ms, least {min(waits):.0f} ms.")
    spans = [progress.durationMs for progress in query.recentProgress if progress.numInputRows]
    parts = (
        f"{name} {median(span.get(name, 0) for span in spans):.0f}"
        for name in ("walCommit", "addBatch", "commitOffsets")
    )
    figure.remarks.append(f"{figure.case}, ms of a batch: {', '.join(parts)}.")
    return figure


def _arrivals(url: str, scene: Scene) -> Arrivals:
    """Listen to the database, which tells of each row when it is committed."""
    arrivals = Arrivals()
    listening = threading.Event()

    def listen() -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("LISTEN rows")
            listening.set()
            for told in connection.notifies(stop_after=scene.size.warm_appends + scene.size.appends):
                arrivals.add(int(told.payload))

    threading.Thread(target=listen, daemon=True).start()
    listening.wait()
    return arrivals


def _append(scene: Scene, client: Client, arrivals: Arrivals) -> Iterator[float]:
    pauses = random.Random(1)
    for number in range(scene.size.warm_appends + scene.size.appends):
        began = time.perf_counter()
        client.stream("source").append({"key": str(number), "type": "message", "operation": "set", "value": number})
        yield (arrivals.wait(number) - began) * 1000
        time.sleep(pauses.uniform(*_PAUSES_SECS))
