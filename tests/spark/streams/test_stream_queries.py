"""`readStream` and `writeStream` on a real Spark: every message once, over restarts and repeated batches."""

import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from everbrook import Client
from everbrook.spark import ProgressListener, lag, write_stream
from everbrook.spark.options import InvalidOption, StreamTuning
from everbrook.spark.sinks.checkpoint import write_with
from everbrook.spark.streams.stream_query import ClosingQuery, Option, start_writing
from tests.kit.server_thread import eventually

TIMEOUT_SECS = 120
Source = Callable[..., DataFrame]
Sink = Callable[..., None]


@pytest.fixture
def source(spark: SparkSession, server: str, prefix: str) -> Source:
    """Read the streams of a test."""

    def load(**options: str) -> DataFrame:
        reader = spark.readStream.format("everbrook")
        return reader.options(
            **{"url": server, "streamPrefix": f"{prefix}in/", "startingOffsets": "earliest", **options}
        ).load()

    return load


@pytest.fixture
def sink(server: str, prefix: str, tmp_path: Path) -> Sink:
    """Write to the stream `out` of a test all that is there, with the sink as it is."""

    def write(frame: DataFrame, **options: str) -> None:
        writer = frame.writeStream.format("everbrook").option("checkpointLocation", str(tmp_path / "checkpoint"))
        chosen = {"url": server, "stream": f"{prefix}out", "autoCreate": "true", **options}
        finish(writer.options(**chosen).trigger(availableNow=True).start())

    return write


def finish(query: StreamingQuery | ClosingQuery) -> None:
    assert query.awaitTermination(TIMEOUT_SECS)


def forget_last_batch(checkpoint: Path) -> None:
    """Make it as if the driver had died before Spark noted that the last batch was done."""
    commits = sorted(
        (path for path in (checkpoint / "commits").iterdir() if path.name.isdigit()), key=lambda path: int(path.name)
    )
    commits[-1].unlink()
    (checkpoint / "commits" / f".{commits[-1].name}.crc").unlink(missing_ok=True)


def fill(client: Client, prefix: str, *, streams: int = 3, start: int = 0, count: int = 10) -> None:
    for stream in range(streams):
        client.stream(f"{prefix}in/{stream}").create()
        client.stream(f"{prefix}in/{stream}").extend({"from": stream, "n": n} for n in range(start, start + count))


def in_order(client: Client, name: str, *, streams: int = 3, count: int = 10) -> bool:
    """Whether a stream has everything once, in the order in which it was in each of its sources."""
    found = client.stream(name).read().all()
    return all(
        [value["n"] for value in found if value["from"] == stream] == list(range(count)) for stream in range(streams)
    )


def test_what_goes_in_comes_out_over_restarts(client: Client, prefix: str, source: Source, sink: Sink) -> None:
    fill(client, prefix)
    sink(source(maxRowsPerTrigger="7"))
    fill(client, prefix, start=10)
    sink(source(maxPartitions="1"))
    assert in_order(client, f"{prefix}out", count=20)


def test_a_batch_that_is_run_again_with_other_tasks_is_there_once(
    client: Client, prefix: str, source: Source, sink: Sink, tmp_path: Path
) -> None:
    fill(client, prefix)
    sink(source().repartition(3))
    for tasks in (1, 5):
        forget_last_batch(tmp_path / "checkpoint")
        sink(source().repartition(tasks))
    assert in_order(client, f"{prefix}out")
    assert len(client.stream(f"{prefix}out").read().all()) == 30


@pytest.mark.parametrize("large_bytes", [0, 10**9], ids=["tasks", "driver"])
def test_the_helper_writes_once_too(
    client: Client,
    server: str,
    prefix: str,
    source: Source,
    tmp_path: Path,
    large_bytes: int,
) -> None:
    fill(client, prefix)
    checkpoint = tmp_path / "checkpoint"
    for tasks in (2, 3):
        frame = (
            source(maxRowsPerTrigger="12")
            .repartition(tasks)
            .selectExpr("replace(stream, 'in/', 'out/') AS stream", "value", "offset")
        )
        writer = write_with(frame, str(checkpoint), {"availableNow": True}, None)
        options: dict[str, Option] = {"url": server, "autoCreate": True, "closeOnFinish": tasks == 3}
        tuning = StreamTuning(large_bytes=large_bytes)
        finish(start_writing(frame, str(checkpoint), writer, options, ends=True, tuning=tuning))
        if tasks == 2:
            forget_last_batch(checkpoint)
    assert all(
        client.stream(f"{prefix}out/{stream}").read().all() == client.stream(f"{prefix}in/{stream}").read().all()
        for stream in range(3)
    )


