"""Columns that are new in a batch: their type is that of all of its values, however the batch is parted."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa

from everbrook.spark.lake.columns import Column
from everbrook.spark.lake.lake_query import LakeBatchWriter
from everbrook.spark.lake.lake_table import LakeOptions
from everbrook.spark.lake.lake_task import Work
from everbrook.spark.sinks.dead_letters import DeadLetterOptions
from tests.kit.lake_rows import rows_of, table_at


def written(folder: Path, *values: object, known: tuple[Column, ...] = ()) -> list[tuple[str, list[Any]]]:
    """Write a batch of which each value is in a part of its own, and give the type and the values of each file."""
    table = table_at(folder, columns=known)
    rows = pa.Table.from_batches([rows_of({"x": value}, first=place) for place, value in enumerate(values)])
    places = str(folder), str(folder / "letters")
    work = Work("q-0", *places, table.columns(), evolve=True, group=1, max_columns=10, chunk_rows=1)
    writing = LakeBatchWriter(LakeOptions(str(folder)), (), DeadLetterOptions())
    batch = cast("Any", SimpleNamespace(toArrow=lambda: rows))
    reports, _ = writing._settled(batch, work, by_tasks=False)  # noqa: SLF001
    files = [pa.parquet.read_table(folder / file.path, partitioning=None) for file in reports[0].files]
    assert len(list(folder.glob("stream_group=*/*/*.parquet"))) == len(files)
    return [(str(each.schema.field("x").type), each["x"].to_pylist()) for each in files]


def test_numbers_that_come_later_make_a_column_of_numbers(tmp_path: Path) -> None:
    assert written(tmp_path, 1, 2, 1.5) == [("double", [1.0, 2.0, 1.5])]


def test_values_of_another_type_that_come_later_make_a_column_of_json(tmp_path: Path) -> None:
    assert written(tmp_path, 1, 1.5, "x") == [("string", ["1", "1.5", '"x"'])]


def test_a_column_that_the_table_has_stays(tmp_path: Path) -> None:
    assert written(tmp_path, 1, 1.5, known=(Column("x", pa.int64()),)) == [("int64", [1, None])]
