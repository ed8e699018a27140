"""Checking segments: that the chunks in the files are those that the base locates, and which files it does not know."""

from pathlib import Path

from everbrook.protocol.state import Identity
from everbrook.storage.check.base_reader import BaseReader
from everbrook.storage.check.report import Notebook
from everbrook.storage.chunk import BLOCK_BYTES, Chunk, Location, damaged_block, unpack_index
from everbrook.storage.disk import OsDisk, Reader
from everbrook.storage.lmdb_base import UNREADABLE, is_removal
from everbrook.storage.manifest import SEGMENTS
from everbrook.storage.rows import PLACE, REMOVALS, place_of
from everbrook.storage.segments import (
    chunk_end,
    pack_chunk,
    parse_segment_header,
    parse_segment_name,
    segment_path,
)


class SegmentCheck:
    """Takes the chunks that are in segments, in the order of their rows, and then looks at the files."""

    def __init__(self, folder: Path, notebook: Notebook) -> None:
        self._store = folder
        self._folder = folder / SEGMENTS
        self._disk = OsDisk()
        self._notebook = notebook
        self._path: Path | None = None
        self._reader: Reader | None = None
        self._ends: dict[tuple[int, int], int] = {}

    def place(self, incarnation: int, location: Location) -> str:
        """Say where a chunk is."""
        path = segment_path(self._folder, incarnation, location.segment)
        return f"{path.relative_to(self._store)} at byte {location.position}"

    def problem_of(
        self, identity: Identity | None, key: bytes, location: Location, checksums: bytes, index: bytes | None
    ) -> tuple[int, str] | None:
        """Compare a chunk with its row. Gives how many of its first bytes are readable, and what the others are."""
        incarnation, start = PLACE.unpack(key)
        self._ends[incarnation, location.segment] = chunk_end(location)
        reader = self._open(incarnation, identity, location)
        if reader is None:
            return 0, "the file is missing"
        data = reader.read_at(location.position, location.length)
        self._notebook.advance(len(data))
        whole = len(data) if len(data) == location.length else len(data) // BLOCK_BYTES * BLOCK_BYTES
        damaged = damaged_block(key, data[:whole], 0, checksums)
        if damaged is not None:
            return damaged, "the checksum of a block is wrong"
        if whole < location.length:
            return whole, "the file is too short"
        if index is not None:
            self._check_copy(reader, key, location, Chunk(start, data, unpack_index(index, start)), checksums)
        return None

    def _check_copy(self, reader: Reader, key: bytes, location: Location, chunk: Chunk, checksums: bytes) -> None:
        """Check what a segment has beside the bytes, for whoever decodes it without the base."""
        packed, data_from = pack_chunk(key, chunk, checksums)
        begin = location.position - data_from
        (incarnation, _), place = PLACE.unpack(key), self.place(PLACE.unpack(key)[0], location)
        if begin < 0 or reader.read_at(begin, len(packed)) != packed:
            problem = "the index or the checksums in the file are not those of the base; the bytes are whole"
            self._notebook.damage(problem, place, (incarnation,))

    def _open(self, incarnation: int, identity: Identity | None, location: Location) -> Reader | None:
        """Open the segment of a chunk, and check its header if it is another one than before."""
        path = segment_path(self._folder, incarnation, location.segment)
        if path != self._path:
            self.close()
            self._path = path
            self._notebook.at(path)
            try:
                self._reader = self._disk.reader(path)
            except OSError:
                return None
            header = self._reader.read_at(0, location.position)
            if identity and not _is_of(header, identity):
                problem = "its header is not that of its stream; the bytes are whole"
                self._notebook.damage(problem, streams=(incarnation,))
        return self._reader

    def check_files(self, base: BaseReader) -> None:
        """Look at the files, when all chunks have been taken. What the base does not refer to, a crash has left."""
        removals: set[tuple[int, int]] = set()
        for key, sealed in base.rows(REMOVALS):
            if not is_removal(key, sealed):
                self._notebook.damage("the row can't be read", place_of(REMOVALS, key))
                continue
            place: tuple[int, int] = PLACE.unpack(key)
            removals.add(place)
            if place in self._ends:
                self._notebook.damage(f"segment {place[1]} of stream {place[0]:016x} is to be removed, and has chunks")
        left = behind = unknown = 0
        for path in sorted(path for path in self._folder.rglob("*") if path.is_file()):
            parts = parse_segment_name(path.name)
            if parts is None or path != segment_path(self._folder, *parts):
                unknown += 1
            elif parts in self._ends:
                behind += path.stat().st_size > self._ends[parts]
            else:
                left += parts not in removals
        if left:
            self._notebook.remark(f"{left} segments hold nothing that the base refers to; a crash has left them")
        if behind:
            self._notebook.remark(
                f"{behind} segments go on behind what the base refers to: a checkpoint was not finished, and the next "
                "one writes over it"
            )
        if unknown:
            self._notebook.remark(f"{unknown} files in {SEGMENTS}/ are no segments")

    def close(self) -> None:
        """Close the file that was read last."""
        if self._reader:
            self._reader.close()
        self._reader = self._path = None


def _is_of(header: bytes, identity: Identity) -> bool:
    """Tell whether the header of a segment is that of a stream. Its source may have got another incarnation since."""
    try:
        found = parse_segment_header(header)
    except UNREADABLE:
        return False
    return found is not None and (found.name, found.incarnation, found.content_type, found.created_at) == (
        identity.name,
        identity.incarnation,
        identity.content_type,
        identity.created_at,
    )
