"""Dead letters: messages that are no rows, with the reason, so that nothing is lost and nothing stands still.

They are a table of their own, in the folder `_dead_letters` of the table, which gets those of a batch before the table
gets its rows; each of both notes the batch, so that neither has anything twice. Where a stream is to have them, their
files are only the way there: they are appended by the query as their producer, in the epoch of the batch.
"""

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from everbrook.spark.appending import Producer
from everbrook.spark.connection import connect
from everbrook.spark.dead_letters import Letter, append_letters
from everbrook.spark.given import InvalidOption
from everbrook.spark.lake.columns import INCARNATION, OFFSET, STREAM as FROM, Column, Columns, file_schema
from everbrook.spark.lake.tables import Written
from everbrook.spark.options import ServerOptions

REASON, PAYLOAD = "reason", "message"
COLUMNS: Columns = (Column(REASON, pa.string()), Column(PAYLOAD, pa.binary()))


class DeadLetterOptions(Struct, frozen=True):
    """Where dead letters go: to a table, or to a stream."""

    stream: str | None = None
    server: ServerOptions = ServerOptions()


def parse_dead_letters(text: str, server: ServerOptions) -> DeadLetterOptions:
    """Read where dead letters go: `table` or `stream:name`."""
    kind, _, name = text.partition(":")
    if text == "table":
        return DeadLetterOptions()
    if kind == "stream" and name:
        return DeadLetterOptions(name, server)
    raise InvalidOption(f"dead_letters must be 'table' or 'stream:name', got {text!r}")


def letters_of(rows: pa.Table, messages: pa.ChunkedArray, refused: Mapping[int, str]) -> pa.Table:
    """Make rows of messages that are none."""
    places = sorted(refused)
    reasons = pa.array([refused[place] for place in places], pa.string())
    payloads = messages.take(pa.array(places, pa.int64())).cast(pa.binary())
    own = rows.take(pa.array(places, pa.int64()))
    columns = [*own.columns, reasons, pa.chunked_array(payloads.chunks, pa.binary())]
    return pa.Table.from_arrays(columns, schema=file_schema(COLUMNS))


def publish(options: DeadLetterOptions, stream: str, query: str, folder: Path, written: Written) -> None:
    """Append dead letters to their stream, and remove the files that they came in."""
    paths = [folder / file.path for file in written.files]
    rows = pa.concat_tables([pq.read_table(path, partitioning=None) for path in paths])
    # They have the same order whenever the batch is run again.
    rows = rows.sort_by([(FROM, "ascending"), (OFFSET, "ascending"), (PAYLOAD, "ascending")])
    letters = [
        Letter({FROM: row[FROM], OFFSET: row[OFFSET]}, row[REASON], row[PAYLOAD], row[INCARNATION] or "")
        for row in rows.select([FROM, OFFSET, REASON, PAYLOAD, INCARNATION]).to_pylist()
    ]
    producer = Producer(f"dead-letters-{query}", written.batch)
    append_letters(connect(options.server), options.server, stream, producer, letters)
    for path in paths:
        path.unlink(missing_ok=True)
