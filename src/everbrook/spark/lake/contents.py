"""A table as a replay reads it: pinned to a version, and with what makes messages of its rows."""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from everbrook.spark.lake.columns import OFFSET, STREAM
from everbrook.spark.lake.errors import TableMismatch
from everbrook.spark.lake.messages import VALUE
from everbrook.spark.lake.rebuilding import rebuilding
from everbrook.spark.lake.replays import ReplayOptions


class Contents:
    """A table of the lake at one version."""

    def __init__(self, options: ReplayOptions, pin: str | None = None) -> None:
        # A client of Spark Connect that only sends the source need not have deltalake.
        from everbrook.spark.lake.delta import open_delta  # noqa: PLC0415

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
        self._rebuild, self.type = rebuilding(self._dataset.schema)

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

    def _bytes_of(self, fragment: Any) -> int:  # noqa: ANN401 - of pyarrow, which is untyped
        with self._explained(fragment.path):
            return sum(group.total_byte_size for group in fragment.row_groups)

    def read(self, numbers: range, of: int) -> Iterator[pa.RecordBatch]:
        """Read the rows of streams whose names have these hashes."""
        if not self._options.order_by:
            yield from (self._batch(rows, rows.column(OFFSET)) for rows in self._rows(numbers, of))
            return
        found = list(self._rows(numbers, of))
        if found:
            keys = [*self._options.order_by, OFFSET]
            rows = pa.concat_tables(found).sort_by([(name, "ascending") for name in keys])
            yield self._batch(rows, pa.chunked_array([[f"{number:016d}" for number in range(len(rows))]]))

    def _rows(self, numbers: range, of: int) -> Iterator[pa.Table]:
        for fragment in sorted(self._dataset.get_fragments(), key=lambda each: str(each.path)):
            with self._explained(fragment.path):
                for group in fragment.split_by_row_group():
                    chosen = self._chosen(group, numbers, of)
                    if chosen.any():
                        yield from self._of_group(group, chosen)

    def _chosen(self, group: Any, numbers: range, of: int) -> Any:  # noqa: ANN401 - of pyarrow, and numpy's
        """Tell which rows of a part of a file are chosen, by the one column that says it: the others are much more."""
        names = group.to_table(schema=self._dataset.schema, columns=[STREAM]).column(0).combine_chunks()
        encoded = names.dictionary_encode()
        chosen = np.array([_hash(name) % of in numbers for name in encoded.dictionary.to_pylist()], dtype=bool)
        return chosen[encoded.indices.to_numpy()]

    def _of_group(self, group: Any, chosen: Any) -> Iterator[pa.Table]:  # noqa: ANN401
        start = 0
        for batch in group.to_batches(schema=self._dataset.schema):
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
