"""Dead letters of a table: messages that can't be rows, with the reason.

They are written to a table, in the transaction of the rows beside them. If they go to a stream, the table is an outbox:
when all rows of a batch are committed, its dead letters are appended with the query as the producer and the batch as
the epoch, and then deleted. A run that ends in between is followed by one that appends them again, and the server
recognises the duplicates.
"""

from collections.abc import Sequence
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
_DELETE = "DELETE FROM {table} WHERE sink = %s AND batch = %s"


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
    if options.stream is None:
        return
    table = identifier_of(options.table)
    chosen = [writer.sink, writer.batch]
    found = database.run(
        f"reading {options.table}",
        lambda cursor: cursor.execute(sql.SQL(_SELECT).format(table=table), chosen).fetchall(),
    )
    if not found:
        return
    publish_letters(options, writer.query, writer.batch, [_letter(row) for row in found])
    database.run(
        f"emptying {options.table}", lambda cursor: cursor.execute(sql.SQL(_DELETE).format(table=table), chosen)
    )


def _letter(row: tuple[Any, ...]) -> Letter:
    _, table, stream, offset, reason, payload = row
    place = {"stream": stream, "offset": offset, "table": table}
    return Letter(place, reason, payload)
