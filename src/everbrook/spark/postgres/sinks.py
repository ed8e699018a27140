"""Sinks: what a user wants written where, checked against the database, and then written piece by piece.

A piece is one transaction: hold the positions of its streams, leave out what is before them, write the rest, bury what
does not fit, move the positions. Whether a driver or a task does it makes no difference.
"""

from collections.abc import Iterable, Mapping
from functools import partial

import pyarrow as pa
from msgspec import Struct

from everbrook.spark.given import InvalidOption
from everbrook.spark.postgres import dead_letters, positions
from everbrook.spark.postgres.appending import Append
from everbrook.spark.postgres.creating import create_events, create_mapped
from everbrook.spark.postgres.database import Cursor, Database, DatabaseOptions
from everbrook.spark.postgres.dead_letters import DeadLetter, DeadLetterOptions
from everbrook.spark.postgres.mapping import SESSION_EVENTS, SESSION_STATE, mapping_of, parse_columns
from everbrook.spark.postgres.paths import OFFSET, STREAM, Path
from everbrook.spark.postgres.pieces import (
    OFFSET as OFFSETS,
    STREAM as STREAMS,
    VALUE,
    Piece,
    ends_of,
    fresh_rows,
    pieces_of,
)
from everbrook.spark.postgres.positions import Writer
from everbrook.spark.postgres.shapes import Shape, shape_of
from everbrook.spark.postgres.tables import Table, look_up, require_columns
from everbrook.spark.postgres.upserting import Upsert

APPEND, STATE = "append", "state"
_GUARDS: tuple[tuple[str, Path], ...] = (("_stream", STREAM), ("_offset", OFFSET))


class SinkOptions(Struct, frozen=True):
    """What is written where."""

    database: DatabaseOptions
    table: str
    columns: tuple[tuple[str, str], ...] | None = None
    mode: str = APPEND
    create_table: bool = False
    entity_type: str | None = None
    dead_letters: DeadLetterOptions = DeadLetterOptions()


class Plan(Struct, frozen=True):
    """A sink that fits its table. It travels to tasks."""

    options: SinkOptions
    table: Table
    paths: dict[str, Path]


class Written(Struct):
    """What was done."""

    rows: int = 0
    refused: int = 0
    size_bytes: int = 0


def parse_sink(options: SinkOptions) -> SinkOptions:
    """Refuse what can't be, before the database is asked."""
    if options.mode not in {APPEND, STATE}:
        raise InvalidOption(f"mode must be 'append' or 'state', got {options.mode!r}")
    if options.entity_type is not None and options.mode != STATE:
        raise InvalidOption("entity_type chooses entities, which only mode='state' has")
    if not options.table:
        raise InvalidOption("which table? Give its name, or schema.name")
    if options.columns is not None:
        parse_columns(dict(options.columns))
    return options


def prepare(database: Database, options: SinkOptions) -> Plan:
    """Create what Everbrook keeps in the database, and check the mapping against the table."""

    def work(cursor: Cursor) -> Plan:
        positions.prepare(cursor)
        dead_letters.prepare(cursor, options.dead_letters)
        _create(cursor, options)
        table = look_up(cursor, options.table)
        plan = Plan(options, table, _guarded(options, table))
        require_columns(table, plan.paths)
        _target(plan)
        return plan

    return database.run(f"preparing the table {options.table!r}", work)


def _create(cursor: Cursor, options: SinkOptions) -> None:
    events = options.columns is None and options.mode == APPEND
    if events and (options.create_table or options.table.rpartition(".")[2] == "session_events"):
        create_events(cursor, options.table)
    elif options.create_table:
        paths = _paths(options)
        guards = {name: path for name, path in _GUARDS if options.mode == STATE and path not in paths.values()}
        create_mapped(cursor, options.table, paths | guards, options.mode)


def _paths(options: SinkOptions) -> dict[str, Path]:
    default: Mapping[str, str] = SESSION_EVENTS if options.mode == APPEND else SESSION_STATE
    return parse_columns(default if options.columns is None else dict(options.columns))


def _guarded(options: SinkOptions, table: Table) -> dict[str, Path]:
    """Add the columns that guard a state, if the mapping does not name them and the table has them."""
    paths = _paths(options)
    if options.mode == STATE:
        paths |= {name: path for name, path in _GUARDS if path not in paths.values() and name in table.columns}
    return paths


def _target(plan: Plan) -> Append | Upsert:
    mapping = mapping_of(plan.table, plan.paths)
    if plan.options.mode == APPEND:
        return Append(plan.table, mapping)
    shape: Shape = shape_of(plan.table, mapping, plan.options.entity_type)
    return Upsert(shape)


class Sink:
    """Writes the rows of a batch, or of a task of it."""

    def __init__(self, database: Database, plan: Plan) -> None:
        self._database = database
        self._plan = plan
        self._target = _target(plan)

    def write(self, writer: Writer, batches: Iterable[pa.RecordBatch]) -> Written:
        """Write rows, each stream's in the order of its offsets."""
        written = Written()
        doing = f"writing to the table {self._plan.table.name!r}"
        for piece in pieces_of(batches):
            rows, refused = self._database.run(doing, partial(self._apply, writer, piece))
            written.rows += rows - refused
            written.refused += refused
            written.size_bytes += piece.rows.nbytes
        return written

    def _apply(self, writer: Writer, piece: Piece, cursor: Cursor) -> tuple[int, int]:
        reached = positions.lock(cursor, writer.sink, piece.starts)
        rows, anew = fresh_rows(piece, reached, writer)
        refused = self._target.write(cursor, rows, anew) if rows.num_rows else {}
        letters = _letters(rows, refused)
        dead_letters.bury(cursor, self._plan.options.dead_letters, writer, self._plan.table.name, letters)
        positions.advance(cursor, writer, ends_of(piece, reached, anew, writer))
        return rows.num_rows, len(refused)


def _letters(rows: pa.RecordBatch, refused: Mapping[int, str]) -> list[DeadLetter]:
    return [
        DeadLetter(
            rows.column(STREAMS)[place].as_py(),
            rows.column(OFFSETS)[place].as_py(),
            reason,
            rows.column(VALUE).slice(place, 1).cast(pa.binary())[0].as_py(),
        )
        for place, reason in sorted(refused.items())
    ]
