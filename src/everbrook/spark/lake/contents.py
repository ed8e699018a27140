"""A table as a replay reads it: pinned to a version, and with what makes messages of its rows."""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from everbrook.spark.lake.columns import APPENDED_AT, INCARNATION, OFFSET, STREAM, lacks_incarnations, own_fields
from everbrook.spark.lake.errors import TableMismatch
from everbrook.spark.lake.incarnations import NUMBER, TELLING, RowIncarnations
from everbrook.spark.lake.messages import VALUE
from everbrook.spark.lake.rebuilding import rebuilding
from everbrook.spark.lake.replays import Incarnations, ReplayOptions


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
                f"{options.folder} is another table than when the replay began: its rows can't be told from those "
                "that are written already. Begin anew, into other streams"
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
        """Tell how large the rows are, as far as Parquet tells."""
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
        """Refuse a table where a stream has several incarnations and no option tells which are read.

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
        """Read the columns that tell the incarnations of rows."""
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
        """Tell which rows of a part of a file are chosen, by the one column that says it: the others are much more."""
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
        """Say what is wrong with a file."""
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
    return zlib.crc32(name.encode())
