"""Repairing segments whose bytes are whole: their headers, indexes and checksums are written again from the base."""

from collections.abc import Iterator

from everbrook.protocol.errors import quoted
from everbrook.storage.check.report import Report
from everbrook.storage.chunk import Chunk, Location, is_inline, parse_location
from everbrook.storage.damage import Damaged
from everbrook.storage.disk import Disk
from everbrook.storage.lmdb_base import LmdbBase
from everbrook.storage.manifest import SEGMENTS
from everbrook.storage.rows import CHUNKS, INCARNATION, PLACE, with_prefix
from everbrook.storage.segments import pack_chunk, pack_segment_header, segment_path


def segments_of(base: LmdbBase) -> set[tuple[int, int]]:
    """Give the segments that the base refers to: their streams, and the offsets that they are named by."""
    with base.reading() as transaction:
        return {
            (PLACE.unpack(key)[0], located[0].segment)
            for key, row in with_prefix(transaction.cursor(base.databases[CHUNKS]), b"")
            if not is_inline(row) and (located := parse_location(key, row))
        }


def repair_segments(base: LmdbBase, disk: Disk, report: Report) -> Iterator[str]:
    """Write again what segments have beside the bytes. Streams that have lost bytes are left to be cut."""
    damages = [damage for damage in report.damages if damage.place.startswith(f"{SEGMENTS}/")]
    for incarnation in sorted({stream for damage in damages for stream in damage.streams} - report.streams.keys()):
        head = base.head(incarnation)
        if head is None:
            continue
        header, begun = pack_segment_header(head.identity), set()
        for key, location, checksums in _located(base, incarnation):
            start = PLACE.unpack(key)[1]
            try:
                data = base.chunks.read(incarnation, start, start + location.length)
                chunk = Chunk(start, data, base.chunks.index_at(incarnation, start))
            except Damaged:
                break
            packed, data_from = pack_chunk(key, chunk, checksums)
            begin = location.position - data_from
            file = disk.open(segment_path(base.segments.folder, incarnation, location.segment))
            if location.segment not in begun and len(header) <= begin:
                begun.add(location.segment)
                file.write_at(0, header)
            file.write_at(begin, packed)
            file.sync()
            file.close()
        yield f"the segments of stream {quoted(head.identity.name)} are written again; its bytes are whole"


def _located(base: LmdbBase, incarnation: int) -> list[tuple[bytes, Location, bytes]]:
    with base.reading() as transaction:
        cursor = transaction.cursor(base.databases[CHUNKS])
        rows = with_prefix(cursor, INCARNATION.pack(incarnation))
        parsed = ((key, parse_location(key, row)) for key, row in rows if not is_inline(row))
        return [(key, *located) for key, located in parsed if located]
