"""`write_lake`: a streaming query that writes to a Delta table. The driver writes small batches, tasks large ones.

Everything is checked before the query starts. The result does not depend on how rows are partitioned or ordered: a
batch is committed as a whole with its number, or not at all.

A query records its name in the folder of the table before its first batch. A query that is past its first batch, and
whose name is missing, would write to another table than before, from the middle on: it is refused. Two runs of one
query take turns, batch by batch: the second finds the batch of the first.
"""

import os
from collections.abc import Iterator, Mapping
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
from everbrook.spark.lake.columns import ANY, Column, Columns, column_name, is_own, settle
from everbrook.spark.lake.delta import DeltaLake
from everbrook.spark.lake.files import File, Group
from everbrook.spark.lake.lake_errors import TableMismatch, explained
from everbrook.spark.lake.lake_table import (
    DEAD_LETTERS,
    DELTA,
    INFERRED,
    MOST_COLUMNS,
    RAW,
    BatchFiles,
    LakeOptions,
    check_format,
    check_options,
    require_apart,
)
from everbrook.spark.lake.lake_task import (
    LETTER_COLUMNS,
    LakeTaskWriter,
    TaskFiles,
    Work,
    publish_files,
)
from everbrook.spark.lake.message_fields import json_columns, raw_columns
from everbrook.spark.options import DEFAULT_TABLE_TUNING, InvalidOption, ServerOptions, TableTuning
from everbrook.spark.sinks.batch_writer import MicroBatchWriter, OnDeadLetters, require_local
from everbrook.spark.sinks.checkpoint import write_with
from everbrook.spark.sinks.dead_letters import DeadLetterOptions, parse_dead_letters
from everbrook.spark.sinks.query_plan import incarnations_of
from everbrook.spark.sinks.task_writer import write_by_tasks, write_on_driver
from everbrook.spark.streams.json_conversion import has_variant
from everbrook.spark.streams.messages import VALUE, require_messages

_QUERIES = "_queries"
_NEEDED = ("stream", "offset")
_TAKEN = {*_NEEDED, "next_offset", "time", "content_type", VALUE}


def register_query(folder: Path, query: str, batch: int, *, known: bool) -> None:
    """Record the name of a query that begins with a batch, or refuse it.

    It is `known` if the table has a batch of it.
    """
    name = folder / _QUERIES / query
    with explained(folder):
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
    """Lock the table against other runs of a query. The kernel releases the lock of a process that dies."""
    lock = folder / _QUERIES / f".{query}"
    with explained(folder):
        lock.parent.mkdir(parents=True, exist_ok=True)
        descriptor = take_lock(lock, wait=True)
    try:
        yield
    finally:
        os.close(descriptor)


