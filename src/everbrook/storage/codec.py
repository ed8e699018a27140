"""The binary form of heads, identities, producers and edits. `docs/format.md` describes it field by field.

Numbers are little-endian. A text is its length in two bytes, then its bytes. Each optional field has a bit in `flags`.
"""

import sys
from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from operator import sub
from struct import Struct

from everbrook.protocol.content_type import parse_media_type
from everbrook.protocol.json_mode import Ends
from everbrook.protocol.state import (
    WHOLE,
    Change,
    Claim,
    Drop,
    Edit,
    Fork,
    Head,
    Identity,
    Kept,
    Producer,
    Retention,
    Snapshot,
    Write,
)

CREATE, WRITE, DROP = 1, 2, 3

HAS_TTL, HAS_EXPIRY, HAS_FORK, HAS_ANCHOR, HAS_INHERITED, HAS_RETENTION = 1, 2, 4, 8, 16, 32
CLOSED, DELETED, HAS_CLOSER, HAS_STREAM_SEQ, HAS_PRODUCER, HAS_FORGOTTEN, HAS_KEPT = 1, 2, 4, 8, 16, 32, 64
HAS_POSITION = 128
SHORT_MESSAGES = 1 << 31
"""A bit of the number of messages of an edit: the length of each message is packed in one byte."""

KIND = Struct("<B")
TEXT = Struct("<H")
COUNT = Struct("<I")
IDENTITY = Struct("<QqBqq")
FORK = Struct("<QQQQ")
HEAD = Struct("<QqB")
CLAIM = Struct("<QQ")
PRODUCER = Struct("<QQq")
INCARNATION = Struct("<Q")
MESSAGES = Struct("<II")
KEPT = Struct("<QB")
SNAPSHOT = Struct("<QqQQQ")
RETENTION = Struct("<QQQ")
DIGEST_BYTES = 32
# All fields of the write of one message without optional fields, so that it is packed in one step.
_APPEND = Struct("<BQQqBII")