def test_sink_and_helper_go_on_with_each_others_batches(
    client: Client, server: str, prefix: str, source: Source, sink: Sink, tmp_path: Path
) -> None:
    fill(client, prefix)
    sink(source())
    forget_last_batch(tmp_path / "checkpoint")
    options: dict[str, Any] = {"url": server, "stream": f"{prefix}out", "closeOnFinish": True}
    finish(write_stream(source(), str(tmp_path / "checkpoint"), trigger={"availableNow": True}, **options))
    assert in_order(client, f"{prefix}out")
    assert client.stream(f"{prefix}out").head().closed


def test_a_query_that_runs_sees_new_messages_and_new_streams(
    spark: SparkSession, client: Client, server: str, prefix: str, source: Source, tmp_path: Path
) -> None:
    client.stream(f"{prefix}in/a").create(data="first")
    seen: list[str] = []
    arrived = threading.Event()

    def collect(batch: DataFrame, _number: int) -> None:
        seen.extend(row.value for row in batch.collect())
        if len(seen) == 3:
            arrived.set()

    listener = ProgressListener(f"{prefix}progress", url=server)
    spark.streams.addListener(listener)
    query = source().writeStream.foreachBatch(collect).option("checkpointLocation", str(tmp_path)).start()
    try:
        client.stream(f"{prefix}in/b").create(data="second")
        time.sleep(1)
        client.stream(f"{prefix}in/a").append("third")
        assert arrived.wait(TIMEOUT_SECS)
        query.processAllAvailable()
        assert lag(query.lastProgress, url=server) == {f"{prefix}in/a": 0, f"{prefix}in/b": 0}
        progress = client.stream(f"{prefix}progress")
        assert eventually(lambda: any(told.get("value", {}).get("lag_bytes") == 0 for told in progress.read().all()))
    finally:
        query.stop()
        spark.streams.removeListener(listener)
    assert sorted(seen) == ["first", "second", "third"]


def test_rows_of_text_need_an_order_before_the_query_begins(
    client: Client, server: str, prefix: str, source: Source, sink: Sink, tmp_path: Path
) -> None:
    fill(client, prefix, streams=1)
    with pytest.raises(InvalidOption, match="orderBy"):
        write_stream(source().select("value"), str(tmp_path), url=server, stream=f"{prefix}out", contentType="text/csv")
    client.stream(f"{prefix}out").create(content_type="text/plain")
    with pytest.raises(PySparkException, match="orderBy"):
        sink(source().select("value"))
    sink(source().select("value", "offset"))
    messages = [frame for frames in client.stream(f"{prefix}out").frames() for frame in frames]
    assert len(messages) == 10


def test_a_batch_that_is_too_large_for_one_append_is_written_from_all_tasks(
    client: Client, prefix: str, source: Source, sink: Sink
) -> None:
    fill(client, prefix, streams=1)
    sink(source().select("value").repartition(3), maxAppendBytes="50")
    read = client.stream(f"{prefix}out").read().all()
    assert sorted(each["n"] for each in read) == list(range(10))


def test_a_loss_of_messages_ends_a_query_with_words(client: Client, prefix: str, source: Source, sink: Sink) -> None:
    fill(client, prefix, streams=1)
    sink(source())
    client.stream(f"{prefix}in/0").append({"from": 0, "n": 10})
    client.stream(f"{prefix}in/0").delete()
    with pytest.raises(PySparkException, match="is gone; it was read until"):
        sink(source())


def test_a_checkpoint_of_another_life_begins_another_producer(
    client: Client, prefix: str, source: Source, sink: Sink, tmp_path: Path
) -> None:
    fill(client, prefix, streams=1)
    sink(source())
    shutil.rmtree(tmp_path / "checkpoint")
    sink(source())
    assert len(client.stream(f"{prefix}out").read().all()) == 20


def test_what_a_kill_left_of_the_first_batch_is_no_hindrance(
    client: Client, server: str, prefix: str, source: Source, tmp_path: Path
) -> None:
    fill(client, prefix)
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / ".0.left.tmp").touch()
    rows, now = source().select("value"), {"availableNow": True}
    query = write_stream(rows, str(tmp_path), trigger=now, url=server, stream=f"{prefix}out", autoCreate=True)
    assert query.awaitTermination(TIMEOUT_SECS)
    assert in_order(client, f"{prefix}out")
