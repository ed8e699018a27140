"""Segments: the bytes of a stream in plain files, which can be copied and decoded without this program.

A segment begins with the packed identity of its stream, followed by chunks, each with its index and its checksums. A
row of the base has the location of each chunk. Bytes behind the last located chunk come from a checkpoint that a crash
interrupted; the next write overwrites them. Segments are synced before the base refers to them.
"""

import errno
import re
import zlib
from collections import OrderedDict
from collections.abc import Collection, Iterator
from contextlib import closing, suppress
from pathlib import Path
from struct import Struct

from everbrook.protocol.state import Identity
from everbrook.storage.base_rows import PLACE, UNREADABLE
from everbrook.storage.chunk import (
    Chunk,
    Location,
    block_checksums,
    checksums_bytes,
    damaged_block,
    pack_index,
    unpack_index,
)
from everbrook.storage.codec import Unpacker, pack_identity, unpack_identity
from everbrook.storage.disk import Disk, File, Reader
from everbrook.storage.hold import ABSENT, Hold
from everbrook.storage.manifest import SEGMENTS, nested

SEGMENT_MAGIC, CHUNK_MAGIC = b"EBS2", b"EBC2"
SEGMENT_HEADER = Struct("<4sII")
"""Magic, checksum of all that follows, length of the identity that follows."""
CHUNK_HEADER = Struct("<4sIQII")
"""Magic, checksum of the rest up to the end of the index, first offset, length of the index, length of the data."""
CHECKED_FROM = 8

_LENGTH = Struct("<I")
_NAME = re.compile(r"([0-9a-f]{16})-(\d{16})\.log\Z")


def segment_path(folder: Path, incarnation: int, segment: int) -> Path:
    """Return the path of the segment of a stream that begins at offset `segment`."""
    return nested(folder, incarnation) / f"{incarnation:016x}-{segment:016d}.log"


def parse_segment_name(name: str) -> tuple[int, int] | None:
    """Parse the name of a segment file: incarnation and first offset. None: it is the name of another file."""
    parts = _NAME.match(name)
    return (int(parts[1], 16), int(parts[2])) if parts else None


def pack_segment_header(identity: Identity) -> bytes:
    packed = pack_identity(identity)
    checked = _LENGTH.pack(len(packed)) + packed
    return SEGMENT_MAGIC + _LENGTH.pack(zlib.crc32(checked)) + checked


def parse_segment_header(data: bytes) -> Identity | None:
    """Parse the identity at the beginning of a segment. None: it is damaged."""
    if len(data) < SEGMENT_HEADER.size:
        return None
    magic, checksum, length = SEGMENT_HEADER.unpack_from(data)
    checked = data[CHECKED_FROM : SEGMENT_HEADER.size + length]
    if magic != SEGMENT_MAGIC or len(checked) < _LENGTH.size + length or zlib.crc32(checked) != checksum:
        return None
    with suppress(*UNREADABLE):
        return unpack_identity(Unpacker(checked, _LENGTH.size))
    return None


def pack_chunk(key: bytes, index: bytes, data: bytes, checksums: bytes) -> tuple[bytes, int]:
    """Pack a chunk with its packed index for a segment. Returns its bytes, and the position of the data in them."""
    fields = CHUNK_HEADER.pack(CHUNK_MAGIC, 0, PLACE.unpack(key)[1], len(index), len(data))[CHECKED_FROM:]
    checksum = zlib.crc32(index, zlib.crc32(fields, zlib.crc32(key)))
    head = CHUNK_MAGIC + _LENGTH.pack(checksum) + fields + index
    return b"".join((head, data, checksums)), len(head)


def parse_chunk(data: bytes, position: int, incarnation: int) -> tuple[Chunk, int] | None:
    """Parse the chunk at a position of a segment. Returns it and its end; None if no undamaged chunk begins there."""
    if position + CHUNK_HEADER.size > len(data):
        return None
    magic, checksum, start, index_bytes, length = CHUNK_HEADER.unpack_from(data, position)
    key, begin = PLACE.pack(incarnation, start), position + CHUNK_HEADER.size + index_bytes
    checked = data[position + CHECKED_FROM : begin]
    end = chunk_end(Location(0, begin, length))
    if magic != CHUNK_MAGIC or end > len(data) or zlib.crc32(checked, zlib.crc32(key)) != checksum:
        return None
    payload = data[begin : begin + length]
    if damaged_block(key, payload, 0, data[begin + length : end]) is not None:
        return None
    return Chunk(start, payload, unpack_index(checked[CHUNK_HEADER.size - CHECKED_FROM :], start)), end


