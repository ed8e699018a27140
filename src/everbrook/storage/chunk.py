"""Chunks: consecutive messages, stored as a few large values with an index beside each.

The bytes of a chunk are either in its row or in a segment file, which the row then locates. Either way the row has a
checksum for each block of 8 KiB: a read verifies the blocks that it touches.

A chunk's index has the ends of its messages and, where appends are batches, of its appends, relative to the chunk's
first offset, and the time of each append. A chunk may begin inside an append that began in the one before it.
"""

import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from struct import Struct

from msgspec import Struct as Value

from everbrook.storage.index import MessageIndex, Run
from everbrook.storage.rows import seal, unseal

BLOCK_BYTES = 8192
INLINE, IN_SEGMENT = 0, 1
KIND = Struct("<B")
LOCATION = Struct("<BQQI")
COUNTS = Struct("<III")
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
    """Where the bytes of a chunk are, outside of the base.

    A segment is known by the offset at which it begins in its stream; `position` is the place of the bytes in it.
    """

    segment: int
    position: int
    length: int


# Block checksums


def block_checksums(key: bytes, data: bytes) -> bytes:
    """Give the checksums of the blocks of a chunk. They depend on its key and on their place in it."""
    seed = zlib.crc32(key)
    view = memoryview(data)
    starts = range(0, len(data), BLOCK_BYTES)
    checksums = [zlib.crc32(view[start : start + BLOCK_BYTES], seed ^ start) for start in starts]
    return Struct(f"<{len(checksums)}I").pack(*checksums)


class BlockChecksums:
    """The block checksums of bytes that come piece by piece."""

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
        """Give the checksums of all blocks. The last one may be shorter."""
        return bytes(self._packed) + (_CHECKSUM.pack(self._last) if self._size % BLOCK_BYTES else b"")


def checksums_bytes(length: int) -> int:
    """Give the size of the checksums of `length` bytes."""
    return -(-length // BLOCK_BYTES) * _CHECKSUM.size


def block_bounds(start: int, end: int, length: int) -> tuple[int, int]:
    """Give the range of whole blocks that a range of a chunk touches."""
    return start - start % BLOCK_BYTES, min(length, -(-end // BLOCK_BYTES) * BLOCK_BYTES)


def damaged_block(
    key: bytes, blocks: bytes | memoryview, first: int, checksums: bytes | memoryview, checked_from: int = 0
) -> int | None:
    """Verify whole blocks that begin at `first` in a chunk. Gives where the first damaged one begins in it.

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
    """Write the row of a chunk that holds its bytes."""
    return b"".join((_INLINE, data, block_checksums(key, data)))


def pack_location(key: bytes, location: Location, checksums: bytes) -> bytes:
    """Write the row of a chunk whose bytes are in a segment."""
    fixed = LOCATION.pack(IN_SEGMENT, location.segment, location.position, location.length)
    return seal(key, fixed + checksums)


def is_inline(row: bytes | memoryview) -> bool:
    """Tell whether a row holds the bytes of its chunk."""
    return len(row) > 0 and row[0] == INLINE


def inline_parts(row: bytes | memoryview) -> tuple[bytes | memoryview, bytes | memoryview]:
    """Give the bytes and the checksums of an inline row. A row that is too short for a checksum has no bytes."""
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
    """Give how many bytes a chunk has, without verifying its row."""
    if is_inline(row):
        return len(inline_parts(row)[0])
    return int(LOCATION.unpack_from(row)[3]) if len(row) >= LOCATION.size else 0


# Indexes


def pack_index(index: MessageIndex) -> bytes:
    appends = array("I") if index.appends == index.messages else index.appends
    counts = COUNTS.pack(len(index.messages), len(appends), len(index.times))
    return counts + index.messages.tobytes() + appends.tobytes() + index.times.tobytes()


def unpack_index(packed: bytes, start: int) -> MessageIndex:
    """Read the index of the chunk that begins at `start`."""
    messages, appends, times = array("I"), array("I"), array("Q")
    counts = COUNTS.unpack_from(packed)
    position = COUNTS.size
    for part, count in zip((messages, appends, times), counts, strict=True):
        size = count * part.itemsize
        part.frombytes(packed[position : position + size])
        position += size
    return MessageIndex(start, start, messages, appends or messages, times)


def unpack_extent(packed: bytes | memoryview) -> tuple[int, int] | None:
    """Read the number of messages and of bytes of a chunk from its index, without unpacking the rest.

    None if the counts of the index do not add up to its length.
    """
    if len(packed) < COUNTS.size:
        return None
    messages, appends, times = COUNTS.unpack_from(packed)
    length = COUNTS.size + (messages + appends) * END.size + times * TIME_BYTES
    if not messages or length != len(packed):
        return None
    return messages, END.unpack_from(packed, COUNTS.size + (messages - 1) * END.size)[0]


# Cutting and joining


def cut_run(run: Run, chunk_bytes: int) -> list[Chunk]:
    """Cut a run into chunks at message boundaries. A message larger than `chunk_bytes` is a chunk by itself."""
    return _cut(run, run.first, run.tail, run.read, chunk_bytes)


def cut_chunk(chunk: Chunk, chunk_bytes: int) -> list[Chunk]:
    start, data = chunk.start, chunk.data
    return _cut(
        chunk.index, start, start + len(data), lambda first, end: data[first - start : end - start], chunk_bytes
    )


def _cut(
    index: MessageIndex, start: int, tail: int, read: Callable[[int, int], bytes], chunk_bytes: int
) -> list[Chunk]:
    chunks: list[Chunk] = []
    while start < tail:
        end = index.boundary_at_or_before(min(start + chunk_bytes, tail))
        if end <= start:
            end = index.boundary_after(start)
        chunks.append(Chunk(start, read(start, end), _index_between(index, start, end)))
        start = end
    return chunks


def _index_between(index: MessageIndex, start: int, end: int) -> MessageIndex:
    first, last = start - index.base, end - index.base
    ends = index.messages[bisect_right(index.messages, first) : bisect_right(index.messages, last)]
    messages = array("I", (each - first for each in ends))
    if index.appends is index.messages:
        place = bisect_right(index.appends, first)
        return MessageIndex(start, start, messages, messages, index.times[place : place + len(messages)])
    # An append that continues in the next chunk is in the index of both.
    place, behind = bisect_right(index.appends, first), bisect_left(index.appends, last)
    appends = array("I", (append - first for append in index.appends[place : behind + 1]))
    return MessageIndex(start, start, messages, appends, index.times[place : behind + 1])


def joined(first: Chunk, second: Chunk) -> Chunk:
    """Join two consecutive chunks. An append that spans both is in the index once."""
    shift = len(first.data)
    messages = first.index.messages + array("I", (end + shift for end in second.index.messages))
    appends, times = messages, first.index.times + second.index.times
    if first.index.appends is not first.index.messages or second.index.appends is not second.index.messages:
        before = bisect_right(first.index.appends, shift)
        over = first.index.appends[:before]
        appends = over + array("I", (end + shift for end in second.index.appends))
        times = first.index.times[:before] + second.index.times
    index = MessageIndex(first.start, first.start, messages, appends, times)
    return Chunk(first.start, first.data + second.data, index)
