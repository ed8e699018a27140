"""Tables of the lake in files of jobs: what may be said of them, and how a mistake is told."""

import subprocess
import sys
from pathlib import Path

import pytest

from everbrook.spark.jobs.load import load
from everbrook.spark.jobs.model import InvalidJobs

JOB = """
[jobs.keep]
source = {source}
sink = {sink}
{more}
"""
STREAM, LAKE = '{ stream = "orders" }', '{ lake = "lake/orders" }'


def describe(folder: Path, source: str = STREAM, sink: str = LAKE, more: str = "") -> str:
    (folder / "jobs.toml").write_text(JOB.format(source=source, sink=sink, more=more))
    return load(folder / "jobs.toml", {}).jobs["keep"].describe()


def complaint(folder: Path, *parts: str) -> str:
    with pytest.raises(InvalidJobs) as caught:
        describe(folder, *parts)
    return str(caught.value).partition(": ")[2]


def test_a_job_keeps_streams_in_a_table_beside_the_file(tmp_path: Path) -> None:
    assert describe(tmp_path) == "stream orders → delta lake/orders"
    job = load(tmp_path / "jobs.toml", {}).jobs["keep"]
    assert {str(each) for each in job.sink.claims(job)} == {f"the table {(tmp_path / 'lake' / 'orders').resolve()}"}


def test_a_job_brings_a_table_back_into_streams(tmp_path: Path) -> None:
    more = 'trigger = "available-now"'
    assert describe(tmp_path, LAKE, '{ by_column = "stream" }', more) == (
        "table lake/orders → streams by column stream"
    )


@pytest.mark.parametrize(
    "sink, words",
    [
        ('{ lake = "x", format = "csv" }', "jobs.keep.sink: format must be 'delta', got 'csv'"),
        ('{ lake = "x", format = "parquet" }', "jobs.keep.sink: format='parquet' is not supported"),
        ('{ lake = "x", group = "(" }', "jobs.keep.sink: group must be a regular expression"),
        ('{ lake = "x", group = 0 }', "jobs.keep.sink.group: must be a whole number of at least 1 or a text"),
        ('{ lake = "x", retention = "soon" }', "jobs.keep.sink: retention must be hours or days"),
        ('{ lake = "x", dead_letters = "none" }', "jobs.keep.sink: dead_letters must be 'table' or 'stream:name'"),
        ('{ lake = "s3://x" }', "jobs.keep.sink: path must be a folder that driver and workers share"),
        ('{ lake = "x", table = "y" }', "jobs.keep.sink: table and lake contradict each other"),
        ('{ lake = "x", schema = "raw", evolve = true }', "jobs.keep.sink: evolve is about fields"),
    ],
)
def test_a_sink_that_makes_no_sense_is_refused(tmp_path: Path, sink: str, words: str) -> None:
    assert complaint(tmp_path, STREAM, sink).startswith(words)


def test_a_table_within_that_of_another_job_is_refused(tmp_path: Path) -> None:
    inner = f'[jobs.inner]\nsource = {STREAM}\nsink = {{ lake = "lake/orders/eu" }}'
    words = complaint(tmp_path, STREAM, LAKE, inner)
    assert words.startswith("jobs.inner.sink.lake: ")
    assert words.endswith("lake/orders/eu is within the table of jobs.keep")


def test_a_replay_has_an_end(tmp_path: Path) -> None:
    words = complaint(tmp_path, LAKE, '{ by_column = "stream" }')
    assert words == 'jobs.keep.source: a table ends, and so does its job: set trigger = "available-now"'


@pytest.mark.parametrize("key", ["stream_column", "value_column"])
def test_a_replay_of_other_files_is_refused_with_the_way(tmp_path: Path, key: str) -> None:
    source = f'{{ lake = "lake/orders", {key} = "user" }}'
    words = complaint(tmp_path, source, '{ by_column = "stream" }', 'trigger = "available-now"')
    assert words.startswith(f"jobs.keep.source: {key} is not supported: everbrook_lake reads tables that write_lake")


def test_a_job_can_not_read_the_table_that_it_writes(tmp_path: Path) -> None:
    words = complaint(tmp_path, LAKE, '{ lake = "./lake/orders" }', 'trigger = "available-now"')
    assert words.startswith("jobs.keep: it reads what it writes, without end: the table ")


def test_tasks_need_no_deltalake() -> None:
    """Workers of a cluster get the package sent, which has no Delta in it."""
    code = "import sys, everbrook.spark.lake.lake_task; sys.exit('deltalake' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
