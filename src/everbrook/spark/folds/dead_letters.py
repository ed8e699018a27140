"""Dead letters of folds: messages that are no changes, put aside before the snapshot that leaves them out.

Each is an append of its own. The producer is the folded stream, the epoch is the offset from which it is folded, and
the number is that of the letter behind it: a fold that is done again, or further, writes none of them twice. Many are
sent one behind the other, without waiting for each answer. Where letters of so many streams are in one that the server
takes no more producers there, they come without: perhaps twice, which is better than never.
"""

import hashlib
from collections.abc import Sequence
from contextlib import closing

import msgspec
import pyarrow as pa
from msgspec import Struct

from everbrook.client.content import Kind, join, kind_of
from everbrook.protocol.errors import PayloadTooLarge, TooManyProducers
from everbrook.spark.appending import Appender, BatchTooLarge, Producer, QuerySuperseded
from everbrook.spark.connection import Connection
from everbrook.spark.folds.options import FoldOptions
from everbrook.spark.folds.plans import Plan
from everbrook.spark.folds.reports import Overtaken, Refused
from everbrook.spark.messages import MESSAGE, STREAM
from everbrook.spark.options import SinkOptions
from everbrook.spark.pipelining import Broken, Put, target_of
from everbrook.spark.positions import BEGINNING

MAX_LETTERS, MAX_BYTES = 10_000, 64 * 1024 * 1024
"""A stream with more of them than this is hardly one of changes."""
_ONE_BY_ONE = 1
_MANY, _GROUP = 4, 64
_TAKEN = (200, 204)


class Letter(Struct, frozen=True):
    """A message that is no change, where it is, and why."""

    offset: str
    reason: str
    payload: bytes


class Letters:
    """The dead letters of one fold."""

    def __init__(self) -> None:
        self._letters: list[Letter] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._letters)

    def add(self, letter: Letter) -> None:
        """Put a message aside."""
        self._letters.append(letter)
        self._bytes += len(letter.payload)
        if len(self._letters) > MAX_LETTERS or self._bytes > MAX_BYTES:
            raise Refused(
                f"more than {len(self._letters) - 1:,} of its messages are no changes, the last of them at "
                f"{letter.offset}: {letter.reason}"
            )

    def append(self, connection: Connection, options: FoldOptions, plan: Plan, start: str) -> None:
        """Append those of a fold that went on from `start` to their stream."""
        stream = options.dead_letters
        if stream is None or not self._letters:
            return
        messages = [_message(plan.stream, letter) for letter in self._letters]
        producer = producer_of(plan, start)
        sink = SinkOptions(
            options.server,
            stream=stream,
            bucket=options.selection.bucket,
            auto_create=True,
            max_append_bytes=_ONE_BY_ONE,
        )
        try:
            _append_once(connection, stream, Appender(connection, sink), producer, messages)
        except QuerySuperseded as error:
            raise Overtaken(f"somebody else folds it further: {error}") from error
        except (BatchTooLarge, PayloadTooLarge) as error:
            raise Refused(f"its dead letters can't be written: {error}") from error


def _append_once(
    connection: Connection, stream: str, appender: Appender, producer: Producer, messages: Sequence[bytes]
) -> None:
    try:
        appender.append(producer, _rows(stream, messages[:1]))  # which creates the stream
        if not _send_ahead(connection, stream, producer, messages):
            appender.append(producer, _rows(stream, messages))
    except TooManyProducers:
        connection.stream(stream).extend(map(msgspec.json.decode, messages))


def _rows(stream: str, messages: Sequence[bytes]) -> pa.Table:
    numbers = [f"{number:012d}" for number in range(len(messages))]
    return pa.table({STREAM: [stream] * len(messages), MESSAGE: pa.array(messages, pa.binary()), "by_0": numbers})


def _send_ahead(connection: Connection, stream: str, producer: Producer, messages: Sequence[bytes]) -> bool:
    """Append messages over one connection, several under way, and tell whether all of them are there."""
    if len(messages) < _MANY:
        return False
    content_type = connection.head(stream).content_type
    pipeline = connection.pipeline() if kind_of(content_type) is Kind.JSON else None
    if pipeline is None:
        return False
    target = target_of(connection.root.stream(stream), {}).rstrip("?")
    posts = [
        Put(target, _headers(producer, content_type, seq), join(Kind.JSON, [message]), "POST")
        for seq, message in enumerate(messages)
    ]
    credentials = connection.transport.credentials
    with closing(pipeline):
        try:
            groups = (posts[first : first + _GROUP] for first in range(0, len(posts), _GROUP))
            return all(answer.status in _TAKEN for group in groups for answer in pipeline.put(group, credentials))
        except Broken:
            return False


def _headers(producer: Producer, content_type: str, seq: int) -> dict[str, str]:
    claim = {"Producer-Id": producer.id, "Producer-Epoch": str(producer.epoch), "Producer-Seq": str(seq)}
    return {"Content-Type": content_type, **claim}


def producer_of(plan: Plan, start: str) -> Producer:
    """Name who writes the dead letters of a fold. A stream that was created anew is another."""
    name = hashlib.sha256(plan.stream.encode()).hexdigest()[:32]
    return Producer(
        f"fold-{name}-{plan.incarnation or plan.created_at_ms or 0}", 0 if start == BEGINNING else int(start)
    )


def _message(stream: str, letter: Letter) -> bytes:
    told = {"stream": stream, "offset": letter.offset, "reason": letter.reason}
    try:
        return msgspec.json.encode(told | {"payload": letter.payload.decode()})
    except UnicodeDecodeError:
        return msgspec.json.encode(told | {"payload_base64": letter.payload})
