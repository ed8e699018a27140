"""Sessions: set up for short batches, or any that is there already."""

import sys

import pyspark
from pyspark.sql import SparkSession

from everbrook import Client
from everbrook.spark import register
from everbrook.spark.sessions import LOW_LATENCY


def test_a_session_has_the_settings_for_short_batches(spark: SparkSession) -> None:
    assert {name: spark.sparkContext.getConf().get(name) for name in LOW_LATENCY} == LOW_LATENCY


def test_workers_run_the_python_of_this_process(spark: SparkSession) -> None:
    assert spark.range(1).rdd.map(lambda _row: sys.executable).first() == sys.executable


def test_workers_load_the_pyspark_that_is_installed(spark: SparkSession) -> None:
    """That in Spark's archive would be compiled by each of them."""
    assert spark.range(1).rdd.map(lambda _row: pyspark.__file__).first() == pyspark.__file__


def test_a_session_that_is_there_is_taught_the_format(
    spark: SparkSession, client: Client, server: str, prefix: str
) -> None:
    client.stream(f"{prefix}a").create(data=7)
    other = register(spark.newSession())
    rows = other.read.format("everbrook").options(url=server).load(f"{prefix}a").collect()
    assert [row.value for row in rows] == ["7"]
