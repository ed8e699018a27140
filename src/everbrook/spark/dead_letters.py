"""Dead letters in a stream: messages that could not be used, as JSON with the place where they are and the reason.

Each is an append of its own, with the next sequence number of its producer. A letter keeps its number when it has to be
cut, so that letters that are written again are stored once. A letter whose payload was cut has `payload_bytes`, the
size of the message; the whole message is at `stream` and `offset`.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from everbrook.protocol.errors import PayloadTooLarge
from everbrook.spark.appending import Appender, BatchTooLarge, Producer
from everbrook.spark.connection import Connection
from everbrook.spark.messages import MESSAGE, STREAM
from everbrook.spark.options import ServerOptions, SinkOptions

MAX_PAYLOAD_BYTES = 1024 * 1024
_MAX_REASON_CHARACTERS = 2000
_ONE_BY_ONE = 1
"""A size of appends that makes each message an append of its own."""
_CUT_FACTOR = 16


class Letter(Struct, frozen=True):
    """A message that could not be used."""

    place: Mapping[str, str | None]
    """The fields of the letter that say where the message is."""
    reason: str
    payload: bytes | None


def append_letters(
    connection: Connection, server: ServerOptions, stream: str, producer: Producer, letters: Sequence[Letter]
) -> None:
    """Append letters, each once."""
    sink = SinkOptions(server, stream=stream, auto_create=True, max_append_bytes=_ONE_BY_ONE)
    streams, numbers = [stream] * len(letters), [f"{number:012d}" for number in range(len(letters))]

    def append(messages: list[bytes]) -> None:
        rows = pa.table({STREAM: streams, MESSAGE: pa.array(messages, pa.binary()), "by_0": numbers})
        Appender(connection, sink).append(replace(producer, numbered=True), rows)

    cut_to_fit(letters, append)


def cut_to_fit(letters: Sequence[Letter], write: Callable[[list[bytes]], object]) -> None:
    """Write letters, and cut payloads until the server takes them. Each attempt calls `write` with all letters."""
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
    told = {**letter.place, "reason": letter.reason[: min(max_bytes, _MAX_REASON_CHARACTERS)]}
    payload = letter.payload
    if payload is None:
        return msgspec.json.encode(told | {"payload": None})
    size = {"payload_bytes": len(payload)} if len(payload) > max_bytes else {}
    try:
        payload.decode()
    except UnicodeDecodeError:
        return msgspec.json.encode(told | {"payload_base64": payload[:max_bytes]} | size)
    return msgspec.json.encode(told | {"payload": payload[:max_bytes].decode(errors="ignore")} | size)
