"""Folds: many streams read, folded and published; the same after a little more; and what a new client gains by it."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median

import httpx2
import psutil  # type: ignore[import-untyped]
from pyspark.sql.streaming.query import StreamingQuery

import everbrook.spark
from bench.channel import Expectation, LoadFailed
from bench.extensions.bulk_fill import send_all
from bench.extensions.section import Section
from bench.requests import format_request
from bench.spark.figures import Figure, at_least, at_most, section_of
from bench.spark.scene import Scene, Server, names_below
from bench.streams import stream_path
from everbrook import Client
from everbrook.spark.streams.stream_query import ClosingQuery

_PREFIX, _LONG = "folded/", "long"
_JSON = "application/json"
_GROUP = 500
_KEYS = 100
_LOOKS = 5
_TIMES = 100
_MB = 1024 * 1024


def measure_folding(scene: Scene) -> list[Section]:
    """Fold everything, and again after one percent more: in one percent of the streams, and spread over all."""
    with scene.servers() as (server, *_others):
        folds = [*_folds(scene, server)]
        return [
            section_of(f"Folds of {scene.size.many_streams:,} streams", folds),
            section_of("A new client of a stream whose log is 100 times its state", [*_clients(scene, server)]),
        ]


def _folds(scene: Scene, server: Server) -> Iterator[Figure]:
    events, names = scene.size.folded, names_below(_PREFIX, scene.size.many_streams)
    puts = [format_request("PUT", stream_path(name), b"", _JSON) for name in names]
    send_all(server.port, puts, Expectation(201))
    _append(server, names[:1], 1)
    _fold(scene, server, 1)  # what is slower the first time is Java's
    each, percent = events // len(names), max(1, len(names) // 100)
    _append(server, names, each)
    whole = Figure(case=f"{events:,} events read, folded and published", unit="s", aim=at_most(120))
    with _watching() as peaks:
        whole.ours.append(_fold(scene, server, len(names)))
    whole.remarks.append(
        f"At the most {peaks['python']:,} MB of Python (driver and workers), {peaks['java']:,} MB of Java."
    )
    yield whole
    few, spread = "1% more events, in 1% of the streams", "1% more events, spread over all streams"
    yield _again(f"{few}, in batch", whole, _rounds(scene, server, names[:percent], each, _fold))
    yield _again(f"{few}, by a query that runs", whole, _by_query(scene, server, names[:percent], each))
    yield _again(f"{few}, by a query that begins", whole, _rounds(scene, server, names[:percent], each, _fold_anew))
    yield _again(f"{spread}, in batch", whole, _rounds(scene, server, names, max(1, each // 100), _fold))


def _again(case: str, whole: Figure, took: list[float]) -> Figure:
    figure = Figure(case=f"{case}, of the whole fold", unit="%", aim=at_most(5))
    figure.ours.extend(100 * secs / whole.ours[0] for secs in took)
    figure.remarks.append(f"{case}: {median(took):.2f} s.")
    return figure


Query = StreamingQuery | ClosingQuery
_Fold = Callable[[Scene, Server, int], float]


def _rounds(scene: Scene, server: Server, names: Sequence[str], events: int, fold: _Fold) -> list[float]:
    """Append and fold, and again: a single fold of a second says little."""
    took = []
    for _ in range(scene.size.rounds):
        _append(server, names, events)
        took.append(fold(scene, server, len(names)))
    return took


def _fold(scene: Scene, server: Server, streams: int) -> float:
    """Fold what is due in a batch, and make sure that so many streams have a snapshot of all of it."""
    began = time.perf_counter()
    folded = everbrook.spark.fold_due(scene.spark, url=server.url, streamPrefix=_PREFIX)
    took = time.perf_counter() - began
    _require_folded(server, streams, folded.num_rows)
    return took


def _fold_anew(scene: Scene, server: Server, streams: int) -> float:
    """Fold what is due by a query that begins, and ends."""
    began = time.perf_counter()
    query = _query(scene, server, {"availableNow": True})
    query.awaitTermination()
    took = time.perf_counter() - began
    _require_folded(server, streams, _rows(query))
    return took


def _by_query(scene: Scene, server: Server, names: Sequence[str], events: int) -> list[float]:
    """Return how long the batches of a query without an end take that fold what is appended."""
    query = _query(scene, server, None)
    try:
        query.processAllAvailable()
        return _rounds(scene, server, names, events, lambda _, server, streams: _next(query, server, streams))
    finally:
        query.stop()


def _next(query: Query, server: Server, streams: int) -> float:
    seen = {progress.batchId for progress in query.recentProgress if progress.numInputRows}
    query.processAllAvailable()
    new = [each for each in query.recentProgress if each.numInputRows and each.batchId not in seen]
    _require_folded(server, streams, sum(progress.numInputRows for progress in new))
    return sum(progress.durationMs["triggerExecution"] for progress in new) / 1000


def _query(scene: Scene, server: Server, trigger: dict[str, bool] | None) -> Query:
    return everbrook.spark.fold_streams(
        scene.spark, scene.checkpoint(), url=server.url, streamPrefix=_PREFIX, trigger=trigger
    )


def _rows(query: Query) -> int:
    return sum(progress.numInputRows for progress in query.recentProgress)


def _require_folded(server: Server, streams: int, planned: int) -> None:
    if planned != streams:
        raise LoadFailed(f"{streams} streams were due, {planned} were planned")
    with Client(server.url) as client:
        left = [info.name for info in client.list(_PREFIX) if info.tail_offset != (info.snapshot_offset or 0)]
    if left:
        raise LoadFailed(f"{len(left)} streams were not folded, {left[0]} among them")


def _append(server: Server, names: Sequence[str], events: int, keys: int = _KEYS, first: int = 0) -> None:
    body = b"[" + b",".join(_event(number, keys) for number in range(first, first + events)) + b"]"
    for start in range(0, len(names), _GROUP):
        posts = [format_request("POST", stream_path(name), body, _JSON) for name in names[start : start + _GROUP]]
        send_all(server.port, posts, Expectation(204))


def _event(number: int, keys: int) -> bytes:
    """Make a change of about 100 bytes."""
    changed = b'{"name":"item %06d","ok":true}' % number
    return b'{"type":"item","key":"%05d","value":%b,"headers":{"operation":"upsert"}}' % (number % keys, changed)


@contextmanager
def _watching() -> Iterator[dict[str, int]]:
    """Look at the memory of this process and of what Spark has started, and return the most of it, in MB."""
    peaks, ended = {"python": 0, "java": 0}, threading.Event()

    def look() -> None:
        while not ended.wait(0.5):
            for kind, megabytes in _memory().items():
                peaks[kind] = max(peaks[kind], megabytes)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield peaks
    finally:
        ended.set()
        thread.join()


def _memory() -> dict[str, int]:
    own = psutil.Process()
    sums = {"python": own.memory_full_info().pss, "java": 0}
    for child in own.children(recursive=True):
        try:
            command, size = " ".join(child.cmdline()), child.memory_full_info().pss
        except psutil.Error:
            continue
        if "java" in child.name():
            sums["java"] += size
        elif "pyspark" in command:
            sums["python"] += size
    return {kind: size // _MB for kind, size in sums.items()}


# A new client


def _clients(scene: Scene, server: Server) -> Iterator[Figure]:
    names, events = [f"{_PREFIX}{_LONG}"], scene.size.replayed
    send_all(server.port, [format_request("PUT", stream_path(names[0]), b"", _JSON)], Expectation(201))
    entities = events // _TIMES
    for first in range(0, events, entities):
        _append(server, names, entities, entities, first)
    before = [_materialise(server.url, names[0], entities) for _ in range(_LOOKS)]
    everbrook.spark.fold_streams(
        scene.spark, scene.checkpoint(), url=server.url, stream=names[0], history="drop", trigger={"availableNow": True}
    ).awaitTermination()
    after = [_materialise(server.url, names[0], entities) for _ in range(_LOOKS)]
    for place, (what, unit) in enumerate((("bytes", "bytes"), ("time to the first state", "ms"))):
        was, now = (median(sample[place] for sample in samples) for samples in (before, after))
        figure = Figure(case=f"{what}, times less", unit="x", aim=at_least(50))
        figure.ours.append(was / now)
        figure.remarks.append(f"{what} of {events:,} events: {was:,.1f} {unit} before, {now:,.1f} {unit} after.")
        yield figure


class _Counting(httpx2.HTTPTransport):
    """Counts the bytes of answers as they come over the wire."""

    received = 0

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        response = super().handle_request(request)
        response.stream = _Counted(response.stream, self)  # type: ignore[arg-type]
        return response


class _Counted(httpx2.SyncByteStream):
    def __init__(self, stream: httpx2.SyncByteStream, transport: _Counting) -> None:
        self._stream, self._transport = stream, transport

    def __iter__(self) -> Iterator[bytes]:
        for part in self._stream:
            self._transport.received += len(part)
            yield part

    def close(self) -> None:
        self._stream.close()


def _materialise(url: str, name: str, entities: int) -> tuple[float, float]:
    """Return the bytes and the milliseconds that a new client takes to have the state."""
    transport = _Counting()
    plain = {"accept-encoding": "identity"}  # of both: events that are so much alike would be next to nothing
    with httpx2.Client(transport=transport) as http, Client(url, http=http, headers=plain) as client:
        began = time.perf_counter()
        with client.stream(name).materialise() as state:
            took_ms = (time.perf_counter() - began) * 1000
            received = transport.received
            if len(state["item"]) != entities:
                raise LoadFailed(f"{name} has {len(state['item'])} entities, not {entities}")
    return received, took_ms
