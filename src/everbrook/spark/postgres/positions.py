"""Positions: how far a sink has come in each stream, kept in the database that it writes to.

A position advances in the transaction that writes the rows, so both happen or neither does. Rows before the position of
their stream are in the table already. A transaction locks the positions of its streams, so that two runs of a query
wait for each other.

A position belongs to one incarnation of the stream: another incarnation is written from its beginning, whichever query
wrote the one before. Where the incarnation is not known, a stream that is at its beginning again in a later batch of
the same query was deleted and created anew. A stream that goes back to another offset is ambiguous: its rows may exist,
as after an older checkpoint was restored, or be others of which a filter has left out the first. So nothing is written
or deleted, and the query fails with a message to the user.

A position of an earlier version has no incarnation. If the stream was created after the position was written, it is
another one. The clocks of the server and of the database may differ, so both times must be an hour apart.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import cast

from msgspec import Struct
from psycopg import sql

from everbrook.spark.postgres.database import Cursor, DatabaseOptions, connect
from everbrook.spark.postgres.table import create, exists, identifier_of, look_up
from everbrook.spark.streams.offsets import Position

TABLE = "everbrook_positions"
_CREATE = """
    CREATE TABLE IF NOT EXISTS {table} (
        sink text NOT NULL,
        stream text COLLATE "C" NOT NULL,
        next_offset text COLLATE "C" NOT NULL DEFAULT '',
        query text NOT NULL DEFAULT '',
        batch bigint NOT NULL DEFAULT -1,
        incarnation text NOT NULL DEFAULT '',
        updated_at timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (sink, stream)
    )
"""
_ADD_INCARNATION = "ALTER TABLE {table} ADD COLUMN IF NOT EXISTS incarnation text NOT NULL DEFAULT ''"
_LOCK = """
    SELECT stream, next_offset, query, batch, incarnation, updated_at FROM everbrook_positions
     WHERE sink = %s AND stream = ANY(%s) ORDER BY stream FOR UPDATE
"""
_BEGIN = "INSERT INTO everbrook_positions (sink, stream) SELECT %s, unnest(%s::text[]) ON CONFLICT DO NOTHING"
_ADVANCE = """
    UPDATE everbrook_positions p
       SET next_offset = n.next_offset, incarnation = n.incarnation, query = %s, batch = %s, updated_at = now()
      FROM unnest(%s::text[], %s::text[], %s::text[]) AS n(stream, next_offset, incarnation)
     WHERE p.sink = %s AND p.stream = n.stream COLLATE "C"
"""
_UNKNOWN = """
    SELECT stream FROM everbrook_positions
     WHERE sink = %s AND stream = ANY(%s) AND incarnation = '' AND next_offset <> '' ORDER BY stream
