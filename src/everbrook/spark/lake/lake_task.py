"""Writes the rows of a batch, or of a task, to files, and reports the files.

Each task finds new columns by itself. If tasks disagree, the driver decides and the batch is written again.

Messages that can't be rows become dead letters: rows of a table in the folder `_dead_letters` of the table. Their
commit comes before that of the rows; both record the batch, so neither table has anything twice. Where dead letters go
to a stream, their files are an outbox: the query appends them as their producer, with the batch as the epoch.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from everbrook.spark.lake.columns import (
    APPENDED_AT,
    INCARNATION,
    OFFSET,
    STREAM,
    STREAM as FROM,
    Column,
    Columns,
    columns_in,
    file_schema,
    own_fields,
)
from everbrook.spark.lake.files import File, FileWriter, Group, grouping
from everbrook.spark.lake.lake_table import BatchFiles
from everbrook.spark.lake.message_fields import VALUE, Messages, messages_of
from everbrook.spark.sinks.dead_letters import DeadLetterOptions, Letter, publish_letters
from everbrook.spark.sinks.task_writer import TaskWriter
from everbrook.spark.streams.messages import InvalidRow

REASON, PAYLOAD = "reason", "message"
LETTER_COLUMNS: Columns = (Column(REASON, pa.string()), Column(PAYLOAD, pa.binary()))
TIME = "time"


def letters_of(rows: pa.Table, messages: pa.ChunkedArray, refused: Mapping[int, str]) -> pa.Table:
    """Make the rows of dead letters."""
    places = sorted(refused)
    reasons = pa.array([refused[place] for place in places], pa.string())
    payloads = messages.take(pa.array(places, pa.int64())).cast(pa.binary())
    own = rows.take(pa.array(places, pa.int64()))
    columns = [*own.columns, reasons, pa.chunked_array(payloads.chunks, pa.binary())]
    return pa.Table.from_arrays(columns, schema=file_schema(LETTER_COLUMNS))


def publish_files(options: DeadLetterOptions, query: str, folder: Path, letter_files: BatchFiles) -> None:
    """Append dead letters to their stream, and remove the files in which tasks have put them."""
    paths = [folder / file.path for file in letter_files.files]
    rows = pa.concat_tables([pq.read_table(path, partitioning=None) for path in paths])
    # They have the same order whenever the batch is run again.
    rows = rows.sort_by([(FROM, "ascending"), (OFFSET, "ascending"), (PAYLOAD, "ascending")])
    letters = [
        Letter({FROM: row[FROM], OFFSET: row[OFFSET]}, row[REASON], row[PAYLOAD])
        for row in rows.select([FROM, OFFSET, REASON, PAYLOAD]).to_pylist()
    ]
    publish_letters(options, query, letter_files.batch, letters)
    for path in paths:
        path.unlink(missing_ok=True)


class Work(Struct, frozen=True):
    """What a task needs to write rows."""

    name: str
    """The prefix of file names: the query and the batch."""
    rows: str
    letters: str
    columns: Columns
    evolve: bool
    group: Group
    max_columns: int
    incarnations: dict[str, str] = {}
    """The incarnations of streams in the batch, as far as they are known."""
    chunk_rows: int = 20_000
    chunk_bytes: int = 16 * 1024 * 1024
    """The size of a chunk, which is read and written at once: so many rows, or so many bytes."""


class TaskFiles(Struct):
    """The files that a task has written."""

    files: list[File]
    letters: list[File]
    schema: bytes
    size_bytes: int
    widened: bool
    """Whether a new column has got another type between two chunks: the first files have the first type."""

    @property
    def columns(self) -> Columns:
        """The columns at the end of the task."""
        return columns_in(pa.ipc.read_schema(pa.py_buffer(self.schema)))


class LakeTaskWriter(TaskWriter[TaskFiles]):
    """Writes rows to files."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def write_rows(self, batches: Iterable[pa.RecordBatch]) -> TaskFiles:
        work = self._work
        messages = messages_of(work.columns, evolve=work.evolve, most=work.max_columns)
        group_of = grouping(work.group)
        rows, letters = (FileWriter(Path(folder), work.name, group_of) for folder in (work.rows, work.letters))
        size_bytes = 0
        for chunk in _chunks(work, batches):
            size_bytes += chunk.nbytes
            _write_chunk(messages, _with_incarnations(work, chunk), rows, letters)
        rows.close()
        letters.close()
        schema = file_schema(messages.columns).serialize().to_pybytes()
        return TaskFiles(rows.files, letters.files, schema, size_bytes, messages.widened)


def _write_chunk(messages: Messages, chunk: pa.Table, rows: FileWriter, letters: FileWriter) -> None:
    if chunk.column(STREAM).null_count:
        raise InvalidRow("a row has no stream: its column 'stream' is null")
    values = chunk.column(VALUE).combine_chunks()
    read = messages.read(values)
    own = pa.Table.from_arrays([_own(chunk, field) for field in own_fields()], schema=pa.schema(own_fields()))
    table = pa.Table.from_arrays([*own.columns, *read.arrays], schema=file_schema(messages.columns))
    if read.refused:
        letters.write(letters_of(own, chunk.column(VALUE), read.refused))
        table = table.filter(pa.array([place not in read.refused for place in range(len(table))]))
    if len(table):
        rows.write(table)


def _with_incarnations(work: Work, chunk: pa.Table) -> pa.Table:
    streams = chunk.column(STREAM).combine_chunks().dictionary_encode()
    known = pa.array([work.incarnations.get(name) for name in streams.dictionary.to_pylist()], pa.string())
    return chunk.append_column(INCARNATION, known.take(streams.indices))


def _own(chunk: pa.Table, field: pa.Field) -> Any:
    """Return a column of metadata. It is null if the server does not report it."""
    name = TIME if field.name == APPENDED_AT else field.name
    if name not in chunk.column_names:
        return pa.nulls(len(chunk), field.type)
    return chunk.column(name).cast(field.type)


def _chunks(work: Work, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Combine batches into chunks."""
    waiting: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            rows, size_bytes = rows + batch.num_rows, size_bytes + batch.nbytes
        if rows >= work.chunk_rows or size_bytes >= work.chunk_bytes:
            yield pa.Table.from_batches(waiting)
            waiting, rows, size_bytes = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting)
