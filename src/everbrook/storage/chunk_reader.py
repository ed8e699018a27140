"""The reader of chunks: reads and verifies bytes and message indexes, from rows and segments."""

import errno
from array import array
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import lmdb

from everbrook.storage.base_rows import CHECKSUM, DATA, PLACE, Database, holds, place_of, seek_chunk, start_of, unseal
from everbrook.storage.chunk import (
    Location,
    block_bounds,
    chunk_length,
    damaged_block,
    inline_parts,
    is_inline,
    parse_location,
    unpack_extent,
    unpack_index,
)
from everbrook.storage.damage import Damaged
from everbrook.storage.manifest import BASE
from everbrook.storage.message_index import MessageIndex, Messages
from everbrook.storage.segments import Segments

_CHUNKS_PLACE = f"{BASE}/{DATA} {Database.CHUNKS.decode()}"
_INDEXES_PLACE = f"{BASE}/{DATA} {Database.INDEXES.decode()}"

Reading = Callable[..., "AbstractContextManager[lmdb.Transaction[Any]]"]


class ChunkReader:
    """Reads the chunks in the base."""

    def __init__(self, reading: Reading, databases: "dict[bytes, lmdb._Database]", segments: Segments) -> None:
        """Read within the transactions that `reading` begins."""
        self._reading = reading
        self._chunks, self._indexes = databases[Database.CHUNKS], databases[Database.INDEXES]
        self._segments = segments

    def read(self, incarnation: int, start: int, end: int) -> bytes:
        """Return the bytes of a stream from `start` to `end`, verified."""
        parts: list[bytes] = []
        with self._reading(incarnation, buffers=True) as transaction:
            cursor = transaction.cursor(self._chunks)
            there = seek_chunk(cursor, incarnation, start)
            while start < end:
                part = self._part(cursor, incarnation, start, end) if there else b""
                if not part:
                    raise Damaged(incarnation, start, _CHUNKS_PLACE, "a chunk is missing")
                parts.append(part)
                start += len(part)
                # Chunks must be contiguous: a gap is damage.
                there = start < end and cursor.next() and holds(cursor, incarnation) and start_of(cursor) == start
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _part(self, cursor: lmdb.Cursor, incarnation: int, start: int, end: int) -> bytes:
        """Copy a range, cut at the end of the chunk at a cursor, and verify the blocks that the range touches."""
        key, row = bytes(cursor.key()), cursor.value()
        first = start_of(cursor)
        begin, stop, location = start - first, end - first, None
        if is_inline(row):
            data, checksums = inline_parts(row)
            stop = min(stop, len(data))
            block_start, block_end = block_bounds(begin, stop, len(data))
            blocks: bytes | memoryview = data[block_start:block_end]
        else:
            located = parse_location(key, row)
            if located is None:
                raise Damaged(incarnation, first, place_of(Database.CHUNKS, key), "its checksum is wrong")
            location, checksums = located
            stop = min(stop, location.length)
            if stop <= begin:
                return b""
            block_start, block_end = block_bounds(begin, stop, location.length)
            blocks = self._segment_blocks(incarnation, first, location, block_start, block_end)
        if stop <= begin:
            return b""
        damaged = damaged_block(key, blocks, block_start, checksums)
        if damaged is not None:
            place = self._segments.place(incarnation, location, damaged) if location else place_of(Database.CHUNKS, key)
            raise Damaged(incarnation, first + damaged, place, "the checksum of a block is wrong")
        return bytes(blocks[begin - block_start : stop - block_start])

    def _segment_blocks(self, incarnation: int, first: int, location: Location, start: int, end: int) -> bytes:
        """Read whole blocks of the chunk that begins at `first` from its segment."""
        try:
            blocks = self._segments.read(incarnation, location, start, end)
            problem = "the file is too short"
        except FileNotFoundError:
            blocks, problem = b"", "the file is missing"
        except OSError as error:
            # EIO is a bad sector: damage of this stream only. Any other error, such as EMFILE, is no damage.
            if error.errno != errno.EIO:
                raise
            blocks, problem = b"", f"it can't be read: {error.strerror}"
        if len(blocks) < end - start:
            place = self._segments.place(incarnation, location, start)
            raise Damaged(incarnation, first + start, place, problem)
        return blocks

    def index_at(self, incarnation: int, offset: int) -> MessageIndex:
        """Return the index of the chunk that holds the byte at `offset`."""
        with self._reading(incarnation, buffers=True) as transaction:
            cursor = transaction.cursor(self._indexes)
            if not seek_chunk(cursor, incarnation, offset):
                raise Damaged(incarnation, max(0, offset), _INDEXES_PLACE, "an index is missing")
            index = self._index(cursor)
        if index.base + index.messages[-1] <= offset:
            missing = index.base + index.messages[-1]
            raise Damaged(incarnation, missing, _INDEXES_PLACE, "an index is missing")
        return index

    def _index(self, cursor: lmdb.Cursor) -> MessageIndex:
        key = bytes(cursor.key())
        incarnation, start = PLACE.unpack(key)
        packed = unseal(key, bytes(cursor.value()))
        if packed is None or unpack_extent(packed) is None:
            raise Damaged(incarnation, start, place_of(Database.INDEXES, key), "its checksum is wrong")
        return unpack_index(packed, start)

    def messages(self, incarnation: int, start: int, end: int) -> Messages:
        """Return the messages that end after `start` and not after `end`, which is a boundary in the base."""
        ends, times, known = array("Q"), array("Q"), start
        with self._reading(incarnation, buffers=True) as transaction:
            cursor = transaction.cursor(self._indexes)
            there = seek_chunk(cursor, incarnation, start)
            while known < end:
                if not there or not holds(cursor, incarnation) or start_of(cursor) > known:
                    raise Damaged(incarnation, known, _INDEXES_PLACE, "an index is missing")
                index = self._index(cursor)
                found = index.messages_between(start, end)
                ends.extend(found.ends)
                times.extend(found.times)
                known = max(known, index.base + index.messages[-1])
                there = cursor.next()
        return Messages(ends, times)

    def seek(self, incarnation: int, offset: int, count: int) -> tuple[int, int]:
        """Move `count` messages on from an offset, backwards if negative, as far as the messages have no gap.

        Returns the offset reached, and how many messages are left to go.
        """
        with self._reading(incarnation, buffers=True) as transaction:
            cursor = transaction.cursor(self._indexes)
            if not seek_chunk(cursor, incarnation, offset if count >= 0 else offset - 1):
                return offset, count
            index = self._index(cursor)
            if index.base + index.messages[-1] < offset:
                return offset, count
            position, left = index.seek(offset, count)
            if count < 0:
                return self._seek_back(cursor, incarnation, position, left)
            position, left = self._seek_on(cursor, incarnation, position, left)
            if left:
                # `_seek_on` reads only the counts of the indexes that it skips. Verify the last one, from which the
                # position comes, in the same transaction: a checkpoint may remove it afterwards.
                if not seek_chunk(cursor, incarnation, position - 1):
                    raise Damaged(incarnation, max(0, position - 1), _INDEXES_PLACE, "an index is missing")
                self._index(cursor)
            return position, left

    def _seek_on(self, cursor: lmdb.Cursor, incarnation: int, position: int, left: int) -> tuple[int, int]:
        while left and cursor.next() and holds(cursor, incarnation):
            start = start_of(cursor)
            if start != position:
                break
            messages, size = self._extent(cursor)
            if messages < left:
                position, left = start + size, left - messages
            else:
                position, left = self._index(cursor).seek(start, left)
        return position, left

    def _seek_back(self, cursor: lmdb.Cursor, incarnation: int, position: int, left: int) -> tuple[int, int]:
        while left and cursor.prev() and holds(cursor, incarnation):
            start = start_of(cursor)
            messages, size = self._extent(cursor)
            if start + size != position:
                break
            if messages < -left:
                position, left = start, left + messages
            else:
                position, left = self._index(cursor).seek(start + size, left)
        return position, left

    def _extent(self, cursor: lmdb.Cursor) -> tuple[int, int]:
        """Return the number of messages and of bytes of the chunk at a cursor, without reading all of its index."""
        extent = unpack_extent(cursor.value()[: -CHECKSUM.size])
        if extent is None:
            key = bytes(cursor.key())
            incarnation, start = PLACE.unpack(key)
            raise Damaged(incarnation, start, place_of(Database.INDEXES, key), "it can't be read")
        return extent

    def bytes_before(self, incarnation: int, floor: int) -> int:
        """Count the bytes in chunks that lie wholly before an offset."""
        with self._reading(incarnation, buffers=True) as transaction:
            cursor = transaction.cursor(self._chunks)
            if not cursor.set_range(PLACE.pack(incarnation, 0)) or not holds(cursor, incarnation):
                return 0
            first = start_of(cursor)
            if first >= floor:
                return 0
            seek_chunk(cursor, incarnation, floor - 1)
            start, size = start_of(cursor), chunk_length(cursor.value())
            return (start + size if start + size <= floor else start) - first