"""
_CLOCKS_DIFFER = timedelta(hours=1)
_BEGINNING = re.compile(r"-1|[0_]*")
"""Offsets at the beginning of a stream: zero, in however many parts a server writes it, or -1 for everything."""


class PositionWentBack(Exception):
    """A stream went back to an earlier offset, and the reason is unknown."""

    restartable = False


class Writer(Struct, frozen=True):
    """The writer of a batch: the sink, the query and the number of the batch, and of the streams that it reads the
    incarnations and the times of creation, as far as they are known.
    """

    sink: str
    query: str
    batch: int
    incarnations: dict[str, str] = {}
    created_at_ms: dict[str, int] = {}


class Reached(Struct, frozen=True):
    """The progress of a sink in a stream: the offset, the incarnation if it is known, the query and its batch."""

    next_offset: str = ""
    query: str = ""
    batch: int = -1
    incarnation: str = ""
    updated_at: datetime | None = None

    def begins_anew(self, writer: Writer, stream: str, offset: str) -> bool:
        """Return whether a stream that continues at an offset is another one of the same name."""
        later = self.query == writer.query and self.batch < writer.batch
        incarnation = writer.incarnations.get(stream)
        if incarnation and self.incarnation:
            if incarnation != self.incarnation and self.query == writer.query and not later:
                raise self._went_back(writer, stream, offset)
            return incarnation != self.incarnation
        created = writer.created_at_ms.get(stream)
        if incarnation and self.next_offset and created is not None and self._precedes(created, writer, stream, offset):
            return True
        if not later or offset >= self.next_offset:
            return False
        if _BEGINNING.fullmatch(offset):
            return True
        raise self._went_back(writer, stream, offset)

    def _precedes(self, created_at_ms: int, writer: Writer, stream: str, offset: str) -> bool:
        """Return whether a position without an incarnation was written before a stream was created."""
        created = datetime.fromtimestamp(created_at_ms / 1000, UTC)
        if self.updated_at is None or created < self.updated_at - _CLOCKS_DIFFER:
            return False
        if created > self.updated_at + _CLOCKS_DIFFER:
            return True
        if offset < self.next_offset and self.query != writer.query:
            raise PositionWentBack(
                f"rows of the stream {stream!r} at {offset} come in batch {writer.batch}, and an earlier version has "
                f"written its position {self.next_offset}, at {self.updated_at:%Y-%m-%d %H:%M:%S %Z}, without the "
                f"incarnation: the stream was created at {created:%Y-%m-%d %H:%M:%S %Z}. If it was created anew, "
                f"delete the row of {stream!r} in {TABLE}; else set its incarnation to "
                f"{writer.incarnations[stream]!r}. Nothing of the batch was written"
            )
        return False

    def _went_back(self, writer: Writer, stream: str, offset: str) -> PositionWentBack:
        return PositionWentBack(
            f"rows of the stream {stream!r} at {offset} come in batch {writer.batch}, but it was written up to "
            f"{self.next_offset} in batch {self.batch}: an older checkpoint was put back, or the stream was created "
            "anew. Start with a new checkpoint: a table with a unique key leaves out existing rows; empty one "
            "without a key first. Nothing of the batch was written"
        )


def prepare(cursor: Cursor) -> None:
    """Create the table of positions if it is missing. Add the column that a table of an earlier version lacks."""
    create(cursor, TABLE, _CREATE)
    if "incarnation" not in look_up(cursor, TABLE).columns:
        cursor.execute(sql.SQL(_ADD_INCARNATION).format(table=identifier_of(TABLE)))


def lock(cursor: Cursor, sink: str, streams: Iterable[str]) -> dict[str, Reached]:
    """Lock the positions of streams until the end of the transaction, and return them."""
    # Every transaction locks its rows in this order, so two of them can't deadlock.
    wanted = sorted(streams)
    found = cursor.execute(_LOCK, [sink, wanted]).fetchall()
    if len(found) < len(wanted):
        cursor.execute(_BEGIN, [sink, wanted])
        found = cursor.execute(_LOCK, [sink, wanted]).fetchall()
    return {str(row[0]): _reached(row) for row in found}


def _reached(row: Sequence[object]) -> Reached:
    updated_at = cast("datetime", row[5])
    return Reached(str(row[1]), str(row[2]), int(str(row[3])), str(row[4]), updated_at)


def unknown(cursor: Cursor, writer: Writer) -> list[str]:
    """Return the streams whose position has no incarnation, and whose time of creation is unknown too."""
    streams = sorted(writer.incarnations.keys() - writer.created_at_ms.keys())
    return [str(stream) for (stream,) in cursor.execute(_UNKNOWN, [writer.sink, streams]).fetchall()]


def advance(cursor: Cursor, writer: Writer, ends: dict[str, Position]) -> None:
    """Move positions to where the rows of this transaction end."""
    offsets, incarnations = ([getattr(end, name) for end in ends.values()] for name in ("offset", "incarnation"))
    cursor.execute(_ADVANCE, [writer.query, writer.batch, list(ends), offsets, incarnations, writer.sink])


def forget(url: str, sink: str) -> int:
    """Delete the positions of a sink, and return their number.

    Rows stay in the table. A query that reads the streams again writes them a second time if the table has no key.
    """
    with connect(DatabaseOptions(url)) as connection, connection.cursor() as cursor:
        if not exists(cursor, TABLE):
            return 0
        cursor.execute("DELETE FROM everbrook_positions WHERE sink = %s", [sink])
        return cursor.rowcount
