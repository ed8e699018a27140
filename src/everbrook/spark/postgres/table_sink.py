"""A sink for one table: its options are checked against the database, then rows are written in transactions.

A transaction locks the positions of its streams, leaves out the rows before them, writes the rest, stores those that do
not fit as dead letters, and advances the positions.

A transaction has whole pages of streams, in order: a position is the end of a page, and rows of other servers have no
other positions. All rows that a query makes of one message are in one transaction. What was committed of a stream is
always a prefix of it, so a batch that fails continues where it was.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from everbrook.spark.options import InvalidOption, ServerOptions
from everbrook.spark.postgres import letter_table, positions
from everbrook.spark.postgres.append import Append
from everbrook.spark.postgres.copy_text import column_of
from everbrook.spark.postgres.database import Cursor, Database, DatabaseOptions, parse_database
from everbrook.spark.postgres.mapping import (
    NEXT_OFFSET,
    OFFSET,
    OFFSET_PATH,
    SESSION_EVENTS,
    SESSION_STATE,
    STREAM,
    STREAM_PATH,
    VALUE,
    Path,
    create_events,
    create_mapped,
    mapping_of,
    parse_columns,
)
from everbrook.spark.postgres.positions import Reached, Writer
from everbrook.spark.postgres.table import TargetTable, look_up, require_columns
from everbrook.spark.postgres.upsert import StateShape, Upsert, shape_of
from everbrook.spark.sinks.dead_letters import DeadLetterOptions, Letter, parse_dead_letters
from everbrook.spark.streams.messages import InvalidRow
from everbrook.spark.streams.offsets import Position

APPEND, STATE = "append", "state"
_GUARDS: tuple[tuple[str, Path], ...] = (("_stream", STREAM_PATH), ("_offset", OFFSET_PATH))


class TransactionRows(Struct, frozen=True):
    """Rows that are written in one transaction, with the offsets between which each of their streams is in it."""

    rows: pa.RecordBatch
    starts: dict[str, str]
    ends: dict[str, str]


def split_in_transactions(
    batches: Iterable[pa.RecordBatch], *, max_rows: int = 40_000, max_bytes: int = 16 * 1024 * 1024
) -> Iterator[TransactionRows]:
    """Combine batches into transactions of about this size."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        _require_complete(batch)
        if waiting and batch.num_rows and _is_enough(waiting, max_rows, max_bytes) and not _goes_on(waiting[-1], batch):
            whole, rest = _cut(_joined(waiting))
            if whole.num_rows:
                yield _transaction_rows(whole)
            waiting = [rest] if rest.num_rows else []
        waiting += [batch] if batch.num_rows else []
    if waiting:
        yield _transaction_rows(_joined(waiting))


def _is_enough(batches: list[pa.RecordBatch], max_rows: int, max_bytes: int) -> bool:
    rows, size_bytes = sum(each.num_rows for each in batches), sum(each.nbytes for each in batches)
    return bool(rows >= max_rows or size_bytes >= max_bytes)


def _goes_on(before: pa.RecordBatch, batch: pa.RecordBatch) -> bool:
    """Return whether a batch continues the message of the one before: a query may make several rows of a message."""
    return _place(before, before.num_rows - 1) == _place(batch, 0)


def _place(rows: pa.RecordBatch, number: int) -> tuple[str, str | None]:
    return rows.column(STREAM)[number].as_py(), rows.column(OFFSET)[number].as_py()


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.concat_batches(batches) if len(batches) > 1 else batches[0]


def _require_complete(batch: pa.RecordBatch) -> None:
    for name in (STREAM, VALUE):
        if batch.column(name).null_count:
            raise InvalidRow(f"a row has no stream or no message: its column {name!r} is null")


