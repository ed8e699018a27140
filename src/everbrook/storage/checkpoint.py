"""A checkpoint takes recent changes into the base: all of them, with their number, in one LMDB transaction.

The bytes of segments are on the disk before that transaction refers to them. Only after it, the checkpointer trims the
journal and removes the segments that no row refers to any more.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Self

import msgspec

from everbrook.protocol.state import Identity
from everbrook.storage.base_rows import INCARNATION, PLACE, Database, Rows, holds, pack_mark, seek_before, start_of
from everbrook.storage.base_state import (
    APPLIED,
    LAST_INCARNATION,
    MANIFEST_COPY,
    NEEDED,
    NUMBER,
    NUMBERS,
    OPENED,
    Opened,
)
from everbrook.storage.chunk import (
    Chunk,
    Location,
    chunk_length,
    cut_chunk,
    cut_run,
    damaged_block,
    inline_parts,
    is_inline,
    joined,
    pack_index,
    pack_inline,
    pack_location,
    parse_location,
    unpack_extent,
    unpack_index,
)
from everbrook.storage.codec import pack_head, pack_identity, pack_producer
from everbrook.storage.damage import DamageMark
from everbrook.storage.journal_scan import Needed
from everbrook.storage.lmdb_base import LmdbBase
from everbrook.storage.manifest import Manifest, format_manifest
from everbrook.storage.recent import Recent, RecentStream
from everbrook.storage.tuning import StorageTuning


class Checkpoint:
    """One transaction on the base. `commit` commits it; a `with` block that ends without `commit` aborts it."""

    def __init__(self, base: LmdbBase, tuning: StorageTuning, rest: Callable[[], None] = lambda: None) -> None:
        """`rest` is called between the steps of the work. It may take some time."""
        self._base = base
        self._rest = rest
        self._chunk_bytes = tuning.chunk_bytes
        self._small_chunk_bytes = tuning.small_chunk_bytes
        self._in_segments = base.segments.used
        self._transaction = base.env.begin(write=True)
        self._rows = Rows(self._transaction, base.databases)
        self._writer = base.segments.writer()
        self.removals: list[tuple[int, int]] = []
        """Segments that no row refers to any more, to be removed after the commit: their streams and first offsets."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        try:
            self._writer.abandon()
        finally:
            # LMDB allows one writer: without the abort the next checkpoint would wait for this transaction for ever.
            self._transaction.abort()

    def take(self, recent: Recent, marks: Mapping[int, DamageMark]) -> None:
        """Take in recent changes and the damage marks."""
        for incarnation in recent.dropped:
            self._drop(incarnation)
            self._rest()
        for stream in recent.streams.values():
            self._stream(stream)
            self._rest()
        # After the appends, which must still find the segment that they continue.
        self.discard(recent.floors)
        for name, holder in recent.names.items():
            self._rest()
            if holder is None:
                self._rows.delete(Database.NAMES, name)
            else:
                self._rows.put(Database.NAMES, name, INCARNATION.pack(holder))
        for source, forks in recent.forked.items():
            for fork in forks:
                self._rows.put(Database.FORKS, PLACE.pack(source, fork), b"")
        for source, gone in recent.unforked.items():
            for fork in gone:
                self._rows.delete(Database.FORKS, PLACE.pack(source, fork))
        self.set_damage({each: mark for each, mark in marks.items() if each not in recent.dropped})

    # Streams

    def _stream(self, stream: RecentStream) -> None:
        identity = stream.head.identity
        key = INCARNATION.pack(identity.incarnation)
        self._rows.put(Database.STREAMS, key, pack_identity(identity) + pack_head(stream.head))
        if stream.created and identity.mortal:
            self._rows.put(Database.MORTAL, key, b"")
        for producer_id in stream.forgotten:
            self._rows.delete(Database.PRODUCERS, key + producer_id)
        for producer_id, producer in stream.producers.items():
            self._rows.put(Database.PRODUCERS, key + producer_id, pack_producer(producer))
        if stream.run and (chunks := cut_run(stream.run, self._chunk_bytes, self._rest)):
            self.append(identity, chunks)

    def append(self, identity: Identity, chunks: list[Chunk]) -> None:
        """Add chunks to a stream. A small last chunk is joined with the first of them.

        Segments have full chunks only. Until a stream has the bytes of a full chunk, they are in rows.
        """
        incarnation = identity.incarnation
        tail = self._inline_tail(incarnation, chunks[0].start)
        inline_bytes = sum(len(chunk.data) for chunk in (*tail, *chunks))
        if self._in_segments and inline_bytes >= self._chunk_bytes:
            if tail:
                # Only the first chunk is cut again: to move the bounds of all would cost as much as to cut the whole
                # run.
                chunks = cut_chunk(reduce(joined, (*tail, chunks[0])), self._chunk_bytes) + chunks[1:]
            for chunk in tail:
                for database in (Database.CHUNKS, Database.INDEXES):
                    self._rows.delete(database, PLACE.pack(incarnation, chunk.start))
            self._write_segments(identity, chunks)
            return
        last = tail[-1] if tail else None
        if (
            last
            and len(last.data) < self._small_chunk_bytes
            and len(last.data) + len(chunks[0].data) <= self._chunk_bytes
        ):
            chunks[0] = joined(last, chunks[0])
        for chunk in chunks:
            self._put_inline(incarnation, chunk)

    def _put_inline(self, incarnation: int, chunk: Chunk) -> None:
        self._rest()
        key = PLACE.pack(incarnation, chunk.start)
        self._rows.store(Database.CHUNKS, key, pack_inline(key, chunk.data))
        self._rows.put(Database.INDEXES, key, pack_index(chunk.index))

    def _write_segments(self, identity: Identity, chunks: list[Chunk]) -> None:
        """Write full chunks to the last segment; the rest stays a row."""
        last = self._last_location(identity.incarnation, chunks[0].start)
        for chunk in chunks:
            self._rest()
            if len(chunk.data) * 2 < self._chunk_bytes and chunk is chunks[-1]:
                self._put_inline(identity.incarnation, chunk)
                return
            key = PLACE.pack(identity.incarnation, chunk.start)
            last, checksums = self._writer.write(identity, chunk, last)
            self._rows.store(Database.CHUNKS, key, pack_location(key, last, checksums))
            self._rows.put(Database.INDEXES, key, pack_index(chunk.index))

    def _inline_tail(self, incarnation: int, end: int) -> list[Chunk]:
        """Return the last chunks of a stream that are rows, up to `end`, in order. In acid mode only the last one.

        A damaged chunk is not among them, because to write it again would give damaged bytes a valid checksum.
        """
        cursor = self._rows.cursor(Database.CHUNKS)
        chunks: list[Chunk] = []
        there = seek_before(cursor, PLACE.pack(incarnation, end))
        while there and holds(cursor, incarnation) and is_inline(cursor.value()):
            chunk = self._chunk(bytes(cursor.key()), bytes(cursor.value()))
            if chunk is None or chunk.start + len(chunk.data) != end:
                break
            chunks.insert(0, chunk)
            end = chunk.start
            there = self._in_segments and cursor.prev()
        return chunks

    def _chunk(self, key: bytes, row: bytes) -> Chunk | None:
        """Read a chunk that is a row. None: the chunk or its index does not verify."""
        data, checksums = inline_parts(row)
        packed = self._rows.value(Database.INDEXES, key)
        if packed is None or unpack_extent(packed) is None or damaged_block(key, data, 0, checksums) is not None:
            return None
        start = PLACE.unpack(key)[1]
        return Chunk(start, bytes(data), unpack_index(packed, start))

    def _last_location(self, incarnation: int, before: int) -> Location | None:
        """Return the location of the last chunk of a stream in a segment."""
        cursor = self._rows.cursor(Database.CHUNKS)
        there = seek_before(cursor, PLACE.pack(incarnation, before))
        while there and holds(cursor, incarnation):
            key, row = bytes(cursor.key()), bytes(cursor.value())
            if not is_inline(row):
                # If the row is damaged, the end of the segment is unknown: the writer begins another one.
                located = parse_location(key, row)
                return located[0] if located else None
            there = cursor.prev()
        return None

    # Removal

    def discard(self, floors: Mapping[int, int]) -> None:
        """Remove the chunks of streams that lie wholly before offsets, and the segments that hold only such chunks."""
        for incarnation, floor in floors.items():
            self._remove_chunks(incarnation, floor)

    def _remove_chunks(self, incarnation: int, floor: int | None) -> None:
        """Remove the chunks of a stream before an offset, or all of them."""
        cursor = self._rows.cursor(Database.CHUNKS)
        segments: dict[int, None] = {}
        there = cursor.set_range(PLACE.pack(incarnation, 0))
        while there and holds(cursor, incarnation):
            key, row, start = bytes(cursor.key()), bytes(cursor.value()), start_of(cursor)
            # A damaged row does not name its segment. The segment stays, and the check reports it as a leftover.
            located = None if is_inline(row) else parse_location(key, row)
            segment = located[0].segment if located else None
            if floor is not None and start + chunk_length(row) > floor:
                if segment is not None:
                    segments.pop(segment, None)
                elif segments and not is_inline(row):
                    # The damaged row may locate a chunk in the last of these segments, so that segment is kept.
                    segments.popitem()
                break
            if segment is not None:
                segments[segment] = None
            self._rows.delete(Database.INDEXES, key)
            there = cursor.delete()
        for segment in segments:
            self._rows.put(Database.REMOVALS, PLACE.pack(incarnation, segment), b"")
            self.removals.append((incarnation, segment))

    def _drop(self, incarnation: int) -> None:
        """Remove all rows of a stream."""
        key = INCARNATION.pack(incarnation)
        if self._rows.value(Database.STREAMS, key) is None:
            self._unlink_fork(incarnation)
        for database in (Database.STREAMS, Database.MORTAL, Database.DAMAGED, Database.PRODUCERS):
            cursor = self._rows.cursor(database)
            there = cursor.set_range(key)
            while there and bytes(cursor.key()).startswith(key):
                there = cursor.delete()
        self._remove_chunks(incarnation, None)

    def _unlink_fork(self, incarnation: int) -> None:
        """Remove a stream from the forks of its source by a scan, because its damaged row does not name the source."""
        for key in [bytes(key) for key, _ in self._rows.cursor(Database.FORKS)]:
            if key.endswith(INCARNATION.pack(incarnation)):
                self._rows.delete(Database.FORKS, key)

    def removed(self, segments: Iterable[tuple[int, int]]) -> None:
        """Delete the rows of segments whose files are durably removed."""
        for incarnation, segment in segments:
            self._rows.delete(Database.REMOVALS, PLACE.pack(incarnation, segment))

    # The state of the base

    def set_applied(self, number: int, last_incarnation: int) -> None:
        """Record that every change up to `number` is in the base."""
        self._rows.put(Database.META, APPLIED, NUMBER.pack(number))
        self._rows.put(Database.META, LAST_INCARNATION, NUMBER.pack(last_incarnation))

    def set_needed(self, needed: Needed) -> None:
        """Record which files of the journal recovery needs."""
        self._rows.put(Database.META, NEEDED, NUMBERS.pack(needed.first, needed.last))

    def set_damage(self, marks: Mapping[int, DamageMark]) -> None:
        """Replace the stored damage marks by `marks`."""
        kept = {INCARNATION.pack(incarnation) for incarnation in marks}
        # Collected first, because rows must not be deleted while a cursor iterates over them.
        for key in [bytes(key) for key, _ in self._rows.cursor(Database.DAMAGED)]:
            if key not in kept:
                self._rows.delete(Database.DAMAGED, key)
        for incarnation, mark in marks.items():
            self._rows.put(Database.DAMAGED, INCARNATION.pack(incarnation), pack_mark(mark))

    def set_opened(self, opened: Opened, manifest: Manifest) -> None:
        """Record how the store is opened, and store a copy of its manifest."""
        self._rows.put(Database.META, OPENED, msgspec.json.encode(opened))
        self._rows.put(Database.META, MANIFEST_COPY, format_manifest(manifest))

    def commit(self) -> None:
        """Make the transaction durable: first the segments, then the rows that refer to them.

        In the other order a crash between the two would leave rows that locate chunks that are not on the disk.
        """
        self._writer.sync()
        self._transaction.commit()