class Segments:
    """The segments of a store: read by the thread that owns the streams, written by checkpoints."""

    def __init__(
        self, disk: Disk, folder: Path, hold: Hold, *, max_bytes: int, max_open: int, used: bool = True
    ) -> None:
        """Use the segments below the folder of a store. `hold` is notified before a write to one of them.

        `used`: full chunks are written to segments.
        """
        self._disk = disk
        self._hold = hold
        self.folder = folder / SEGMENTS
        self._max_bytes = max_bytes
        self._max_open = max_open
        self.used = used
        self._open: OrderedDict[Path, Reader] = OrderedDict()
        self._made: set[Path] = set()

    def read(self, incarnation: int, location: Location, start: int, end: int) -> bytes:
        """Read a range of a chunk; less if the file is shorter. Raises `FileNotFoundError` if the file is missing."""
        path = segment_path(self.folder, incarnation, location.segment)
        reader = self._open.get(path)
        if reader is None:
            reader = self._open[path] = self._disk.reader(path)
            if len(self._open) > self._max_open:
                self._open.popitem(last=False)[1].close()
        else:
            self._open.move_to_end(path)
        return reader.read_at(location.position + start, end - start)

    def place(self, incarnation: int, location: Location, start: int) -> str:
        """Return the place of a byte of a chunk, for an error message."""
        path = segment_path(self.folder, incarnation, location.segment)
        return f"{SEGMENTS}/{path.parent.name}/{path.name} at byte {location.position + start}"

    def writer(self) -> "SegmentWriter":
        """Return a writer for one checkpoint."""
        return SegmentWriter(self._disk, self.folder, self._hold, self._max_bytes, self._max_open, self._made)

    def files(self, incarnations: Collection[int] | None) -> Iterator[tuple[int, int]]:
        """Yield the existing segments of some streams, or of all (None): their incarnations and first offsets."""
        streams = {f"{n:02x}": None for n in range(256)} if incarnations is None else {}
        for incarnation in incarnations or ():
            streams.setdefault(segment_path(self.folder, incarnation, 0).parent.name)
        for folder in streams:
            with suppress(FileNotFoundError):
                for parts in filter(None, map(parse_segment_name, self._disk.names(self.folder / folder))):
                    if incarnations is None or parts[0] in incarnations:
                        yield parts

    def sync_folders(self, segments: list[tuple[int, int]]) -> None:
        """Return when the removal of segments is durable."""
        for folder in {segment_path(self.folder, *each).parent for each in segments}:
            self._disk.sync_folder(folder)

    def forget(self, incarnation: int, segment: int) -> None:
        reader = self._open.pop(segment_path(self.folder, incarnation, segment), None)
        if reader:
            reader.close()

    @property
    def open_files(self) -> int:
        """How many files are open."""
        return len(self._open)

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()


class SegmentWriter:
    """Writes chunks to segments, and syncs them."""

    def __init__(self, disk: Disk, folder: Path, hold: Hold, max_bytes: int, max_open: int, made: set[Path]) -> None:
        self._disk = disk
        self._folder = folder
        self._hold = hold
        self._max_bytes = max_bytes
        self._max_open = max_open
        self._made = made
        self._files: dict[Path, File] = {}
        self._folders: set[Path] = set()
        self._created: list[Path] = []

    def write(self, identity: Identity, chunk: Chunk, last: Location | None) -> tuple[Location, bytes]:
        """Write a chunk after the last one of its stream. Returns its location and its checksums."""
        key = PLACE.pack(identity.incarnation, chunk.start)
        checksums = block_checksums(key, chunk.data)
        packed, data_from = pack_chunk(key, pack_index(chunk.index), chunk.data, checksums)
        segment, end = (last.segment, chunk_end(last)) if last else (chunk.start, 0)
        if end + len(packed) > self._max_bytes:
            # The first offset is a name that was never used: the file of a removed segment may still exist.
            segment, end = chunk.start, 0
        header = pack_segment_header(identity)
        if end and not self._holds(segment_path(self._folder, identity.incarnation, segment), header, segment):
            # The segment is lost, or another file has its name, so the stream is damaged before this chunk. Begin a new
            # segment, and do not touch the other file: a repair of another stream may need it.
            segment, end = chunk.start, 0
        file = self._file(segment_path(self._folder, identity.incarnation, segment), begun=bool(end))
        if not end:
            file.write_at(0, header)
            end = len(header)
        file.write_at(end, packed)
        return Location(segment, end + data_from, len(chunk.data)), checksums

    def _holds(self, path: Path, header: bytes, segment: int) -> bool:
        """Return whether a file begins with the identity of a stream and with the chunk that its name says."""
        if path in self._files:
            return True
        try:
            begin = self._disk.read(path, 0, len(header) + CHUNK_HEADER.size)
        except OSError as error:
            if error.errno in {errno.ENOENT, errno.EIO}:
                return False
            raise
        if not begin.startswith(header) or len(begin) < len(header) + CHUNK_HEADER.size:
            return False
        magic, _, start, _, _ = CHUNK_HEADER.unpack_from(begin, len(header))
        return bool(magic == CHUNK_MAGIC and start == segment)

    def _file(self, path: Path, *, begun: bool) -> File:
        file = self._files.get(path)
        if file is None:
            while len(self._files) >= self._max_open:
                self._finish(next(iter(self._files)))
            if path.parent not in self._made:
                self._disk.make_folder(path.parent)
                self._made.add(path.parent)
            # A failed checkpoint may have left the file. Nothing refers to it, so it is overwritten.
            exists = begun or path.name in self._disk.names(path.parent)
            if not exists:
                self._hold.note(path, ABSENT)
                self._created.append(path)
            file = self._files[path] = self._disk.open(path) if exists else self._disk.create(path)
            # Before the first write: a pin that exists now reads the file up to this length.
            self._hold.note(path, file.size)
            if not begun:
                self._folders.add(path.parent)
        return file

    def sync(self) -> None:
        """Return when all chunks are on the disk, and close the files."""
        while self._files:
            self._finish(next(iter(self._files)))
        for folder in self._folders:
            self._disk.sync_folder(folder)
        # From here on `abandon` must not remove the new files: the base may refer to them even after a failed commit.
        self._created.clear()

    def _finish(self, path: Path) -> None:
        with closing(self._files.pop(path)) as file:
            file.sync()

    def abandon(self) -> None:
        """Close the files after an error, and remove the new ones: the base does not refer to them."""
        while self._files:
            self._files.popitem()[1].close()
        for path in self._created:
            with suppress(OSError):
                self._hold.remove(path, later=False)


def chunk_end(location: Location) -> int:
    """Return the end of a chunk, which is that of its checksums."""
    return location.position + location.length + checksums_bytes(location.length)
