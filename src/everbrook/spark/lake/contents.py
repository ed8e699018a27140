"""A table as a replay reads it: pinned, and with what makes messages of its rows.

Rows of a table of ours know their stream and their offset. Those of any other folder are of the stream that a column
names, or of one that is called like the folder, in an order that is given, or in that of the files.
"""

import hashlib
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from everbrook.spark.lake.columns import OFFSET, STREAM
from everbrook.spark.lake.errors import TableMismatch
from everbrook.spark.lake.messages import VALUE
from everbrook.spark.lake.opening import open_table
from everbrook.spark.lake.rebuilding import rebuilding
from everbrook.spark.lake.replays import ReplayOptions

_ORDINAL = "__everbrook_ordinal"


class Contents:
    """A table as it is read: pinned, and with what makes messages of its rows."""

    def __init__(self, options: ReplayOptions, pin: str | None = None) -> None:
        self._options = options
        version = options.version
        if pin is not None and pin.startswith("v"):
            version = int(pin[1:].partition("-")[0])
        self._dataset = open_table(options.folder, version)
        self._version = version
        if pin is not None and self.pin() != pin:
            raise TableMismatch(
                f"{options.folder} is another table, or has other files, than when the replay began: its rows can't be "
                "told from those that are written already. Begin anew, into other streams"
            )
        schema = self._dataset.schema
        self._require(schema.names)
        self._stream = options.stream_column or (STREAM if STREAM in schema.names else None)
        texts = OFFSET in schema.names and pa.types.is_string(schema.field(OFFSET).type)
        self._ours = self._stream == STREAM and texts
        # Offsets that are numbers are in another order than their texts.
        self._order_by = options.order_by or ((OFFSET,) if OFFSET in schema.names and not texts else ())
        self._rebuild, self.type = rebuilding(schema, options.value_column, self._stream)

    def _require(self, names: list[str]) -> None:
        for name in (self._options.stream_column, self._options.value_column, *self._options.order_by):
            if name is not None and name not in names:
                raise TableMismatch(
                    f"{self._options.folder} has no column {name!r}; the columns are {', '.join(names)}"
                )

    def pin(self) -> str:
        """Name what is read, so that it is the same later: a version of a table, or a digest of names, sizes, times."""
        if (self._options.folder / "_delta_log").is_dir():
            from everbrook.spark.lake.delta import open_delta  # noqa: PLC0415 - only where there is one

            table = open_delta(self._options.folder, self._version)
            self._version = table.version()
            return f"v{self._version}-{table.metadata().id}"
        files = [(name, Path(name).stat()) for name in sorted(self._dataset.files)]
        told = "\n".join(f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in files)
        return hashlib.sha256(told.encode()).hexdigest()

    def size_bytes(self) -> int:
        """Tell how large the rows are, as far as Parquet tells."""
        return sum(self._bytes_of(fragment) for fragment in self._dataset.get_fragments())

    def _bytes_of(self, fragment: Any) -> int:  # noqa: ANN401 - of pyarrow, which is untyped
        with self._explained(fragment.path):
            return sum(group.total_byte_size for group in fragment.row_groups)

    def read(self, numbers: range, of: int) -> Iterator[pa.RecordBatch]:
        """Read the rows of streams whose names have these hashes."""
        if self._order_by:
            found = list(self._rows(numbers, of))
            if found:
                yield from self._in_order(pa.concat_tables(found))
            return
        for rows in self._rows(numbers, of):
            yield self._batch(rows, rows.column(OFFSET if self._ours else _ORDINAL).combine_chunks())

    def _in_order(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        keys = [*self._order_by, OFFSET if self._ours else _ORDINAL]
        rows = rows.sort_by([(name, "ascending") for name in keys])
        yield self._batch(rows, pa.array([f"{number:016d}" for number in range(len(rows))], pa.string()))

    def _rows(self, numbers: range, of: int) -> Iterator[pa.Table]:
        """Give rows, with where they are in the table if nothing else says in which order they are."""
        if self._stream is None and _hash(self._name) % of not in numbers:
            return
        fragments = sorted(self._dataset.get_fragments(), key=lambda each: str(each.path))
        for place, fragment in enumerate(fragments):
            first = 0
            with self._explained(fragment.path):
                for group in fragment.split_by_row_group():
                    chosen = self._chosen(group, numbers, of)
                    for rows, start in self._of_group(group, chosen) if chosen.any() else ():
                        yield rows if self._ours else _numbered(rows, place, first, start, chosen)
                    first += len(chosen)

    def _of_group(self, group: Any, chosen: Any) -> Iterator[tuple[pa.Table, int]]:  # noqa: ANN401 - numpy's
        """Read what is chosen of a part of a file, each with the row of the part at which it was looked for."""
        start = 0
        for batch in group.to_batches(schema=self._dataset.schema):
            rows = pa.Table.from_batches([batch]).filter(pa.array(chosen[start : start + len(batch)]))
            if len(rows):
                yield rows, start
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
            raise TableMismatch(f"the file {path} can't be read with the columns of all: {error}") from error

    def _chosen(self, group: Any, numbers: range, of: int) -> Any:  # noqa: ANN401 - of pyarrow, and numpy's
        """Tell which rows of a part of a file are chosen, by the one column that says it: the others are much more."""
        if self._stream is None:
            return np.ones(group.count_rows(), dtype=bool)
        column = group.to_table(schema=self._dataset.schema, columns=[self._stream]).column(0)
        names = column.combine_chunks().cast(pa.string()).dictionary_encode()
        if names.null_count:
            raise TableMismatch(f"a row has no stream: the column {self._stream!r} is null")
        chosen = np.array([_hash(name) % of in numbers for name in names.dictionary.to_pylist()], dtype=bool)
        return chosen[names.indices.to_numpy()]

    def _batch(self, rows: pa.Table, offsets: pa.Array) -> pa.RecordBatch:
        if self._stream is None:
            streams = pa.array([self._name] * len(rows), pa.string())
        else:
            streams = rows.column(self._stream).combine_chunks().cast(pa.string())
        own = rows.drop_columns([_ORDINAL]) if _ORDINAL in rows.column_names else rows
        values = self._rebuild(own)
        return pa.RecordBatch.from_arrays([streams, pc.cast(offsets, pa.string()), values], [STREAM, OFFSET, VALUE])

    @property
    def _name(self) -> str:
        """The stream of rows that do not say theirs, if the sink does not either."""
        return self._options.folder.name


def _numbered(rows: pa.Table, place: int, first: int, start: int, chosen: Any) -> pa.Table:  # noqa: ANN401
    """Say where rows are: the place of their file, and which of its rows they are, counted with those not chosen."""
    ordinals = first + start + np.flatnonzero(chosen[start:])[: len(rows)]
    return rows.append_column(_ORDINAL, pa.array([f"{place:06d}-{number:012d}" for number in ordinals], pa.string()))


def _hash(name: str) -> int:
    return zlib.crc32(name.encode())
