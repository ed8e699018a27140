"""Tables as Spark sees them, without a jar for Delta."""

from pathlib import Path
from typing import TYPE_CHECKING

from everbrook.spark.lake.sql import view
from tests.kit.lake_rows import rows_of, table_at, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_spark_sees_the_rows_of_a_table_and_no_others(spark: "SparkSession", tmp_path: Path) -> None:
    table = table_at(tmp_path)
    write(table, 0, rows_of({"n": 1}, stream="a b%/x"))
    write(table, 1, rows_of({"n": 2, "late": True}, stream="a b%/x", first=1))
    table.compact(retention_hours=100)
    write(table, 2, rows_of({"n": 3}, stream="other", first=2))
    view(spark, "the-table", tmp_path)
    found = spark.sql("SELECT stream_group, n, late, date FROM `the-table` ORDER BY n").collect()
    assert [(row.stream_group, row.n, row.late) for row in found] == [
        ("a b%", 1, None),
        ("a b%", 2, True),
        ("other", 3, None),
    ]
    assert str(found[0].date) == "2026-01-01"


def test_spark_finds_groups_of_all_characters(spark: "SparkSession", tmp_path: Path) -> None:
    folder = tmp_path / "tä ble"
    table = table_at(folder)
    groups = ["ü", "日本", "a b", "a%b"]
    for batch in range(3):
        write(table, batch, *(rows_of({"n": batch}, stream=f"{group}/x", first=batch) for group in groups))
        if batch == 1:
            table.compact(retention_hours=0)
    view(spark, "groups-of-all", folder)
    found = spark.sql("SELECT stream_group FROM `groups-of-all`").collect()
    assert sorted(row.stream_group for row in found) == sorted(groups * 3)
