"""Sessions: set up for short batches, or any that is there already."""

import os
import subprocess
import sys

import pyspark
import pytest
from pyspark.sql import SparkSession

from everbrook import Client
from everbrook.spark import register
from everbrook.spark.launchers import ensure_python
from everbrook.spark.sessions import LOW_LATENCY


def test_a_session_has_the_settings_for_short_batches(spark: SparkSession) -> None:
    assert {name: spark.sparkContext.getConf().get(name) for name in LOW_LATENCY} == LOW_LATENCY


def test_workers_run_the_python_of_this_process(spark: SparkSession) -> None:
    assert spark.range(1).rdd.map(lambda _row: sys.executable).first() == sys.executable


def test_workers_load_the_pyspark_that_is_installed(spark: SparkSession) -> None:
    """That in Spark's archive would be compiled by each of them."""
    assert spark.range(1).rdd.map(lambda _row: pyspark.__file__).first() == pyspark.__file__


@pytest.mark.parametrize(
    "given, left",
    [
        ("/spark/pyspark.zip:/mine", "/mine"),
        ("/mine:/spark/pyspark.zip:/a b:/spark/pyspark.zip", "/mine:/a b"),
        ("/spark/pyspark.zip", ""),
    ],
)
def test_the_archive_of_pyspark_is_taken_off_the_path_wherever_it_is(
    given: str, left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    ensure_python("local[1]")
    command = [os.environ["PYSPARK_PYTHON"], "-c", "import os; print(os.environ['PYTHONPATH'])"]
    told = subprocess.run(command, env={"PYTHONPATH": given}, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == left


def test_a_session_that_is_there_is_taught_the_format(
    spark: SparkSession, client: Client, server: str, prefix: str
) -> None:
    client.stream(f"{prefix}a").create(data=7)
    other = register(spark.newSession())
    rows = other.read.format("everbrook").options(url=server).load(f"{prefix}a").collect()
    assert [row.value for row in rows] == ["7"]
