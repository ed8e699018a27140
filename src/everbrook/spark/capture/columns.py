"""The columns of captured changes, and how messages become Arrow batches of them.

The first are those that the sink for streams knows: where a message goes, its place in the order, the message itself,
and when it was committed. So a data frame of them can be written to streams as it is.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec
import pyarrow as pa
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from everbrook.spark.capture.rows import Row

_RAW = [
    StructField("stream", StringType()),
    StructField("offset", StringType()),
    StructField("value", StringType()),
    StructField("time", TimestampType()),
]
_MORE = [StructField(name, StringType()) for name in ("table", "operation", "key")]
SCHEMAS = {"raw": StructType(_RAW), "change": StructType(_RAW + _MORE)}
"""By envelope. `change` has what a message says of itself as columns too."""

_ROWS_PER_BATCH = 10_000
_TYPES = {"time": pa.timestamp("us", tz="UTC")}


def batches_of(rows: Iterable[Row], envelope: str) -> Iterator[pa.RecordBatch]:
    """Make Arrow batches of messages, in their order."""
    names = SCHEMAS[envelope].fieldNames()
    schema = pa.schema([(name, _TYPES.get(name, pa.string())) for name in names])
    waiting = iter(rows)
    while some := list(islice(waiting, _ROWS_PER_BATCH)):
        columns = [
            [row.stream for row in some],
            [row.offset for row in some],
            [row.value for row in some],
            [row.time_us for row in some],
        ]
        if envelope == "change":
            columns += [[row.table for row in some], [row.operation for row in some], [_key(row) for row in some]]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _key(row: Row) -> str | None:
    return None if row.key is None else msgspec.json.decode(row.key, type=str)
