"""Dead letters of a table: messages that can't be rows, with the reason.

They are written to a table, in the transaction of the rows beside them. If they go to a stream, the table is an outbox:
when all rows of a batch are committed, its dead letters are appended with the query as the producer and the batch as
the epoch, and then deleted. A run that ends in between is followed by one that appends them again, and the server
recognises the duplicates.
"""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from psycopg import sql

from everbrook.spark.postgres.database import Cursor, Database
from everbrook.spark.postgres.positions import Writer
from everbrook.spark.postgres.table import create, identifier_of
from everbrook.spark.sinks.dead_letters import MAX_REASON_CHARACTERS, DeadLetterOptions, Letter, publish_letters

_CREATE = """
    CREATE TABLE IF NOT EXISTS {table} (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        sink text NOT NULL,
        batch bigint NOT NULL,
        table_name text NOT NULL,
        stream text NOT NULL,
        "offset" text,
        reason text NOT NULL,
        payload bytea NOT NULL,
        refused_at timestamptz NOT NULL DEFAULT now()
    )
"""
_INSERT = """
    INSERT INTO {table} (sink, batch, table_name, stream, "offset", reason, payload)
    SELECT %s, %s, %s, * FROM unnest(%s::text[], %s::text[], %s::text[], %s::bytea[])
"""
_SELECT = """
    SELECT id, table_name, stream, "offset", reason, payload FROM {table}
     WHERE sink = %s AND batch = %s ORDER BY stream, "offset", id
"""
_SELECT_LEFT = """
    SELECT p.query, l.batch, l.id, l.table_name, l.stream, l."offset", l.reason, l.payload FROM {table} l
      JOIN everbrook_positions p ON p.sink = l.sink AND p.stream = l.stream COLLATE "C" AND p.batch = l.batch
     WHERE l.sink = %s AND l.stream = ANY(%s) AND p.query <> %s ORDER BY p.query, l.batch, l.stream, l."offset", l.id
"""
_DELETE = "DELETE FROM {table} WHERE id = ANY(%s)"


def prepare(cursor: Cursor, options: DeadLetterOptions) -> None:
    """Create the table unless it exists."""
    create(cursor, options.table, _CREATE)


def bury(cursor: Cursor, options: DeadLetterOptions, writer: Writer, table: str, letters: Sequence[Letter]) -> None:
    """Write dead letters in the transaction of the rows beside them."""
    if not letters:
        return
    statement = sql.SQL(_INSERT).format(table=identifier_of(options.table))
    streams, offsets = ([letter.place[name] for letter in letters] for name in ("stream", "offset"))
    reasons = [letter.reason.replace("\0", "\\0")[:MAX_REASON_CHARACTERS] for letter in letters]
    payloads = [letter.payload for letter in letters]
    cursor.execute(statement, [writer.sink, writer.batch, table, streams, offsets, reasons, payloads])


def publish(database: Database, options: DeadLetterOptions, writer: Writer) -> None:
    """Append the dead letters of a batch to their stream, once all of its rows are committed."""
    if options.stream is not None:
        found = _read(database, options, _SELECT, [writer.sink, writer.batch])
        _publish(database, options, writer.query, writer.batch, found)


def publish_left(database: Database, options: DeadLetterOptions, writer: Writer) -> None:
    """Append what a query with another checkpoint left in the outbox when it was killed, as that query would have.

    The positions of the streams name that query until the batch is written, so this comes first.
    """
    if options.stream is None or writer.sink == writer.query:
        return
    chosen = [writer.sink, list(writer.incarnations), writer.query]
    found = _read(database, options, _SELECT_LEFT, chosen)
    for (query, batch), rows in groupby(found, key=itemgetter(0, 1)):
        _publish(database, options, query, batch, [row[2:] for row in rows])


def _read(database: Database, options: DeadLetterOptions, statement: str, chosen: list[Any]) -> list[tuple[Any, ...]]:
    table = identifier_of(options.table)
    return database.run(
        f"reading {options.table}",
        lambda cursor: cursor.execute(sql.SQL(statement).format(table=table), chosen).fetchall(),
    )


def _publish(
    database: Database, options: DeadLetterOptions, query: str, batch: int, rows: Sequence[tuple[Any, ...]]
) -> None:
    if not rows:
        return
    publish_letters(options, query, batch, [_letter(row) for row in rows])
    delete = sql.SQL(_DELETE).format(table=identifier_of(options.table))
    database.run(f"emptying {options.table}", lambda cursor: cursor.execute(delete, [[row[0] for row in rows]]))


def _letter(row: tuple[Any, ...]) -> Letter:
    _, table, stream, offset, reason, payload = row
    place = {"stream": stream, "offset": offset, "table": table}
    return Letter(place, reason, payload)
