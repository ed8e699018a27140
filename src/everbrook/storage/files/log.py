"""The log of a stream, as far as it was read: its state, and the index of the segment that it has come to.

A log file has the header of `record.py`. The first record of segment 0 creates the stream, that of every other one is
the state at its beginning; each of the others is a write. A whole record that follows a gap is proof of damage only if
it was written when what is missing was known to be on the disk; else the gap was torn, and nobody was told of it. One
that does not go on where the one before it ended is proof too.
"""

from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from zlib import crc32

from everbrook.protocol.change import Write
from everbrook.protocol.state import Head
from everbrook.storage.files.damage import Damage
from everbrook.storage.files.index import SegmentIndex
from everbrook.storage.files.state import STATE, StreamState, unpack_state
from everbrook.storage.packing import WRITE, Damaged, Unpacker, unpack_edit
from everbrook.storage.record import FRAME, LOG_HEADER, MAGIC, Record, parse_log_header, record_at

EVERYTHING = 1 << 64

# The record of a write that has neither flags nor more messages than one, up to its data: its frame, kind, incarnation,
# tail, time, flags, bytes, messages.
PLAIN = Struct("<4sIIQQBQQqBII")
_CHECKED_FROM = 8


class StreamLog:
    """What was read of a log. `number` is that of the last record, `position` where it ends in its segment."""

    __slots__ = ("hidden", "index", "number", "position", "salt", "segment", "starts", "state", "target")

    def __init__(self, segment: int, salt: int, first: Record) -> None:
        self.segment = segment
        self.salt = salt
        self.state, self.index = _begin(first)
        self.position = first.end
        self.number = first.number
        self.target = first.number
        """The number of the last record that is visible: how far the log should be read."""
        self.hidden = False
        """Whether more records follow that are not visible yet."""
        self.starts: dict[int, int] = {}
        """At which offsets segments begin, as far as that was asked."""

    @property
    def weight(self) -> int:
        """How much memory it takes."""
        return self.state.weight + self.index.weight

    def take(self, path: Path, data: bytes, base: int, limit: int) -> None:
        """Read on in a segment whose bytes from `base` on are `data`, up to the record of number `limit`."""
        self.hidden = False
        self._take_plain(data, base, limit)
        while record := record_at(data, self.position - base, self.salt):
            if record.number > limit:
                self.hidden = True
                return
            self._take_body(record.body, base + record.end)
            if record.synced > self.number or self.index.tail != self.state.head.tail:
                raise Damage(path, self.position)
            self.position, self.number = base + record.end, record.number
            self._take_plain(data, base, limit)
        if proves_loss(data, self.position - base, self.salt, self.number):
            raise Damage(path, self.position)

    def _take_plain(self, data: bytes, base: int, limit: int) -> None:
        """Take in the next writes that change nothing but the tail, as most do, in a short way.

        It ends with the first record that is another, or can't be what follows.
        """
        view, salt, number, position = memoryview(data), self.salt, self.number, self.position - base
        tail, last = self.index.tail, len(data) - PLAIN.size
        ends: list[int] = []
        places: list[int] = []
        times: list[int] = []
        while position <= last:
            record = PLAIN.unpack_from(data, position)
            magic, checksum, length, following, synced, kind, _, end, time, flags, size, messages = record
            after = position + FRAME.size + length
            if kind != WRITE or flags or messages != 1 or end != tail + size or following > limit or synced > number:
                break
            if magic != MAGIC or crc32(view[position + _CHECKED_FROM : after], salt) != checksum or after > len(data):
                break
            number, position, tail = following, after, end
            ends.append(end)
            places.append(base + after - size)
            times.append(time)
        if ends:
            self.index.extend(ends, places, times)
            before = self.state.head
            self.state.head = Head(before.identity, tail, times[-1], kept=before.kept)
            self.number, self.position = number, base + position

    def _take_body(self, body: bytes, end: int) -> None:
        write = _unpack_write(body, self.state.head)
        self.state.take(write)
        self.index.add(write, end)

    def enter(self, segment: int, salt: int, first: Record) -> None:
        """Go on in the next segment."""
        self.segment, self.salt = segment, salt
        self.state, self.index = _begin(first)
        self.position = first.end


def _begin(first: Record) -> tuple[StreamState, SegmentIndex]:
    if first.body[0] == STATE:
        state = unpack_state(first.body)
        return state, SegmentIndex(state.head.tail, batched=state.head.identity.json)
    edit = unpack_edit(Unpacker(first.body), _no_head)
    if not isinstance(edit, Write):
        raise Damaged("a log begins with something else than a stream")
    identity = edit.head.identity
    index = SegmentIndex(identity.first_own_offset, batched=identity.json)
    state = StreamState(edit.head, {})
    state.take(edit)
    index.add(edit, first.end)
    return state, index


def _no_head(incarnation: int) -> Head:
    raise Damaged(f"a log begins with a later write of stream {incarnation}")


def _unpack_write(body: bytes, before: Head) -> Write:
    edit = unpack_edit(Unpacker(body), lambda _: before)
    if isinstance(edit, Write):
        return edit
    raise Damaged("a log holds something else than writes")


def first_record(data: bytes) -> tuple[int, Record] | None:
    """Read the salt and the first record of a segment, if both are whole."""
    header = parse_log_header(data)
    first = record_at(data, LOG_HEADER.size, header[0]) if header else None
    return (header[0], first) if header and first else None


def proves_loss(data: bytes, position: int, salt: int, number: int) -> bool:
    """Tell whether what follows `position` shows that more than `number` was once on the disk."""
    return any(record.synced > number for record in _records_after(data, position, salt))


def _records_after(data: bytes, position: int, salt: int) -> Iterator[Record]:
    """Give the whole records somewhere behind a position."""
    while (position := data.find(MAGIC, position)) >= 0:
        record = record_at(data, position, salt)
        if record:
            yield record
        position = record.end if record else position + 1
