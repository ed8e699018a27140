"""Chunks: consecutive messages, stored as a few large values with an index beside each.

The bytes of a chunk are in its row, or in a segment file whose place is in the row. In both cases the row has a
checksum for each block of 8 KiB: a read verifies the blocks that it touches.

The index of a chunk has the ends of its messages, the time of each append and, if appends are batches, the ends of the
appends. In the short form the end of a message takes two bytes. A chunk may begin inside an append that began in the
chunk before it.
"""

import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from operator import sub
from struct import Struct

from msgspec import Struct as Value

from everbrook.storage.base_rows import seal, unseal
from everbrook.storage.message_index import SPAN_BITS, SPAN_BYTES, MessageIndex, Run, halves, moved, repeated

BLOCK_BYTES = 8192
INLINE, IN_SEGMENT = 0, 1
KIND = Struct("<B")
LOCATION = Struct("<BQQI")
COUNTS = Struct("<III")
SHORT_COUNTS = Struct("<IIIII")
SHORT = 1 << 31
"""A bit of the number of messages of an index: it has the short form."""
LEAST_SHORT = 16
"""The number of messages from which on the short form is shorter."""
SHORT_END = Struct("<H")
END = Struct("<I")
TIME_BYTES = 8
_CHECKSUM = Struct("<I")
_INLINE = KIND.pack(INLINE)


class Chunk(Value, gc=False):
    """Consecutive messages of a stream."""

    start: int
    data: bytes
    index: MessageIndex


class Location(Value, frozen=True, gc=False):
    """The place of a chunk in a segment.

    `segment` is the offset at which the segment begins in its stream, `position` the place of the bytes in the file.
    """

    segment: int
    position: int
    length: int


# Block checksums


def block_checksums(key: bytes, data: bytes) -> bytes:
    """Return the checksums of the blocks of a chunk. They depend on its key and on their place in it."""
    # The place is a part of the seed, so that swapped blocks do not verify.
    seed = zlib.crc32(key)
    view = memoryview(data)
    starts = range(0, len(data), BLOCK_BYTES)
    checksums = [zlib.crc32(view[start : start + BLOCK_BYTES], seed ^ start) for start in starts]
    return Struct(f"<{len(checksums)}I").pack(*checksums)


