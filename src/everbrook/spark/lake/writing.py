"""Writes a streaming query to a table of the lake, after checking all options, the schema and the table."""

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import BinaryType, StructType

from everbrook.spark.checkpoints import write_with
from everbrook.spark.conversion import has_variant
from everbrook.spark.given import InvalidOption
from everbrook.spark.lake.batches import BatchWriting
from everbrook.spark.lake.columns import ANY, Column, Columns, column_name, is_own
from everbrook.spark.lake.dead_letters import parse_dead_letters
from everbrook.spark.lake.groups import Group
from everbrook.spark.lake.messages import json_columns, raw_columns
from everbrook.spark.lake.tables import DELTA, INFERRED, MOST_COLUMNS, RAW, LakeOptions, check_format, check_options
from everbrook.spark.messages import VALUE, require_messages
from everbrook.spark.options import ServerOptions
from everbrook.spark.shipping import is_remote
from everbrook.spark.tuning import DEFAULT_TABLE_TUNING, TableTuning

_NEEDED = ("stream", "offset")
_TAKEN = {*_NEEDED, "next_offset", "time", "content_type", VALUE}


def write_lake(  # noqa: PLR0913 - each has a name, and most a default
    df: DataFrame,
    checkpoint: str,
    *,
    path: str,
    format: str = DELTA,
    schema: str = INFERRED,
    evolve: bool | None = None,
    group: Group = 1,
    max_columns: int = MOST_COLUMNS,
    compact_after: int = 100,
    retention_hours: int = 168,
    dead_letters: str = "table",
    server_url: str | None = None,
    server_token: str | None = None,
    server: ServerOptions | None = None,
    trigger: Mapping[str, Any] | None = None,
    query_name: str | None = None,
    on_dead_letters: Callable[[int], None] | None = None,
    tuning: TableTuning = DEFAULT_TABLE_TUNING,
) -> StreamingQuery:
    """Start a query that writes messages to a Delta table exactly once, and return it.

        write_lake(spark.readStream.format("everbrook").load("orders"), "/checkpoints/orders", path="/lake/orders")

    `df` has the columns of the source (stream, offset, next_offset, value, time). The fields of its messages become
    columns, either as they appear in messages (`schema="inferred"`) or as the schema lists them
    (`schema="id BIGINT, item STRING"`); with `schema="raw"` a row has the unchanged message. A message that is not a
    JSON object goes to the table `_dead_letters` within the folder, or to a stream (`dead_letters="stream:name"`).
    """
    if is_remote(df.sparkSession):
        raise InvalidOption(
            "write_lake runs on the driver, which Spark Connect does not let it: use a session of this process"
        )
    options = LakeOptions(path, schema, evolve, group, max_columns, compact_after, retention_hours)
    check_format(format)
    check_options(options)
    _require_schema(df.schema)
    letters = parse_dead_letters(dead_letters, server or ServerOptions(url=server_url, token=server_token))
    batches = BatchWriting(options, _columns(df, schema), letters, on_dead_letters, tuning)
    batches.prepare()
    query = write_with(df, checkpoint, trigger, query_name).foreachBatch(batches.write).start()
    batches.begin(query)
    return query


def _require_schema(schema: StructType) -> None:
    """Refuse a data frame without stream and offset, or with columns that a table does not have."""
    require_messages(schema, _NEEDED)
    other = [name for name in schema.names if name not in _TAKEN]
    if other:
        raise InvalidOption(
            f"the column {other[0]!r} would be lost: a table has what is in the messages. Make it a field of 'value', "
            "with to_json(struct(...)) for instance"
        )


def _columns(df: DataFrame, schema: str) -> Columns:
    """Return the columns of the table at its creation."""
    if schema == RAW:
        binary = isinstance(df.schema[VALUE].dataType, BinaryType)
        return raw_columns(pa.binary() if binary else pa.string())
    return json_columns(() if schema == INFERRED else _given(schema))


def _given(schema: str) -> Columns:
    parsed = StructType.fromDDL(schema)
    if not isinstance(parsed, StructType):
        raise InvalidOption(
            f"schema must be 'inferred', 'raw' or columns such as 'id BIGINT, item STRING', got {schema!r}"
        )
    try:
        fields = to_arrow_schema(parsed, timezone="UTC")
    except PySparkTypeError as error:
        raise InvalidOption(f"schema has a type that no table can have, in {schema!r}: {error}") from None
    variant = next((field.name for field in fields if has_variant(field.type)), None)
    if variant is not None:
        raise InvalidOption(f"schema has a type that no table can have: {variant!r} is a VARIANT; give STRING for it")
    lower = [field.name.lower() for field in fields]
    own = next((field.name for field in fields if is_own(field.name)), None)
    if own is not None:
        raise InvalidOption(
            f"{own!r} is a column that every table of the lake has: a field of that name is read into {own + '_'!r}"
        )
    impossible = next((field.name for field in fields if column_name(field.name) is None), None)
    if impossible is not None:
        raise InvalidOption(f"no table can have a column {impossible!r}: fields of such names are kept in '_rescued'")
    if len(set(lower)) < len(lower):
        raise InvalidOption(f"two columns have the same name, but for its case perhaps: {schema!r}")
    return tuple(Column(field.name, field.type, ANY if pa.types.is_string(field.type) else "") for field in fields)
