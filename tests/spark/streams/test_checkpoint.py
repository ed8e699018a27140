"""What is recorded beside Spark's own files of a checkpoint, on each kind of file system."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from everbrook.spark.options import InvalidOption
from everbrook.spark.sinks.checkpoint import Checkpoint


@pytest.fixture(params=["{}", "file:{}", "file://{}", "dbfs:/mounted"])
def checkpoint(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Checkpoint:
    """A checkpoint in a folder by all its names: as a path, as URLs, and on another file system."""
    location: str = request.param.format(tmp_path)
    other = spark.newSession()
    other.conf.set("fs.dbfs.impl", "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme")
    other.conf.set("fs.dbfs.impl.disable.cache", "true")
    other.conf.set("fs.viewfs.mounttable.default.link./mounted", f"file:{tmp_path}")
    return Checkpoint(other, location)


def begin(folder: Path, batch: int, *, finish: bool = False) -> None:
    for name in ("offsets", "commits") if finish else ("offsets",):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / str(batch)).touch()


def test_the_size_of_appends_may_change_between_batches(checkpoint: Checkpoint, tmp_path: Path) -> None:
    checkpoint.keep_append_bytes(100)
    begin(tmp_path, 0, finish=True)
    checkpoint.keep_append_bytes(200)
    begin(tmp_path, 1)
    checkpoint.keep_append_bytes(200)


def test_the_size_of_appends_must_not_change_while_a_batch_is_unfinished(
    checkpoint: Checkpoint, tmp_path: Path
) -> None:
    checkpoint.keep_append_bytes(100)
    begin(tmp_path, 0, finish=True)
    begin(tmp_path, 1)
    with pytest.raises(InvalidOption, match="was 100 when batch 1 began"):
        checkpoint.keep_append_bytes(200)
    checkpoint.keep_append_bytes(100)


def test_the_order_of_rows_must_not_change_while_a_batch_is_unfinished(checkpoint: Checkpoint, tmp_path: Path) -> None:
    checkpoint.keep_order(["a", "b"])
    begin(tmp_path, 0)
    with pytest.raises(InvalidOption, match="orderBy is 'b', but was 'a,b' when batch 0 began"):
        checkpoint.keep_order(["b"])
    begin(tmp_path, 0, finish=True)
    checkpoint.keep_order(["b"])


def test_a_batch_that_failed_without_an_order_may_get_one(checkpoint: Checkpoint, tmp_path: Path) -> None:
    checkpoint.keep_order([])
    begin(tmp_path, 0)
    checkpoint.keep_order(["a"])


def test_what_a_kill_left_of_the_first_batch_is_removed(checkpoint: Checkpoint, tmp_path: Path) -> None:
    begin(tmp_path, 0, finish=True)
    (tmp_path / "offsets" / ".1.left.tmp").touch()
    checkpoint.clear_unfinished()
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["0", "0"]


def test_a_size_that_a_kill_left_empty_is_kept_anew(checkpoint: Checkpoint, tmp_path: Path) -> None:
    """As versions did that wrote the file in place."""
    (tmp_path / "everbrook-append-bytes").touch()
    checkpoint.keep_append_bytes(100)
    assert (tmp_path / "everbrook-append-bytes").read_text() == "100"


def test_a_file_is_replaced_as_a_whole(checkpoint: Checkpoint, tmp_path: Path) -> None:
    """A reader that opened the file before still reads the earlier content."""
    checkpoint.keep_streams({"a"})
    with (tmp_path / "everbrook-streams").open() as before:
        checkpoint.keep_streams({"a", "é"})
        assert (before.read(), checkpoint.streams()) == ('["a"]', {"a", "é"})
