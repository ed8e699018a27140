"""`write_lake`: a streaming query that writes to a Delta table. The driver writes small batches, tasks large ones.

Everything is checked before the query starts. The result does not depend on how rows are partitioned or ordered: a
batch is committed as a whole with its number, or not at all.

A query leaves its name in the folder of the table before its first batch. A query that has written batches, and whose
name is not there, writes to another table than before, and is refused: it would begin in the middle. Two runs of one
query take turns, batch by batch: the second finds the batch of the first.
"""

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from msgspec.structs import replace
from pyspark.errors import PySparkTypeError
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import BinaryType, StructType

from everbrook.file_lock import take_lock
from everbrook.spark.arrival import as_function
from everbrook.spark.lake.columns import ANY, Column, Columns, column_name, is_own, settle
from everbrook.spark.lake.delta import DeltaLake
from everbrook.spark.lake.files import File, Group
from everbrook.spark.lake.lake_errors import TableMismatch, told_of
from everbrook.spark.lake.lake_table import (
    DEAD_LETTERS,
    DELTA,
    INFERRED,
    MOST_COLUMNS,
    RAW,
    LakeOptions,
    Written,
    check_format,
    check_options,
    require_apart,
)
from everbrook.spark.lake.lake_task import (
    LETTER_COLUMNS,
    REPORT,
    Report,
    TaskWriting,
    Work,
    parse_report,
    publish_letters,
    write_rows,
)
from everbrook.spark.lake.message_fields import json_columns, raw_columns
from everbrook.spark.options import DEFAULT_TABLE_TUNING, InvalidOption, ServerOptions, TableTuning
from everbrook.spark.shipping import is_remote
from everbrook.spark.sinks.checkpoint import write_with
from everbrook.spark.sinks.dead_letters import DeadLetterOptions, parse_dead_letters
from everbrook.spark.sinks.foreach_batch import RunningQuery
from everbrook.spark.sinks.query_plan import incarnations_of
from everbrook.spark.streams.json_conversion import has_variant
from everbrook.spark.streams.messages import VALUE, require_messages

_QUERIES = "_queries"
_NEEDED = ("stream", "offset")
_TAKEN = {*_NEEDED, "next_offset", "time", "content_type", VALUE}


def introduce(folder: Path, query: str, batch: int, *, known: bool) -> None:
    """Leave the name of a query that begins with a batch, unless it can't begin here.

    It is `known` if the table has a batch of it.
    """
    name = folder / _QUERIES / query
    with told_of(folder):
        if known or name.exists():
            return
        if batch > 0:
            raise TableMismatch(
                f"the table {folder} has never had a batch of this query, whose checkpoint is at batch {batch}: was "
                "the table removed, or is it at another path now? Put it back; or let the query begin anew, with "
                "`everbrook pipeline reset`, or with another checkpoint"
            )
        name.parent.mkdir(parents=True, exist_ok=True)
        name.touch()


@contextmanager
def held(folder: Path, query: str) -> Iterator[None]:
    """Lock the table against other runs of a query. The lock of a process that dies is released."""
    lock = folder / _QUERIES / f".{query}"
    with told_of(folder):
        lock.parent.mkdir(parents=True, exist_ok=True)
        descriptor = take_lock(lock, wait=True)
    try:
        yield
    finally:
        os.close(descriptor)