class BlockChecksums:
    """Computes the block checksums of bytes that arrive piece by piece."""

    def __init__(self, key: bytes) -> None:
        self._seed = zlib.crc32(key)
        self._size = 0
        self._last = 0
        self._packed = bytearray()

    def add(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            filled = self._size % BLOCK_BYTES
            part = view[: BLOCK_BYTES - filled]
            self._last = zlib.crc32(part, self._last if filled else self._seed ^ self._size)
            self._size += len(part)
            view = view[len(part) :]
            if self._size % BLOCK_BYTES == 0:
                self._packed += _CHECKSUM.pack(self._last)

    def packed(self) -> bytes:
        """Return the checksums of all blocks. The last one may be shorter."""
        return bytes(self._packed) + (_CHECKSUM.pack(self._last) if self._size % BLOCK_BYTES else b"")


def checksums_bytes(length: int) -> int:
    """Return the size of the checksums of `length` bytes."""
    return -(-length // BLOCK_BYTES) * _CHECKSUM.size


def block_bounds(start: int, end: int, length: int) -> tuple[int, int]:
    """Return the range of whole blocks that a range of a chunk touches."""
    return start - start % BLOCK_BYTES, min(length, -(-end // BLOCK_BYTES) * BLOCK_BYTES)


def damaged_block(
    key: bytes, blocks: bytes | memoryview, first: int, checksums: bytes | memoryview, checked_from: int = 0
) -> int | None:
    """Verify whole blocks that begin at `first` in a chunk. Returns where the first damaged one begins in it.

    The checksums are those of the blocks from `checked_from` on.
    """
    seed = zlib.crc32(key)
    view = memoryview(blocks)
    for position in range(0, len(view), BLOCK_BYTES):
        start = first + position
        (expected,) = _CHECKSUM.unpack_from(checksums, (start - checked_from) // BLOCK_BYTES * _CHECKSUM.size)
        if zlib.crc32(view[position : position + BLOCK_BYTES], seed ^ start) != expected:
            return start
    return None


# Rows


def pack_inline(key: bytes, data: bytes) -> bytes:
    """Pack the row of a chunk with its bytes."""
    return b"".join((_INLINE, data, block_checksums(key, data)))


def pack_location(key: bytes, location: Location, checksums: bytes) -> bytes:
    """Pack the row of a chunk whose bytes are in a segment."""
    fixed = LOCATION.pack(IN_SEGMENT, location.segment, location.position, location.length)
    return seal(key, fixed + checksums)


def is_inline(row: bytes | memoryview) -> bool:
    """Return whether a row has the bytes of its chunk."""
    return len(row) > 0 and row[0] == INLINE


def inline_parts(row: bytes | memoryview) -> tuple[bytes | memoryview, bytes | memoryview]:
    """Return the bytes and the checksums of an inline row. A row that is too short for a checksum has no bytes."""
    size = len(row) - KIND.size
    blocks = -(-size // (BLOCK_BYTES + _CHECKSUM.size))
    end = max(KIND.size, len(row) - blocks * _CHECKSUM.size)
    return row[KIND.size : end], row[end:]


def parse_location(key: bytes, row: bytes | memoryview) -> tuple[Location, bytes] | None:
    """Read the row of a chunk in a segment: its location and its checksums. None if the row is damaged."""
    value = unseal(key, bytes(row))
    if value is None or len(value) < LOCATION.size:
        return None
    _, segment, position, length = LOCATION.unpack_from(value)
    if len(value) - LOCATION.size != checksums_bytes(length):
        return None
    return Location(segment, position, length), value[LOCATION.size :]


def chunk_length(row: bytes | memoryview) -> int:
    """Return the number of bytes of a chunk, without verification of its row."""
    if is_inline(row):
        return len(inline_parts(row)[0])
    return int(LOCATION.unpack_from(row)[3]) if len(row) >= LOCATION.size else 0


# Indexes


def pack_index(index: MessageIndex) -> bytes:
    """Pack the index of a chunk."""
    appends = array("I") if index.appends is index.messages else index.appends
    if index.base % SPAN_BYTES == 0 and len(index.messages) >= LEAST_SHORT:
        return _pack_short(index, appends)
    shift = index.base - index.first
    counts = COUNTS.pack(len(index.messages), len(appends), len(index.times))
    return b"".join((counts, moved(index.messages, shift, "I"), moved(appends, shift, "I"), index.times))


def _pack_short(index: MessageIndex, appends: "array[int]") -> bytes:
    messages = index.messages
    bounds = [bisect_left(messages, span << SPAN_BITS) for span in range((messages[-1] >> SPAN_BITS) + 2)]
    spans = array("I", map(sub, bounds[1:], bounds))
    length = index.base + messages[-1] - index.first
    counts = SHORT_COUNTS.pack(len(messages) | SHORT, len(appends), len(index.times), length, len(spans))
    return b"".join((counts, spans, halves(messages)[::2].tobytes(), appends, index.times))


def unpack_index(packed: bytes, start: int) -> MessageIndex:
    """Unpack the index of the chunk that begins at `start`."""
    count, append_count, time_count = COUNTS.unpack_from(packed)
    if count & SHORT:
        count &= ~SHORT
        base, position = base_of(start), SHORT_COUNTS.size
        (span_count,) = END.unpack_from(packed, position - END.size)
        spans, position = _take("I", packed, position, span_count)
        lows, position = _take("H", packed, position, count)
        messages = _with_spans(lows, spans)
    else:
        base, position = start, COUNTS.size
        messages, position = _take("I", packed, position, count)
    appends, position = _take("I", packed, position, append_count)
    times, _ = _take("Q", packed, position, time_count)
    return MessageIndex(base, start, messages, appends or messages, times)


def _take(typecode: str, packed: bytes, position: int, count: int) -> "tuple[array[int], int]":
    """Unpack an array at a position. Returns it and its end."""
    found = array(typecode)
    end = position + count * found.itemsize
    found.frombytes(packed[position:end])
    return found, end


def _with_spans(lows: "array[int]", spans: "array[int]") -> "array[int]":
    """Combine the lowest two bytes of the ends of messages with the spans in which they are."""
    found = array("I", bytes(len(lows) * END.size))
    parts = halves(found)
    parts[::2] = memoryview(lows)
    place = 0
    for span, count in enumerate(spans):
        parts[2 * place + 1 : 2 * (place + count) : 2] = repeated(span, count)
        place += count
    return found


def base_of(start: int) -> int:
    """Return the offset from which the index of a chunk counts in the short form."""
    return start - start % SPAN_BYTES


def unpack_extent(packed: bytes | memoryview) -> tuple[int, int] | None:
    """Read the number of messages and of bytes of a chunk from its index, without unpacking the rest.

    None if the counts of the index do not add up.
    """
    if len(packed) < COUNTS.size:
        return None
    messages, appends, times = COUNTS.unpack_from(packed)
    length = appends * END.size + times * TIME_BYTES
    if messages & SHORT:
        return _short_extent(packed, messages & ~SHORT, length)
    length += COUNTS.size + messages * END.size
    if not messages or length != len(packed):
        return None
    return messages, END.unpack_from(packed, COUNTS.size + (messages - 1) * END.size)[0]


def _short_extent(packed: bytes | memoryview, messages: int, rest_bytes: int) -> tuple[int, int] | None:
    if len(packed) < SHORT_COUNTS.size:
        return None
    *_, size, spans = SHORT_COUNTS.unpack_from(packed)
    length = SHORT_COUNTS.size + spans * END.size + messages * SHORT_END.size + rest_bytes
    if not messages or length != len(packed):
        return None
    in_spans = sum(Struct(f"<{spans}I").unpack_from(packed, SHORT_COUNTS.size))
    return (messages, size) if in_spans == messages else None


# Cutting and joining


def cut_run(run: Run, chunk_bytes: int, rest: Callable[[], None] = lambda: None) -> list[Chunk]:
    """Cut a run into chunks at message boundaries. A message larger than `chunk_bytes` is a chunk by itself.

    `rest` is called after each of them.
    """
    return _cut(run, run.first, run.tail, run.read, chunk_bytes, rest)


def cut_chunk(chunk: Chunk, chunk_bytes: int) -> list[Chunk]:
    start, data = chunk.start, chunk.data
    return _cut(
        chunk.index, start, start + len(data), lambda first, end: data[first - start : end - start], chunk_bytes
    )


def _cut(
    index: MessageIndex,
    start: int,
    tail: int,
    read: Callable[[int, int], bytes],
    chunk_bytes: int,
    rest: Callable[[], None] = lambda: None,
) -> list[Chunk]:
    chunks: list[Chunk] = []
    while start < tail:
        end = index.boundary_at_or_before(min(start + chunk_bytes, tail))
        if end <= start:
            end = index.boundary_after(start)
        chunks.append(Chunk(start, read(start, end), _index_between(index, start, end)))
        start = end
        rest()
    return chunks


def _index_between(index: MessageIndex, start: int, end: int) -> MessageIndex:
    first, last, base = start - index.base, end - index.base, base_of(start)
    shift = index.base - base
    ends = index.messages[bisect_right(index.messages, first) : bisect_right(index.messages, last)]
    messages = moved(ends, shift, "I")
    if index.appends is index.messages:
        place = bisect_right(index.appends, first)
        return MessageIndex(base, start, messages, messages, index.times[place : place + len(messages)])
    # An append that continues in the next chunk is in the index of both.
    place, behind = bisect_right(index.appends, first), bisect_left(index.appends, last)
    appends = moved(index.appends[place : behind + 1], shift, "I")
    return MessageIndex(base, start, messages, appends, index.times[place : behind + 1])


def joined(first: Chunk, second: Chunk) -> Chunk:
    """Join two consecutive chunks. An append that spans both is in the index once."""
    base = base_of(first.start)
    shifts = (first.index.base - base, second.index.base - base)
    messages = moved(first.index.messages, shifts[0], "I") + moved(second.index.messages, shifts[1], "I")
    appends, times = messages, first.index.times + second.index.times
    if first.index.appends is not first.index.messages or second.index.appends is not second.index.messages:
        before = bisect_right(first.index.appends, second.start - first.index.base)
        over = moved(first.index.appends[:before], shifts[0], "I")
        appends = over + moved(second.index.appends, shifts[1], "I")
        times = first.index.times[:before] + second.index.times
    index = MessageIndex(base, first.start, messages, appends, times)
    return Chunk(first.start, first.data + second.data, index)
