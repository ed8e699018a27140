"""The state of a stream: what its records add up to. Each segment but the first begins with it, as a record of its own.

The record is its kind, the identity, the head, the number of producers in four bytes, and for each of them its name and
its state. Thus the last segment alone tells what a stream is.
"""

from everbrook.protocol.change import Write
from everbrook.protocol.state import Head, Producer
from everbrook.storage.packing import (
    COUNT,
    KIND,
    Unpacker,
    pack_head,
    pack_identity,
    pack_producer,
    pack_text,
    unpack_head,
    unpack_identity,
    unpack_producer,
)

STATE = 0x20

# What a stream costs in memory: its head and identity, and each producer.
STATE_BYTES = 1024
PRODUCER_BYTES = 256


class StreamState:
    """A head and what it remembers of its producers."""

    __slots__ = ("head", "producers")

    def __init__(self, head: Head, producers: dict[bytes, Producer]) -> None:
        self.head = head
        self.producers = producers

    @property
    def weight(self) -> int:
        """How much memory it takes."""
        return STATE_BYTES + len(self.producers) * PRODUCER_BYTES

    def take(self, write: Write) -> None:
        """Become what a write makes of it."""
        self.head = write.head
        for producer_id in write.forgotten:
            self.producers.pop(producer_id, None)
        if write.producer_id is not None and write.producer is not None:
            self.producers[write.producer_id] = write.producer


def pack_state(state: StreamState) -> bytes:
    parts = [KIND.pack(STATE), pack_identity(state.head.identity), pack_head(state.head)]
    parts.append(COUNT.pack(len(state.producers)))
    for producer_id, producer in state.producers.items():
        parts += (pack_text(producer_id), pack_producer(producer))
    return b"".join(parts)


def unpack_state(body: bytes) -> StreamState:
    unpacker = Unpacker(body, KIND.size)
    head, _ = unpack_head(unpacker, unpack_identity(unpacker))
    (count,) = unpacker.take(COUNT)
    producers: dict[bytes, Producer] = {}
    for _ in range(count):
        producer_id = unpacker.take_text()
        producers[producer_id] = unpack_producer(unpacker)
    return StreamState(head, producers)