class Unpacker:
    """Reads packed values from a buffer, one after the other."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        self._data = data
        self.position = position

    @property
    def done(self) -> bool:
        """Whether the buffer is read to its end."""
        return self.position >= len(self._data)

    def take(self, layout: Struct) -> tuple[int, ...]:
        """Take the fields of a layout."""
        values = layout.unpack_from(self._data, self.position)
        self.position += layout.size
        return values

    def take_text(self) -> bytes:
        (length,) = self.take(TEXT)
        return self.take_bytes(length)

    def take_bytes(self, length: int) -> bytes:
        data = self._data[self.position : self.position + length]
        self.position += length
        return data


def pack_text(text: bytes) -> bytes:
    return TEXT.pack(len(text)) + text


def pack_kept(kept: Kept) -> bytes:
    snapshot = kept.snapshot
    packed = KEPT.pack(kept.earliest, snapshot is not None)
    if snapshot is None:
        return packed
    fixed = SNAPSHOT.pack(snapshot.offset, snapshot.published_at, snapshot.size, snapshot.owner, snapshot.blob)
    return packed + fixed + snapshot.digest + pack_text(snapshot.content_type)


def unpack_kept(unpacker: Unpacker) -> Kept:
    earliest, has_snapshot = unpacker.take(KEPT)
    if not has_snapshot:
        return Kept(earliest)
    offset, published_at, size, owner, blob = unpacker.take(SNAPSHOT)
    digest, content_type = unpacker.take_bytes(DIGEST_BYTES), unpacker.take_text()
    return Kept(earliest, Snapshot(offset, published_at, content_type, size, digest, owner, blob))


def pack_retention(retention: Retention) -> bytes:
    """Pack a policy. 0 stands for no bound, because a bound is never 0."""
    return RETENTION.pack(retention.max_age_secs or 0, retention.max_bytes or 0, retention.max_messages or 0)


def unpack_retention(unpacker: Unpacker) -> Retention:
    max_age_secs, max_bytes, max_messages = unpacker.take(RETENTION)
    return Retention(max_age_secs or None, max_bytes or None, max_messages or None)


def pack_identity(identity: Identity) -> bytes:
    fork = identity.fork
    inherited = identity.first_kept
    flags = (
        (HAS_TTL if identity.ttl_secs is not None else 0)
        | (HAS_EXPIRY if identity.expires_at is not None else 0)
        | (HAS_FORK if fork else 0)
        | (HAS_ANCHOR if fork and fork.anchor is not None else 0)
        | (HAS_INHERITED if inherited != WHOLE else 0)
        | (HAS_RETENTION if identity.retention else 0)
    )
    fixed = IDENTITY.pack(
        identity.incarnation, identity.created_at, flags, identity.ttl_secs or 0, identity.expires_at or 0
    )
    packed = fixed + pack_text(identity.name) + pack_text(identity.content_type)
    if fork:
        places = FORK.pack(fork.source_incarnation, fork.offset, fork.anchor or 0, fork.sub_offset)
        packed += places + pack_text(fork.source)
    if inherited != WHOLE:
        packed += pack_kept(inherited)
    return packed + pack_retention(identity.retention) if identity.retention else packed


def unpack_identity(unpacker: Unpacker) -> Identity:
    incarnation, created_at, flags, ttl_secs, expires_at = unpacker.take(IDENTITY)
    name, content_type = unpacker.take_text(), unpacker.take_text()
    fork = None
    if flags & HAS_FORK:
        source_incarnation, offset, anchor, sub_offset = unpacker.take(FORK)
        source = unpacker.take_text()
        kept = unpack_kept(unpacker) if flags & HAS_INHERITED else WHOLE
        fork = Fork(source, source_incarnation, offset, anchor if flags & HAS_ANCHOR else None, sub_offset, kept)
    return Identity(
        name,
        incarnation,
        content_type,
        parse_media_type(content_type),
        created_at,
        ttl_secs if flags & HAS_TTL else None,
        expires_at if flags & HAS_EXPIRY else None,
        fork,
        unpack_retention(unpacker) if flags & HAS_RETENTION else None,
    )


def pack_head(head: Head) -> bytes:
    """Pack a head without its identity."""
    return _pack_head(head, _flags_of(head, cut=head.kept != WHOLE))


def _flags_of(head: Head, *, cut: bool) -> int:
    """Return the flags of a packed head. `cut`: the packed head has its `kept`."""
    return (
        (CLOSED if head.closed else 0)
        | (DELETED if head.deleted else 0)
        | (HAS_CLOSER if head.closed_by else 0)
        | (HAS_STREAM_SEQ if head.stream_seq is not None else 0)
        | (HAS_KEPT if cut else 0)
    )


def _pack_head(head: Head, flags: int) -> bytes:
    closer, stream_seq = head.closed_by, head.stream_seq
    packed = HEAD.pack(head.tail, head.written_at, flags)
    if closer:
        packed += CLAIM.pack(closer.epoch, closer.seq) + pack_text(closer.producer_id)
    if stream_seq is not None:
        packed += pack_text(stream_seq)
    return packed + pack_kept(head.kept) if flags & HAS_KEPT else packed


def unpack_head(unpacker: Unpacker, identity: Identity, before: Kept = WHOLE) -> tuple[Head, int]:
    """Unpack a head. `before` is its `kept` if the packed head has none.

    Returns its flags as well, because some of them describe the edit around the head.
    """
    tail, written_at, flags = unpacker.take(HEAD)
    closer = stream_seq = None
    if flags & HAS_CLOSER:
        epoch, seq = unpacker.take(CLAIM)
        closer = Claim(unpacker.take_text(), epoch, seq)
    if flags & HAS_STREAM_SEQ:
        stream_seq = unpacker.take_text()
    kept = unpack_kept(unpacker) if flags & HAS_KEPT else before
    head = Head(identity, tail, written_at, bool(flags & CLOSED), closer, stream_seq, bool(flags & DELETED), kept)
    return head, flags


def pack_producer(producer: Producer) -> bytes:
    """Pack a producer. Its position follows if it has one."""
    fixed, position = PRODUCER.pack(producer.epoch, producer.seq, producer.seen_at), producer.position
    return fixed if position is None else fixed + pack_text(position)


def unpack_producer(data: bytes) -> Producer:
    """Unpack a producer from its own row. The length of the row says whether a position follows."""
    unpacker = Unpacker(data)
    return _take_producer(unpacker, has_position=len(data) > PRODUCER.size)


def _take_producer(unpacker: Unpacker, *, has_position: bool) -> Producer:
    epoch, seq, seen_at = unpacker.take(PRODUCER)
    return Producer(epoch, seq, seen_at, unpacker.take_text() if has_position else None)


def pack_edit(edit: Edit) -> bytes:
    """Pack an edit. The first write and the drop of a stream have its identity, other writes its incarnation only."""
    identity = edit.head.identity
    if isinstance(edit, Drop):
        return KIND.pack(DROP) + pack_identity(identity)
    head, flags = edit.head, _flags_of(edit.head, cut=edit.cut)
    flags |= HAS_FORGOTTEN if edit.forgotten else 0
    if edit.producer:
        flags |= HAS_PRODUCER if edit.producer.position is None else HAS_PRODUCER | HAS_POSITION
    if edit.created:
        return KIND.pack(CREATE) + pack_identity(identity) + _pack_write(edit, flags)
    if not flags and len(edit.ends) == 1:
        # Most edits are of this kind, so they are packed in one step.
        fields = (identity.incarnation, head.tail, head.written_at, flags, len(edit.data), 1)
        return _APPEND.pack(WRITE, *fields) + edit.data
    return KIND.pack(WRITE) + INCARNATION.pack(identity.incarnation) + _pack_write(edit, flags)


def _pack_write(write: Write, flags: int) -> bytes:
    parts = [_pack_head(write.head, flags)]
    if write.producer and write.producer_id is not None:
        parts += (pack_producer(write.producer), pack_text(write.producer_id))
    if write.forgotten:
        parts.append(COUNT.pack(len(write.forgotten)))
        parts += map(pack_text, write.forgotten)
    data, ends = write.data, write.ends
    if len(ends) > 1:
        lengths = _pack_lengths(write.head.tail - len(data), ends)
        short = SHORT_MESSAGES if len(lengths) == len(ends) else 0
        parts += (MESSAGES.pack(len(data), len(ends) | short), lengths)
    else:
        parts.append(MESSAGES.pack(len(data), len(ends)))
    parts.append(data)
    return b"".join(parts)


def _pack_lengths(start: int, ends: Sequence[int]) -> bytes:
    """Pack the lengths of messages, each in one byte if all of them fit, otherwise in four.

    A large batch has computed its lengths already: computing a million takes 30 ms, during which the event loop waits
    for the interpreter's lock several times.
    """
    if isinstance(ends, Ends) and sys.byteorder == "little":
        return ends.lengths.tobytes()
    lengths = tuple(map(sub, ends, chain((start,), ends)))
    try:
        return bytes(lengths)
    except ValueError:
        return Struct(f"<{len(lengths)}I").pack(*lengths)


def unpack_edit(unpacker: Unpacker, head_of: Callable[[int], Head]) -> Edit:
    """Unpack an edit. `head_of` returns the head of a stream before the edit."""
    (kind,) = unpacker.take(KIND)
    if kind == CREATE:
        identity = unpack_identity(unpacker)
        return _unpack_write(unpacker, identity, identity.first_kept, created=True)
    if kind == DROP:
        identity = unpack_identity(unpacker)
        return Drop(Head(identity, identity.first_own_offset, identity.created_at))
    if kind == WRITE:
        (incarnation,) = unpacker.take(INCARNATION)
        before = head_of(incarnation)
        return _unpack_write(unpacker, before.identity, before.kept, created=False)
    raise ValueError(f"an edit of unknown kind {kind}")


def _unpack_write(unpacker: Unpacker, identity: Identity, kept: Kept, *, created: bool) -> Write:
    head, flags = unpack_head(unpacker, identity, kept)
    producer = producer_id = None
    if flags & HAS_PRODUCER:
        producer = _take_producer(unpacker, has_position=bool(flags & HAS_POSITION))
        producer_id = unpacker.take_text()
    forgotten: tuple[bytes, ...] = ()
    if flags & HAS_FORGOTTEN:
        (count,) = unpacker.take(COUNT)
        forgotten = tuple(unpacker.take_text() for _ in range(count))
    length, messages = unpacker.take(MESSAGES)
    ends: tuple[int, ...] = (head.tail,) if messages else ()
    if messages > 1:
        short, count = messages & SHORT_MESSAGES, messages & ~SHORT_MESSAGES
        lengths = unpacker.take_bytes(count) if short else unpacker.take(Struct(f"<{count}I"))
        ends = tuple(accumulate(lengths, initial=head.tail - length))[1:]
    cut = bool(flags & HAS_KEPT)
    return Write(head, unpacker.take_bytes(length), ends, producer_id, producer, forgotten, created, cut)


def pack_change(change: Change) -> bytes:
    return pack_edit(change[0]) if len(change) == 1 else b"".join(map(pack_edit, change))
