"""Dead letters: messages that are no rows, with the reason, so that nothing is lost and nothing stands still.

They are a table of their own, in the folder `_dead_letters` of the table, which gets those of a batch before the table
gets its rows; each of both notes the batch, so that neither has anything twice. Where a stream is to have them, their
files are only the way there: they are appended in one append, whose producer is the query and whose epoch the batch.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from everbrook.spark.appending import Appender, BatchTooLarge, Producer
from everbrook.spark.connection import connect
from everbrook.spark.given import InvalidOption
from everbrook.spark.lake.columns import OFFSET, STREAM as FROM, Column, Columns, file_schema
from everbrook.spark.lake.tables import Written
from everbrook.spark.messages import MESSAGE, STREAM
from everbrook.spark.options import ServerOptions, SinkOptions

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


def publish(options: DeadLetterOptions, query: str, folder: Path, written: Written) -> bool:
    """Append dead letters to their stream, and remove the files that they came in. Tell if it can't take them.

    A letter may be larger than anything that the server takes. It must not stop the query: the table has room for it.
    """
    paths = [folder / file.path for file in written.files]
    rows = pa.concat_tables([pq.read_table(path, partitioning=None) for path in paths])
    rows = rows.sort_by([(FROM, "ascending"), (OFFSET, "ascending"), (PAYLOAD, "ascending")])
    messages = [_message(row) for row in rows.to_pylist()]
    table = pa.table(
        {
            STREAM: pa.array([options.stream] * len(messages), pa.string()),
            MESSAGE: pa.array(messages, pa.binary()),
            # They are in an order already, which is the same each time.
            "by_0": pa.array([f"{number:012d}" for number in range(len(messages))], pa.string()),
        }
    )
    sink = SinkOptions(options.server, stream=options.stream, auto_create=True)
    try:
        Appender(connect(options.server), sink).append(Producer(f"dead-letters-{query}", written.batch), table)
    except BatchTooLarge:
        return False
    for path in paths:
        path.unlink(missing_ok=True)
    return True


def _message(row: Mapping[str, object]) -> bytes:
    """Write a dead letter as JSON. What is no text is written in base64."""
    told = {name: row[name] for name in (FROM, OFFSET, REASON)}
    payload = row[PAYLOAD]
    if not isinstance(payload, bytes):
        return msgspec.json.encode(told | {"payload": None})
    try:
        return msgspec.json.encode(told | {"payload": payload.decode()})
    except UnicodeDecodeError:
        return msgspec.json.encode(told | {"payload_base64": payload})