def _cut(rows: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Cut rows after the last page that is known to be complete. In Everbrook each message is one."""
    ends = rows.column(NEXT_OFFSET)
    if ends.is_valid()[-1].as_py():
        return rows, rows.slice(0, 0)
    known = pc.indices_nonzero(ends.is_valid())
    size = known[-1].as_py() + 1 if len(known) else 0
    return rows.slice(0, size), rows.slice(size)


def _transaction_rows(rows: pa.RecordBatch) -> TransactionRows:
    streams = rows.column(STREAM).dictionary_encode()
    codes = streams.indices.to_numpy()
    names = streams.dictionary.to_pylist()
    firsts = np.unique(codes, return_index=True)[1].tolist()
    lasts = (len(codes) - 1 - np.unique(codes[::-1], return_index=True)[1]).tolist()
    offsets, ends = rows.column(OFFSET), rows.column(NEXT_OFFSET)
    _require_order(codes, offsets)
    return TransactionRows(
        rows,
        {name: offsets[first].as_py() for name, first in zip(names, firsts, strict=True)},
        {name: ends[last].as_py() for name, last in zip(names, lasts, strict=True)},
    )


def _require_order(codes: "np.typing.NDArray[np.int32]", offsets: pa.Array) -> None:
    """Refuse rows that are out of order: a position would skip some of them."""
    backwards = pc.fill_null(pc.less(offsets[1:], offsets[:-1]), False).to_numpy(zero_copy_only=False)  # noqa: FBT003
    if (backwards & (codes[1:] == codes[:-1])).any() or offsets[0].as_py() is None:
        raise InvalidRow("rows of a stream are not in the order of their offsets")


def fresh_rows(part: TransactionRows, reached: dict[str, Reached], writer: Writer) -> tuple[pa.RecordBatch, list[str]]:
    """Return the rows that are not in the table yet, and the streams that were created anew."""
    anew = [name for name, start in part.starts.items() if reached[name].begins_anew(writer, name, start)]
    bounds = {name: "" if name in anew else reached[name].next_offset for name in part.starts}
    if all(start >= bounds[name] for name, start in part.starts.items()):
        return part.rows, anew
    streams = part.rows.column(STREAM).dictionary_encode()
    limits = column_of([bounds[name].encode() for name in streams.dictionary.to_pylist()]).take(streams.indices)
    offsets = pc.fill_null_forward(part.rows.column(OFFSET))
    return part.rows.filter(pc.greater_equal(offsets, limits)), anew


def ends_of(part: TransactionRows, reached: dict[str, Reached], anew: list[str], writer: Writer) -> dict[str, Position]:
    """Return the positions after a transaction. Only the position of a stream that was created anew goes back."""
    before = {name: Reached() if name in anew else reached[name] for name in part.ends}
    ends = {
        name: Position(
            max(end, before[name].next_offset),
            incarnation=writer.incarnations.get(name, "") or before[name].incarnation,
        )
        for name, end in part.ends.items()
    }
    return {
        name: end
        for name, end in ends.items()
        if (end.offset, end.incarnation) != (reached[name].next_offset, reached[name].incarnation)
    }


class TableOptions(Struct, frozen=True):
    """The options of a sink."""

    database: DatabaseOptions
    table: str
    columns: tuple[tuple[str, str], ...] | None = None
    mode: str = APPEND
    create_table: bool = False
    entity_type: str | None = None
    dead_letters: DeadLetterOptions = DeadLetterOptions()


class TablePlan(Struct, frozen=True):
    """A sink that was checked against its table. It is sent to tasks."""

    options: TableOptions
    table: TargetTable
    paths: dict[str, Path]


class RowCounts(Struct):
    """How many rows were written and refused, and the size of all of them."""

    rows: int = 0
    refused: int = 0
    size_bytes: int = 0


def parse_options(  # noqa: PLR0913 - those of `write_postgres`
    *,
    url: str | None,
    table: str,
    server: ServerOptions,
    columns: Mapping[str, str] | None = None,
    mode: str = APPEND,
    entity_type: str | None = None,
    create_table: bool = False,
    dead_letters: str = "table",
    retry_secs: float = 15.0,
) -> TableOptions:
    """Check the options of a sink, without a connection to the database."""
    if mode not in {APPEND, STATE}:
        raise InvalidOption(f"mode must be 'append' or 'state', got {mode!r}")
    if entity_type is not None and mode != STATE:
        raise InvalidOption("entity_type chooses entities, which only mode='state' has")
    if not table:
        raise InvalidOption("no table is chosen: give its name, or schema.name")
    if columns is not None:
        parse_columns(columns)
    return TableOptions(
        parse_database(url, retry_secs),
        table,
        None if columns is None else tuple(columns.items()),
        mode,
        create_table,
        entity_type,
        parse_dead_letters(dead_letters, server, tables=True),
    )


def prepare(database: Database, options: TableOptions) -> TablePlan:
    """Create the tables of Everbrook, and check the mapping against the target table."""

    def work(cursor: Cursor) -> TablePlan:
        positions.prepare(cursor)
        letter_table.prepare(cursor, options.dead_letters)
        _create(cursor, options)
        table = look_up(cursor, options.table)
        plan = TablePlan(options, table, _guarded(options, table))
        require_columns(table, plan.paths)
        _target(plan)
        return plan

    return database.run(f"preparing the table {options.table!r}", work)


def _create(cursor: Cursor, options: TableOptions) -> None:
    events = options.columns is None and options.mode == APPEND
    if events and (options.create_table or options.table.rpartition(".")[2] == "session_events"):
        create_events(cursor, options.table)
    elif options.create_table:
        paths = _paths(options)
        guards = {name: path for name, path in _GUARDS if options.mode == STATE and path not in paths.values()}
        create_mapped(cursor, options.table, paths | guards, options.mode)


def _paths(options: TableOptions) -> dict[str, Path]:
    default: Mapping[str, str] = SESSION_EVENTS if options.mode == APPEND else SESSION_STATE
    return parse_columns(default if options.columns is None else dict(options.columns))


def _guarded(options: TableOptions, table: TargetTable) -> dict[str, Path]:
    """Add the columns that keep a state from going back, if the table has them and the mapping does not name them."""
    paths = _paths(options)
    if options.mode == STATE:
        paths |= {name: path for name, path in _GUARDS if path not in paths.values() and name in table.columns}
    return paths


def _target(plan: TablePlan) -> Append | Upsert:
    mapping = mapping_of(plan.table, plan.paths)
    if plan.options.mode == APPEND:
        return Append(plan.table, mapping)
    shape: StateShape = shape_of(plan.table, mapping, plan.options.entity_type)
    return Upsert(shape)


class TableWriter:
    """Writes the rows of a batch, or of a task of it."""

    def __init__(self, database: Database, plan: TablePlan) -> None:
        self._database = database
        self._plan = plan
        self._target = _target(plan)

    def write(self, writer: Writer, batches: Iterable[pa.RecordBatch]) -> RowCounts:
        """Write rows, each stream's in the order of its offsets."""
        written = RowCounts()
        doing = f"writing to the table {self._plan.table.name!r}"
        for part in split_in_transactions(batches):
            rows, refused = self._database.run(doing, partial(self._apply, writer, part))
            written.rows += rows - refused
            written.refused += refused
            written.size_bytes += part.rows.nbytes
        return written

    def _apply(self, writer: Writer, part: TransactionRows, cursor: Cursor) -> tuple[int, int]:
        # The lock comes first: a second run of the query waits here, and then sees the positions of the first.
        reached = positions.lock(cursor, writer.sink, part.starts)
        rows, anew = fresh_rows(part, reached, writer)
        refused = self._target.write(cursor, rows, anew) if rows.num_rows else {}
        letters = _letters(rows, refused)
        letter_table.bury(cursor, self._plan.options.dead_letters, writer, self._plan.table.name, letters)
        # In the transaction of the rows: rows and positions are committed together, or neither is.
        positions.advance(cursor, writer, ends_of(part, reached, anew, writer))
        return rows.num_rows, len(refused)


def _letters(rows: pa.RecordBatch, refused: Mapping[int, str]) -> list[Letter]:
    return [
        Letter(
            {name: rows.column(name)[place].as_py() for name in (STREAM, OFFSET)},
            reason,
            rows.column(VALUE).slice(place, 1).cast(pa.binary())[0].as_py(),
        )
        for place, reason in sorted(refused.items())
    ]
