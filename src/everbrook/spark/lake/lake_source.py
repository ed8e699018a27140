"""The source `everbrook_lake`: a table is copied back into streams, one bucket of its streams after the other.

The table is pinned to a version before anything is read, and a batch has all rows of its streams, so a batch that is
read again has the same rows. Their column `offset` gives the order in which they are written.

A message that is rebuilt from columns has the fields of the original with the same values, without those that were
null, in the order of the columns.
"""

import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Raw
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from everbrook.spark.arrival import Arriving
from everbrook.spark.lake.columns import (
    APPENDED_AT,
    INCARNATION,
    JSON,
    OFFSET,
    RESCUED,
    STREAM,
    Column,
    columns_in as columns_of,
    lacks_incarnations,
    own_fields,
)
from everbrook.spark.lake.incarnations import NUMBER, TELLING, RowIncarnations
from everbrook.spark.lake.lake_errors import TableMismatch
from everbrook.spark.lake.message_fields import VALUE
from everbrook.spark.lake.replay import BUCKET, BUCKETS, PIN, SIZE, Incarnations, ReplayOptions, parse_replay
from everbrook.spark.streams.messages import plain

_rescued = msgspec.json.Decoder(dict[str, Raw])
_encoder = msgspec.json.Encoder(decimal_format="number")
_SIMPLE = {pa.string(), pa.int64(), pa.float64(), pa.bool_()}

Rebuild = Callable[[pa.Table], pa.Array]
_TASKS = 2
_PAUSE_SECS = 0.5
"""How long a query that never ends pauses at the end of the table."""
ReplayPosition = dict[str, Any]


def rebuilding(schema: pa.Schema) -> tuple[Rebuild, pa.DataType]:
    """Choose how rows of a table become messages, and return their type."""
    if RESCUED in schema.names:
        return _from_fields, pa.string()
    return lambda rows: rows.column(VALUE).combine_chunks(), schema.field(VALUE).type


def _from_fields(rows: pa.Table) -> pa.Array:
    """Rebuild messages from the columns of their fields."""
    messages: list[dict[str, Any]] = [{} for _ in range(len(rows))]
    for column in columns_of(rows.schema):
        if column.name != RESCUED:
            field = column.field
            for message, value in zip(messages, _values(column, rows.column(column.name)), strict=True):
                if value is not None:
                    message[field] = value
    for message, text in zip(messages, rows.column(RESCUED).to_pylist(), strict=True):
        if text is not None:
            message.update(_rescued.decode(text))
    return pa.array([_encoder.encode(message) for message in messages], pa.binary()).cast(pa.string())


def _values(column: Column, values: pa.ChunkedArray) -> list[Any]:
    """Return values as the encoder takes them. Columns of JSON are inserted as they are."""
    if column.kind == JSON:
        return [None if text is None else Raw(text.encode()) for text in values.to_pylist()]
    return values.to_pylist() if column.type in _SIMPLE else plain(values)