class LakeBatchWriter(MicroBatchWriter):
    """Writes the batches of one query."""

    def __init__(
        self,
        options: LakeOptions,
        columns: Columns,
        dead_letters: DeadLetterOptions,
        on_dead_letters: OnDeadLetters | None = None,
        tuning: TableTuning = DEFAULT_TABLE_TUNING,
    ) -> None:
        super().__init__(tuning.large_bytes, on_dead_letters=on_dead_letters)
        self._options = options
        self._columns = columns
        self._dead_letters = dead_letters
        self._tables: tuple[DeltaLake, DeltaLake] | None = None
        self._files_added = 0

    def _write(self, query: StreamingQuery, batch: DataFrame, batch_id: int, *, by_tasks: bool) -> int | None:
        query_id = str(query.id)
        with held(self._options.folder, query_id):
            # Under the lock: another run of the query may have written this batch meanwhile.
            rows, refused = self._open(query_id, batch_id)
            if rows.has(batch_id):
                return None
            work = Work(
                f"{query_id}-{batch_id:09d}",
                str(self._options.folder),
                str(self._options.folder / DEAD_LETTERS),
                rows.columns(),
                self._options.grows,
                self._options.group,
                self._options.max_columns,
                incarnations_of(query),
            )
            written, work = self._settled(batch, work, by_tasks=by_tasks)
            self._commit(query_id, batch_id, work, written, rows, refused)
            return sum(each.size_bytes for each in written)

    def prepare(self) -> None:
        """Create the table and that of dead letters, or refuse them, before the query begins."""
        require_apart(self._options.folder)
        for table, columns in zip(_tables(self._options, ""), (self._columns, LETTER_COLUMNS), strict=True):
            table.prepare(columns)

    def _open(self, query: str, batch_id: int) -> tuple[DeltaLake, DeltaLake]:
        """Open the tables once: check that the query may write them, and remove files that a killed run has left."""
        if self._tables is None:
            rows, refused = _tables(self._options, query)
            register_query(self._options.folder, query, batch_id, known=rows.has(0))
            for table in (rows, refused):
                table.recover()
            self._files_added = rows.loose_files() if self._options.compact_after else 0
            self._tables = rows, refused
        return self._tables

    def _settled(self, batch: DataFrame, work: Work, *, by_tasks: bool) -> tuple[list[TaskFiles], Work]:
        """Write files with the same columns, also if tasks, or chunks of one task, have found different ones."""
        written = _write_files(batch, work, by_tasks=by_tasks)
        found = [each.columns for each in written]
        columns = settle(work.columns, found, self._options.max_columns)
        if not any(each.widened for each in written) and all(set(each) <= set(columns) for each in found):
            return written, replace(work, columns=columns)
        _remove(work, written)
        # The columns are decided now: a task that found more of them would make files disagree again.
        again = replace(work, columns=columns, evolve=False)
        return _write_files(batch, again, by_tasks=by_tasks), again

    def _commit(
        self, query: str, batch_id: int, work: Work, written: list[TaskFiles], rows: DeltaLake, refused: DeltaLake
    ) -> None:
        # Dead letters come first: once the table has the batch, it is not written again.
        letter_files = [file for each in written for file in each.letters]
        if letter_files:
            self._put_aside(query, BatchFiles(batch_id, LETTER_COLUMNS, letter_files), refused)
        files = [file for each in written for file in each.files]
        if files:
            rows.commit(BatchFiles(batch_id, work.columns, files))
            self._files_added += len(files)
            self._compact(rows)

    def _put_aside(self, query: str, letter_files: BatchFiles, refused: DeltaLake) -> None:
        folder = self._options.folder / DEAD_LETTERS
        if self._dead_letters.stream is not None:
            publish_files(self._dead_letters, query, folder, letter_files)
        elif refused.has(letter_files.batch):
            _unlink(folder, letter_files.files)
        else:
            refused.commit(letter_files)
        self._count_dead_letters(sum(file.rows for file in letter_files.files))

    def _compact(self, rows: DeltaLake) -> None:
        if self._options.compact_after and self._files_added >= self._options.compact_after:
            rows.compact(self._options.retention_hours)
            self._files_added = 0


def _tables(options: LakeOptions, query: str) -> tuple[DeltaLake, DeltaLake]:
    beside = LakeOptions(f"{options.path}/{DEAD_LETTERS}", group=options.group)
    return DeltaLake(options, query), DeltaLake(beside, query)


def _write_files(batch: DataFrame, work: Work, *, by_tasks: bool) -> list[TaskFiles]:
    writer = LakeTaskWriter(work)
    return write_by_tasks(batch, writer, TaskFiles) if by_tasks else write_on_driver(batch, writer)


def _remove(work: Work, written: list[TaskFiles]) -> None:
    """Remove files of an attempt that is made again."""
    for each in written:
        for folder, files in ((work.rows, each.files), (work.letters, each.letters)):
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
    on_dead_letters: OnDeadLetters | None = None,
    tuning: TableTuning = DEFAULT_TABLE_TUNING,
) -> StreamingQuery:
    """Begin to write messages to a Delta table, exactly once, and return the query.

        write_lake(spark.readStream.format("everbrook").load("orders"), "/checkpoints/orders", path="/lake/orders")

    `df` has the columns of the source (stream, offset, next_offset, value, time). The fields of its messages become
    columns: those that occur (`schema="inferred"`), or those that are given (`schema="id BIGINT, item STRING"`);
    with `schema="raw"` a row has the message as it is. A message that is no JSON object goes to the table
    `_dead_letters` within the folder, or to a stream (`dead_letters="stream:name"`).
    """
    require_local(df, "write_lake")
    options = LakeOptions(path, schema, evolve, group, max_columns, compact_after, retention_hours)
    check_format(format)
    check_options(options)
    _require_schema(df.schema)
    letters = parse_dead_letters(dead_letters, server or ServerOptions(url=server_url, token=server_token))
    batches = LakeBatchWriter(options, _columns(df, schema), letters, on_dead_letters, tuning)
    batches.prepare()
    return batches.start(write_with(df, checkpoint, trigger, query_name))


def _require_schema(schema: StructType) -> None:
    """Refuse a data frame that lacks the message or its place, or has columns that the table would lose."""
    require_messages(schema, _NEEDED)
    other = [name for name in schema.names if name not in _TAKEN]
    if other:
        raise InvalidOption(
            f"the column {other[0]!r} would be lost: a table only has fields of messages. Make it a field of 'value', "
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
