"""Dead letters in a stream: messages that could not be used, as JSON with their place and the reason.

Each is an append of its own, and the position of its producer is the place of the message. Letters that are written
again continue after the stored place, so each is stored once, also if it has to be cut, or if others were lost
meanwhile. On a server that stores no positions, letters are identified by their sequence numbers. A letter whose
payload was cut has `payload_bytes`, the size of the message; the whole message is at `stream` and `offset`.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256

import msgspec
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from everbrook.protocol.errors import PayloadTooLarge
from everbrook.spark.connection import Connection, connect
from everbrook.spark.options import InvalidOption, ServerOptions, SinkOptions
from everbrook.spark.streams.appender import Appender, BatchTooLarge, Producer
from everbrook.spark.streams.messages import MESSAGE, STREAM

MAX_PAYLOAD_BYTES = 1024 * 1024
MAX_REASON_CHARACTERS = 2000
_ONE_BY_ONE = 1
"""A size of appends that makes each message an append of its own."""
_CUT_FACTOR = 16
_LONGEST_NAME, _BEGINNING = 300, 40
"""Characters of a name in a place, of which a position holds three, and what is kept of a longer one."""


class DeadLetterOptions(Struct, frozen=True):
    """Where dead letters go: to a table, and from there to a stream if one is named."""

    table: str = "everbrook_dead_letters"
    """The table of a database. A table of the lake has a folder for them."""
    stream: str | None = None
    server: ServerOptions = ServerOptions()


def parse_dead_letters(text: str, server: ServerOptions, *, tables: bool = False) -> DeadLetterOptions:
    """Parse where dead letters go: `table`, `stream:name`, or `table:name` for sinks with `tables`."""
    kind, _, name = text.partition(":")
    if kind == "stream" and name:
        return DeadLetterOptions(stream=name, server=server)
    if text == "table" or (tables and kind == "table"):
        return DeadLetterOptions(table=name) if name else DeadLetterOptions()
    forms = "'table', 'table:name' or 'stream:name'" if tables else "'table' or 'stream:name'"
    raise InvalidOption(f"dead_letters must be {forms}, got {text!r}")


class Letter(Struct, frozen=True):
    """A message that could not be used."""

    place: Mapping[str, str | None]
    """The fields of the letter that say where the message is."""
    reason: str
    payload: bytes | None

    @property
    def key(self) -> tuple[str, ...]:
        """The sort key: the place of the message."""
        stream, offset, *more = (value or "" for value in self.place.values())
        return _short(stream), offset, *map(_short, more)


def publish_letters(options: DeadLetterOptions, query: str, batch: int, letters: Sequence[Letter]) -> None:
    """Append the dead letters of a batch to their stream. The producer is the query, and the epoch is the batch."""
    if options.stream is not None and letters:
        producer = Producer(f"dead-letters-{query}", batch)
        append_letters(connect(options.server), options.server, options.stream, producer, letters)


def append_letters(
    connection: Connection, server: ServerOptions, stream: str, producer: Producer, letters: Sequence[Letter]
) -> None:
    """Append letters, each once, sorted by their places, which begin with the stream and the offset."""
    sink = SinkOptions(server, stream=stream, auto_create=True, max_append_bytes=_ONE_BY_ONE)
    sorted_letters = sorted(letters, key=lambda letter: letter.key)
    keys = list(zip(*_numbered(sorted_letters), strict=True))
    columns = {STREAM: [stream] * len(letters)} | {f"by_{number}": key for number, key in enumerate(keys)}

    def append(messages: list[bytes]) -> None:
        rows = pa.table(columns | {MESSAGE: pa.array(messages, pa.binary())})
        Appender(connection, sink).append(replace(producer, letters=True), rows)

    cut_to_fit(sorted_letters, append)


def _numbered(letters: Sequence[Letter]) -> Iterator[tuple[str, ...]]:
    """Number letters of the same place."""
    counts: Counter[tuple[str, ...]] = Counter()
    for letter in letters:
        counts[letter.key] += 1
        yield *letter.key, f"{counts[letter.key]:08d}"


def _short(name: str) -> str:
    if len(json.dumps(name)) <= _LONGEST_NAME:
        return name
    return name[:_BEGINNING] + sha256(name.encode()).hexdigest()[:32]


def cut_to_fit(letters: Sequence[Letter], write: Callable[[list[bytes]], object]) -> None:
    """Write letters, and cut payloads until the server accepts them. Each attempt calls `write` with all letters."""
    max_bytes = MAX_PAYLOAD_BYTES
    while True:
        try:
            write([encode(letter, max_bytes) for letter in letters])
        except (BatchTooLarge, PayloadTooLarge) as error:
            refusal = error.__cause__ if isinstance(error, BatchTooLarge) else error
            if not max_bytes or type(refusal) is not PayloadTooLarge:  # of its subclasses, none is about one message
                raise
            max_bytes //= _CUT_FACTOR
        else:
            return


def encode(letter: Letter, max_bytes: int = MAX_PAYLOAD_BYTES) -> bytes:
    """Write a letter as JSON, with its payload and its reason cut to a size. A payload that is not UTF-8 is base64."""
    fields = {**letter.place, "reason": letter.reason[: min(max_bytes, MAX_REASON_CHARACTERS)]}
    payload = letter.payload
    if payload is None:
        return msgspec.json.encode(fields | {"payload": None})
    size = {"payload_bytes": len(payload)} if len(payload) > max_bytes else {}
    try:
        payload.decode()
    except UnicodeDecodeError:
        return msgspec.json.encode(fields | {"payload_base64": payload[:max_bytes]} | size)
    return msgspec.json.encode(fields | {"payload": payload[:max_bytes].decode(errors="ignore")} | size)