class Contents:
    """A table of the lake at one version."""

    def __init__(self, options: ReplayOptions, pin: str | None = None) -> None:
        # A client of Spark Connect that only sends the source need not have deltalake.
        from everbrook.spark.lake.delta import open_delta

        self._options = options
        version = options.version if pin is None else int(pin[1:].partition("-")[0])
        table = open_delta(options.folder, version)
        self.pin = f"v{table.version()}-{table.metadata().id}"
        """Names the table and its version, so that a replay that goes on reads the same rows."""
        if pin not in {None, self.pin}:
            raise TableMismatch(
                f"{options.folder} is another table than when the replay began: its rows can't be distinguished from "
                "those that are written already. Begin anew, into other streams"
            )
        self._dataset = table.to_pyarrow_dataset()
        self._require(self._dataset.schema.names)
        self._unnamed = lacks_incarnations(self._dataset.schema)
        self._rebuild, self.type = rebuilding(self._dataset.schema)
        by_time = options.order_by[:1] == (APPENDED_AT,)
        self._incarnations = Incarnations.ALL if by_time else options.incarnations

    def _require(self, names: list[str]) -> None:
        folder = self._options.folder
        if not {STREAM, OFFSET} <= set(names):
            raise TableMismatch(
                f"{folder} is no table of the lake: it has no columns 'stream' and 'offset'. Write the rows of other "
                "tables with df.write.format('everbrook')"
            )
        missing = next((name for name in self._options.order_by if name not in names), None)
        if missing is not None:
            raise TableMismatch(f"{folder} has no column {missing!r}; the columns are {', '.join(names)}")

    def size_bytes(self) -> int:
        """Return the size of the rows, as far as Parquet records it."""
        return sum(self._bytes_of(fragment) for fragment in self._dataset.get_fragments())

    def _bytes_of(self, fragment: Any) -> int:
        with self._explained(fragment.path):
            return sum(group.total_byte_size for group in fragment.row_groups)

    def read(self, numbers: range, of: int) -> Iterator[pa.RecordBatch]:
        """Read the rows of streams whose names have these hashes."""
        incarnations = RowIncarnations(self._telling(numbers, of))
        if incarnations.several and self._incarnations is None:
            raise self._mixed(incarnations.several)
        rows, order_by = self._rows(numbers, of), self._options.order_by
        if incarnations.several and self._incarnations is Incarnations.LATEST:
            rows = incarnations.newest(rows)
        elif incarnations.several:
            rows, order_by = incarnations.numbered(rows), (NUMBER, *order_by)
        if not order_by:
            yield from (self._batch(each, each.column(OFFSET)) for each in rows)
        elif found := list(rows):
            table = pa.concat_tables(found).sort_by([(name, "ascending") for name in (*order_by, OFFSET)])
            table = table.select([name for name in table.column_names if name != NUMBER])
            yield self._batch(table, pa.chunked_array([[f"{number:016d}" for number in range(len(table))]]))

    def require_single(self) -> None:
        """Refuse a table where a stream has several incarnations, unless an option chooses among them.

        This finds only those that the table names, before anything is read. `read` finds the others.
        """
        if self._incarnations is not None or self._unnamed:
            return
        found: dict[str, str] = {}
        several = set()
        for fragment in self._fragments():
            with self._explained(fragment.path):
                rows = fragment.to_table(schema=self._dataset.schema, columns=[STREAM, INCARNATION])
            for row in rows.group_by([STREAM, INCARNATION]).aggregate([]).to_pylist():
                incarnation = row[INCARNATION]
                if incarnation is not None and found.setdefault(row[STREAM], incarnation) != incarnation:
                    several.add(row[STREAM])
        if several:
            raise self._mixed(several)

    def _mixed(self, streams: Iterable[str]) -> TableMismatch:
        first, *more = sorted(streams)
        others = f" and of {len(more)} more streams" if more else ""
        return TableMismatch(
            f"{self._options.folder} has rows of several incarnations of {first!r}{others}, which was deleted and "
            "created anew. Set the option incarnations to latest, to read the newest incarnation only, or to all, to "
            "read one behind the other"
        )

    def _telling(self, numbers: range, of: int) -> pa.Table:
        """Read the columns that distinguish the incarnations of rows."""
        there = self._dataset.schema.names
        names = [name for name in TELLING if name in there and not (name == INCARNATION and self._unnamed)]
        schema = pa.schema([field for field in own_fields() if field.name in TELLING])
        rows = [
            pa.table([each[name] if name in names else pa.nulls(len(each)) for name in schema.names], schema.names)
            for each in self._rows(numbers, of, names)
        ]
        return pa.concat_tables([each.cast(schema) for each in rows]) if rows else schema.empty_table()

    def _fragments(self) -> list[Any]:
        return sorted(self._dataset.get_fragments(), key=lambda each: str(each.path))

    def _rows(self, numbers: range, of: int, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        for fragment in self._fragments():
            with self._explained(fragment.path):
                for group in fragment.split_by_row_group():
                    chosen = self._chosen(group, numbers, of)
                    if chosen.any():
                        yield from self._of_group(group, chosen, columns)

    def _chosen(self, group: Any, numbers: range, of: int) -> Any:
        """Find the chosen rows of a row group. This reads only the column of streams: the others are much larger."""
        names = group.to_table(schema=self._dataset.schema, columns=[STREAM]).column(0).combine_chunks()
        encoded = names.dictionary_encode()
        chosen = np.array([_hash(name) % of in numbers for name in encoded.dictionary.to_pylist()], dtype=bool)
        return chosen[encoded.indices.to_numpy()]

    def _of_group(self, group: Any, chosen: Any, columns: Sequence[str] | None) -> Iterator[pa.Table]:
        start = 0
        for batch in group.to_batches(schema=self._dataset.schema, columns=columns):
            rows = pa.Table.from_batches([batch]).filter(pa.array(chosen[start : start + len(batch)]))
            if len(rows):
                yield rows
            start += len(batch)

    @contextmanager
    def _explained(self, path: str) -> Iterator[None]:
        """Explain an error of a file."""
        try:
            yield
        except FileNotFoundError as error:
            raise TableMismatch(
                f"the file {path} of {self._options.folder} is gone, and the replay needs it to the end: was the table "
                "vacuumed, or compacted? Begin anew with the newest version, into other streams"
            ) from error
        except pa.ArrowException as error:
            raise TableMismatch(f"the file {path} can't be read with the columns of the table: {error}") from error

    def _batch(self, rows: pa.Table, offsets: pa.ChunkedArray) -> pa.RecordBatch:
        columns = [rows.column(STREAM).combine_chunks(), offsets.combine_chunks(), self._rebuild(rows)]
        return pa.RecordBatch.from_arrays(columns, [STREAM, OFFSET, VALUE])


def _hash(name: str) -> int:
    # Unlike `hash`, crc32 is the same in every process: a bucket that is read again must have the same streams.
    return zlib.crc32(name.encode())


class LakeDataSource(DataSource, metaclass=Arriving):
    """Tables of the lake as messages."""

    @classmethod
    def name(cls) -> str:
        return "everbrook_lake"

    def schema(self) -> StructType:
        options = parse_replay(self.options)
        table = Contents(options)
        value = BinaryType() if pa.types.is_binary(table.type) else StringType()
        fields = {STREAM: StringType(), OFFSET: StringType(), VALUE: value}
        return StructType([StructField(name, type_) for name, type_ in fields.items()])

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return ReplayReader(parse_replay(self.options))


class Bucket(InputPartition):
    """The streams that a task reads: those in some buckets of `of`."""

    def __init__(self, numbers: range, of: int, pin: str) -> None:
        self.numbers = numbers
        self.of = of
        self.pin = pin


class ReplayReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches on the driver, and reads them in tasks."""

    def __init__(self, options: ReplayOptions) -> None:
        self._options = options
        self._ends = False

    def initialOffset(self) -> ReplayPosition:
        """Return no position: until batch 0 is finished, Spark calls this again, and must get the same."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return no limit: a batch is a bucket."""
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Note that the query ends, so that it does not wait at the end of the table."""
        self._ends = True

    def latestOffset(self, start: ReplayPosition, limit: ReadLimit) -> ReplayPosition:
        """Advance by one bucket, until there is none left."""
        if not start:
            table = Contents(self._options)
            table.require_single()
            size_bytes = table.size_bytes()
            buckets = max(1, -(-size_bytes // self._options.batch_bytes))
            return {BUCKET: 1, BUCKETS: buckets, PIN: table.pin, SIZE: size_bytes}
        if start[BUCKET] == start[BUCKETS] and not self._ends:
            time.sleep(_PAUSE_SECS)
        return {**start, BUCKET: min(start[BUCKET] + 1, start[BUCKETS])}

    def partitions(self, start: ReplayPosition, end: ReplayPosition) -> list[InputPartition]:
        """Divide the buckets between two positions among tasks."""
        of = end[BUCKETS] * _TASKS
        numbers = range(start.get(BUCKET, 0) * _TASKS, end[BUCKET] * _TASKS)
        size = max(1, len(numbers) // _TASKS)
        return [Bucket(numbers[first : first + size], of, end[PIN]) for first in range(0, len(numbers), size)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, Bucket):
            return
        table = Contents(self._options, partition.pin)
        yield from table.read(partition.numbers, partition.of)

    def commit(self, end: ReplayPosition) -> None:
        """Do nothing: positions are in the checkpoint alone."""