class BatchWriting:
    """Writes the batches of one query."""

    def __init__(
        self,
        options: LakeOptions,
        columns: Columns,
        dead_letters: DeadLetterOptions,
        on_dead_letters: Callable[[int], None] | None = None,
        tuning: TableTuning = DEFAULT_TABLE_TUNING,
    ) -> None:
        self._options = options
        self._columns = columns
        self._dead_letters = dead_letters
        self._on_dead_letters = on_dead_letters
        self.query = RunningQuery(tuning.large_bytes)
        self._tables: tuple[DeltaLake, DeltaLake] | None = None
        self._files_added = 0
        self._writing = threading.Lock()

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Write a batch, unless it is there."""
        query = self.query.get()
        with self._writing, held(self._options.folder, str(query.id)):
            rows, refused = self._open(str(query.id), batch_id)
            if not rows.has(batch_id):
                self._write(query, batch, batch_id, rows, refused)

    def prepare(self) -> None:
        """Make the table and that of dead letters, or say why they can't be written, before the query begins."""
        require_apart(self._options.folder)
        for table, columns in zip(_tables(self._options, ""), (self._columns, LETTER_COLUMNS), strict=True):
            table.prepare(columns)

    def _open(self, query: str, batch_id: int) -> tuple[DeltaLake, DeltaLake]:
        """See that the query may write here, and clear what a kill has left, once."""
        if self._tables is None:
            rows, refused = _tables(self._options, query)
            introduce(self._options.folder, query, batch_id, known=rows.has(0))
            for table in (rows, refused):
                table.recover()
            self._files_added = rows.loose_files() if self._options.compact_after else 0
            self._tables = rows, refused
        return self._tables

    def _write(
        self, query: StreamingQuery, batch: DataFrame, batch_id: int, rows: DeltaLake, refused: DeltaLake
    ) -> None:
        work = Work(
            f"{query.id}-{batch_id:09d}",
            str(self._options.folder),
            str(self._options.folder / DEAD_LETTERS),
            rows.columns(),
            self._options.grows,
            self._options.group,
            self._options.max_columns,
            incarnations_of(query),
        )
        reports, work = self._settled(batch, work, large=self.query.in_large_batch())
        self.query.written_bytes = sum(report.size_bytes for report in reports)
        self._commit(str(query.id), batch_id, work, reports, rows, refused)

    def _settled(self, batch: DataFrame, work: Work, *, large: bool) -> tuple[list[Report], Work]:
        """Write files whose columns are all the same, also where tasks, or parts of one, have found different ones."""
        run = _by_tasks if large else _here
        reports = run(batch, work)
        found = [report.columns for report in reports]
        columns = settle(work.columns, found, self._options.max_columns)
        if not any(report.widened for report in reports) and all(set(each) <= set(columns) for each in found):
            return reports, replace(work, columns=columns)
        _remove(work, reports)
        again = replace(work, columns=columns, evolve=False)
        return run(batch, again), again

    def _commit(
        self, query: str, batch_id: int, work: Work, reports: list[Report], rows: DeltaLake, refused: DeltaLake
    ) -> None:
        put_aside = [file for report in reports for file in report.letters]
        if put_aside:
            self._put_aside(query, Written(batch_id, LETTER_COLUMNS, put_aside), refused)
        files = [file for report in reports for file in report.files]
        if files:
            rows.commit(Written(batch_id, work.columns, files))
            self._files_added += len(files)
            self._compact(rows)

    def _put_aside(self, query: str, written: Written, refused: DeltaLake) -> None:
        options = self._dead_letters
        folder = self._options.folder / DEAD_LETTERS
        if options.stream is not None:
            publish_letters(options, options.stream, query, folder, written)
        elif refused.has(written.batch):
            _unlink(folder, written.files)
        else:
            refused.commit(written)
        if self._on_dead_letters is not None:
            self._on_dead_letters(sum(file.rows for file in written.files))

    def _compact(self, rows: DeltaLake) -> None:
        if self._options.compact_after and self._files_added >= self._options.compact_after:
            rows.compact(self._options.retention_hours)
            self._files_added = 0


def _tables(options: LakeOptions, query: str) -> tuple[DeltaLake, DeltaLake]:
    beside = LakeOptions(f"{options.path}/{DEAD_LETTERS}", group=options.group)
    return DeltaLake(options, query), DeltaLake(beside, query)


def _here(batch: DataFrame, work: Work) -> list[Report]:
    return [write_rows(work, batch.toArrow().to_batches())]


def _by_tasks(batch: DataFrame, work: Work) -> list[Report]:
    told = batch.mapInArrow(as_function(TaskWriting(work)), REPORT).collect()
    return [parse_report(bytes(row.report)) for row in told]


def _remove(work: Work, reports: list[Report]) -> None:
    """Remove files of an attempt that is made again."""
    for report in reports:
        for folder, files in ((work.rows, report.files), (work.letters, report.letters)):
            _unlink(Path(folder), files)


def _unlink(folder: Path, files: list[File]) -> None:
    for file in files:
        (folder / file.path).unlink(missing_ok=True)


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
    """Begin to write messages to a Delta table, exactly once, and give the query.

        write_lake(spark.readStream.format("everbrook").load("orders"), "/checkpoints/orders", path="/lake/orders")

    `df` has the columns of the source (stream, offset, next_offset, value, time). The fields of its messages become
    columns, as far as they are met (`schema="inferred"`) or as they are given (`schema="id BIGINT, item STRING"`);
    with `schema="raw"` a row has the message as it is. What is no JSON object goes to the table `_dead_letters` within
    the folder, or to a stream (`dead_letters="stream:name"`).
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
    return batches.query.start(write_with(df, checkpoint, trigger, query_name), batches.write)


def _require_schema(schema: StructType) -> None:
    """Refuse a data frame that does not say which message is where, or that says more than a table has."""
    require_messages(schema, _NEEDED)
    other = [name for name in schema.names if name not in _TAKEN]
    if other:
        raise InvalidOption(
            f"the column {other[0]!r} would be lost: a table has what is in the messages. Make it a field of 'value', "
            "with to_json(struct(...)) for instance"
        )


def _columns(df: DataFrame, schema: str) -> Columns:
    """Find the columns that the table has from its beginning."""
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
