"""A stream, or a range of it, as a table.

orders = client.stream("orders").table()
duckdb.sql("select status, count(*) from orders group by status")
polars.DataFrame(orders)

A table is read when it is used, page by page, so that consumers of Arrow streams get batch after batch and need no
memory for the whole. To find its columns, a table of JSON is read once before, unless `columns` gives their types; up
to `HELD_BYTES` of it are kept for the second pass. It ends where the stream ended when the table was made.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec import Struct

from everbrook.client.tables.forms import Form
from everbrook.client.tables.notebook import format_table
from everbrook.client.tables.table_page import TablePage

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl

HELD_BYTES = 64 * 1024 * 1024
SHOWN_ROWS = 10

TablePages = Callable[[str], Iterable[TablePage]]
"""Reads the pages of a range from an offset to its end."""


class Surveyed(Struct):
    """The pages that the first pass over a table kept, and the offset of the rest."""

    held: list[tuple[TablePage, pa.Array | None]]
    rest: str | None


class Table:
    """Rows of a stream, for consumers of Arrow's C stream interface. It can be read any number of times."""

    def __init__(self, name: str, form: Form, pages: TablePages, offset: str, held_bytes: float = HELD_BYTES) -> None:
        """Make a table of the messages that `pages` reads from an offset on."""
        self.name = name
        self._form = form
        self._pages = pages
        self._offset = offset
        self._held_bytes = held_bytes
        self._surveyed: Surveyed | None = None

    def __repr__(self) -> str:
        return f"<Table of {self.name}>"

    @property
    def schema(self) -> pa.Schema:
        """The columns and their types."""
        self._survey()
        return self._form.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Read it, one batch for each page."""
        surveyed = self._survey()
        for page, parsed in surveyed.held:
            yield self._form.batch(page, parsed)
        if surveyed.rest is not None:
            for page in self._pages(surveyed.rest):
                yield self._form.batch(page)

    def _survey(self) -> Surveyed:
        """Make the first pass if the form needs one, and keep as many pages as fit into `held_bytes`."""
        if self._surveyed is None:
            self._surveyed = self._see_all() if self._form.surveys else Surveyed([], self._offset)
        return self._surveyed

    def _see_all(self) -> Surveyed:
        surveyed, room, offset = Surveyed([], None), self._held_bytes, self._offset
        for page in self._pages(offset):
            parsed = self._form.survey(page)
            room -= len(page.frames.data) + (0 if parsed is None else parsed.nbytes)
            if room >= 0:
                surveyed.held.append((page, parsed))
            elif surveyed.rest is None:
                surveyed.rest = offset
            offset = page.next_offset
        return surveyed

    # Consumers

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the table as an Arrow stream, which is read batch by batch."""
        return self.reader().__arrow_c_stream__(requested_schema)

    def reader(self) -> pa.RecordBatchReader:
        """Read it batch by batch, as pyarrow does."""
        return pa.RecordBatchReader.from_batches(self.schema, self.batches())

    def arrow(self) -> pa.Table:
        """Read the whole table into a table of pyarrow."""
        return self.reader().read_all()

    def pandas(self, **options: Any) -> "pd.DataFrame":
        """Read all of it into a data frame of pandas. The options are those of `pyarrow.Table.to_pandas`."""
        return self.arrow().to_pandas(**options)

    def polars(self) -> "pl.DataFrame":
        """Read all of it into a data frame of polars."""
        import polars as pl

        return pl.DataFrame(self)

    def duckdb(self, connection: "duckdb.DuckDBPyConnection | None" = None) -> "duckdb.DuckDBPyRelation":
        """Read all of it into a relation of DuckDB. A query that names the table reads it without that."""
        import duckdb

        return (connection or duckdb).from_arrow(self.arrow())

    def _repr_html_(self) -> str:
        """Show the first rows."""
        first = next(iter(self._pages(self._offset)), None)
        if first is None:
            return format_table(f"{self.name}: no messages", [], [])
        form = self._form.alone()
        parsed = form.survey(first) if form.surveys else None
        batch = form.batch(first, parsed).slice(0, SHOWN_ROWS)
        shown = zip(*batch.to_pydict().values(), strict=True)
        return format_table(f"{self.name}: the first {len(batch)} messages", batch.schema.names, shown)
