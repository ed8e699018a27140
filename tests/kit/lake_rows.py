"""Rows as the source gives them, and tables that they are written to, without Spark."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa

from everbrook.spark.lake.columns import Columns
from everbrook.spark.lake.delta import DeltaLake
from everbrook.spark.lake.lake_table import BatchFiles, LakeOptions
from everbrook.spark.lake.lake_task import LakeTaskWriter, Work
from everbrook.spark.lake.message_fields import json_columns

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
QUERY = "0f8fad5b-d9cb-469f-a165-70867728950e"


def rows_of(*messages: object, stream: str = "orders/eu", first: int = 0, later: int = 0) -> pa.RecordBatch:
    """Make rows of messages, of which one comes each hour, and the first so many hours later than its offset says."""
    offsets = [f"{first + number:016d}" for number in range(len(messages) + 1)]
    times = [NOON + timedelta(hours=later + first + number) for number in range(len(messages))]
    return pa.RecordBatch.from_pydict(
        {
            "stream": [stream] * len(messages),
            "offset": offsets[:-1],
            "next_offset": offsets[1:],
            "value": [json.dumps(message) for message in messages],
            "time": pa.array(times, pa.timestamp("us", "UTC")),
        }
    )


def table_at(folder: Path, query: str = QUERY, columns: Columns = ()) -> DeltaLake:
    """Make a table, or open it as the next start of a query does."""
    made = DeltaLake(LakeOptions(str(folder)), query)
    made.prepare(json_columns(columns))
    made.recover()
    return made


def write_files(table: DeltaLake, batch: int, *rows: pa.RecordBatch, **incarnations: str) -> BatchFiles:
    """Write files of a batch, which are not part of the table yet."""
    folder, name = table.folder, f"{table.query}-{batch:09d}"
    letters = str(folder / "letters")
    work = Work(name, str(folder), letters, table.columns(), True, 1, 100, incarnations)  # noqa: FBT003 - evolve
    written = LakeTaskWriter(work).write_rows(rows)
    return BatchFiles(batch, written.columns, written.files)


def write(table: DeltaLake, batch: int, *rows: pa.RecordBatch, **incarnations: str) -> None:
    """Write a batch, unless it is there. The incarnations are those of streams."""
    if not table.has(batch):
        table.commit(write_files(table, batch, *rows, **incarnations))
