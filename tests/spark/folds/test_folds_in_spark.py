"""Folds in Spark itself."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from everbrook import Client
from everbrook.client import session_events, state_events
from everbrook.spark import fold_due, fold_streams
from everbrook.spark.options import InvalidOption
from tests.spark.folds.histories import applied, bootstrapped, plain, replayed, restored, written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ADA, BOB = state_events.insert("user", "1", "Ada"), state_events.insert("user", "2", "Bob")
ONCE = {"availableNow": True}
TIMEOUT_SECS = 120


def _until(holds: Any) -> None:  # noqa: ANN401 - any function
    deadline = time.monotonic() + TIMEOUT_SECS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_what_is_due_can_be_looked_at(spark: "SparkSession", server: str, client: Client, prefix: str) -> None:
    stream = written(client, f"{prefix}a", [ADA])
    due = spark.read.format("everbrook_folds").options(url=server, streamPrefix=prefix).load()
    assert [(row.stream, row.offset) for row in due.collect()] == [(stream.name, stream.head().offset)]
    assert stream.snapshot() is None


def test_what_is_due_is_folded_without_a_query(spark: "SparkSession", server: str, client: Client, prefix: str) -> None:
    streams = [written(client, f"{prefix}{name}", [ADA]) for name in "ab"]
    first = fold_due(spark, url=server, streamPrefix=prefix)
    streams[0].append(BOB)
    second = fold_due(spark, url=server, streamPrefix=prefix)
    told = [table.select(["stream", "outcome", "events"]).to_pylist() for table in (first, second)]
    assert [[tuple(row.values()) for row in rows] for rows in told] == [
        [(stream.name, "published", 1) for stream in streams],
        [(streams[0].name, "published", 1)],
    ]
    assert bootstrapped(streams[0]) == {"user": {"1": "Ada", "2": "Bob"}}


def test_streams_are_folded_and_what_became_of_them_is_a_state_itself(
    spark: "SparkSession", server: str, client: Client, prefix: str, tmp_path: Path
) -> None:
    streams = [written(client, f"{prefix}in/{number:03d}", [ADA] * 3) for number in range(150)]
    written(client, f"{prefix}in/bad", [{"x": 1}])

    def fold() -> None:
        options: dict[str, Any] = {"url": server, "streamPattern": f"{prefix}in/*"}
        query = fold_streams(spark, str(tmp_path), reports=f"{prefix}folds", trigger=ONCE, **options)
        assert query.awaitTermination(TIMEOUT_SECS)

    fold()
    streams[0].append(BOB)
    fold()
    assert [bootstrapped(stream) for stream in streams[:2]] == [
        {"user": {"1": "Ada", "2": "Bob"}},
        {"user": {"1": "Ada"}},
    ]
    reports = replayed(client.stream(f"{prefix}folds"))["fold"]
    told = [(report["outcome"], report["events"]) for _, report in sorted(reports.items())]
    assert told == [("published", 1), *[("published", 3)] * 149, ("refused", 0)]


def test_folds_go_on_while_streams_are_written_to(
    spark: "SparkSession", server: str, client: Client, prefix: str, tmp_path: Path
) -> None:
    streams = [written(client, f"{prefix}{number}", [ADA]) for number in range(5)]
    query = fold_streams(spark, str(tmp_path), url=server, streamPrefix=prefix)
    ended = threading.Event()
    writing = threading.Thread(target=_write, args=(streams, ended))
    writing.start()
    try:
        for _ in range(3):
            before = [stream.head().snapshot_offset for stream in streams]
            _until(lambda: all(s.head().snapshot_offset != was for s, was in zip(streams, before, strict=True)))  # noqa: B023
            assert all(_agrees(stream) for stream in streams)
    finally:
        ended.set()
        writing.join()
        query.stop()
    assert [bootstrapped(stream) for stream in streams] == [replayed(stream) for stream in streams]


def _write(streams: list[Any], ended: threading.Event) -> None:
    for number in range(10_000):
        if ended.is_set():
            return
        for stream in streams:
            stream.extend([state_events.upsert("user", str(number % 9), number), session_events.append("t", "1", "x")])
        time.sleep(0.02)


def _agrees(stream: Any) -> bool:  # noqa: ANN401 - of JSON
    """Compare what begins with the snapshot with what began at the beginning, as of one offset."""
    found = stream.bootstrap()
    messages = [json.loads(each.payload) for page in stream.frames(until=found.offset) for each in page]
    return plain(applied(found.messages, restored(found.snapshot))) == plain(applied(messages))


def test_a_function_is_sent_to_the_tasks(
    spark: "SparkSession", server: str, client: Client, prefix: str, tmp_path: Path
) -> None:
    stream = written(client, f"{prefix}a", [1, 2, 39])

    def total(state: bytes | None, batches: Iterator[pa.RecordBatch]) -> bytes:
        return str(int(state or 0) + sum(int(value) for b in batches for value in b["value"].to_pylist())).encode()

    for more in ([], [8]):
        if more:
            stream.extend(more)
        fold_streams(
            spark, str(tmp_path), function=total, url=server, stream=stream.name, trigger=ONCE
        ).awaitTermination(TIMEOUT_SECS)
    snapshot = stream.snapshot()
    assert snapshot is not None
    assert snapshot.data == b"50"


def test_reports_can_not_be_folded_by_what_writes_them(spark: "SparkSession", tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="reports is 'a/folds', which is one of the streams that are folded"):
        fold_streams(spark, str(tmp_path), reports="a/folds", streamPrefix="a/")


def test_a_function_that_is_not_there_is_told_at_once(spark: "SparkSession", tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match="function is 'json:fold', and json has no fold"):
        fold_streams(spark, str(tmp_path), function="json:fold", stream="a")
