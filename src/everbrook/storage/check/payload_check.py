"""The check of the payload: the chunks of each stream must verify, be contiguous up to its tail, and fit their indexes.

The chunks in segments are compared with the rows that locate them. Files without such a row are counted. The snapshot
of every stream must have its size and its digest.
"""

from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

from everbrook.protocol.errors import quoted
from everbrook.protocol.state import Head, Identity, Snapshot
from everbrook.storage.base_rows import INCARNATION, PLACE, Database, is_removal, place_of
from everbrook.storage.check.base_reader import BaseReader
from everbrook.storage.check.report import Findings
from everbrook.storage.chunk import (
    BLOCK_BYTES,
    Location,
    chunk_length,
    damaged_block,
    inline_parts,
    is_inline,
    parse_location,
    unpack_extent,
    unpack_index,
)
from everbrook.storage.damage import Damaged
from everbrook.storage.disk import OsDisk, Reader
from everbrook.storage.file_blobs import BLOBS, FileBlobs, blob_file_bytes, blob_path
from everbrook.storage.hold import Hold
from everbrook.storage.manifest import SEGMENTS
from everbrook.storage.segments import (
    chunk_end,
    pack_chunk,
    parse_segment_header,
    parse_segment_name,
    segment_path,
)

READ_BYTES = 1 << 20

ReportDamage = Callable[[int, int, str, str], None]
"""Called with a damaged stream, the offset from which on it is unreadable, the reason and the place."""


class ChunkProgress(Struct):
    """The progress of the check of a stream's chunks."""

    incarnation: int
    head: Head | None
    end: int
    over: tuple[int, int] = (0, 0)
    """The rest of an append that continues in the next chunk, and its time."""


class ChunkCheck:
    """Checks the chunks of all streams, in the base and in segments."""

    def __init__(self, folder: Path, base: BaseReader, findings: Findings, report_damage: ReportDamage) -> None:
        self._base = base
        self._findings = findings
        self._report_damage = report_damage
        self._segments = SegmentCheck(folder, findings)

    def run(self) -> None:
        """Check all chunks, all indexes, and then the files of the segments."""
        progress: ChunkProgress | None = None
        for key, row in self._base.rows(Database.CHUNKS):
            if len(key) != PLACE.size:
                self._findings.damage("the row can't be read", place_of(Database.CHUNKS, key))
                continue
            incarnation, start = PLACE.unpack(key)
            if progress is None or progress.incarnation != incarnation:
                self._check_tail(progress)
                progress = ChunkProgress(incarnation, self._base.head(incarnation), start)
                if progress.head is None and self._base.get(Database.STREAMS, INCARNATION.pack(incarnation)) is None:
                    self._findings.damage(f"its stream {incarnation:016x} is missing", place_of(Database.CHUNKS, key))
            self._check_chunk(progress, key, row)
        self._check_tail(progress)
        self._check_indexes()
        self._segments.check_files(self._base)

    def _check_chunk(self, progress: ChunkProgress, key: bytes, row: bytes) -> None:
        incarnation, start = PLACE.unpack(key)
        place, length, index = (
            place_of(Database.CHUNKS, key),
            chunk_length(row),
            self._base.sealed(Database.INDEXES, key),
        )
        if start != progress.end:
            self._report_damage(incarnation, min(start, progress.end), f"a chunk should begin at {progress.end}", place)
        # The next chunk is expected behind this one, so that a gap is reported once.
        progress.end = start + length
        problem = index_problem(index, start, length, progress)
        if problem:
            self._report_damage(
                incarnation, start, f"its index does not fit it: {problem}", place_of(Database.INDEXES, key)
            )
            index = None
        if is_inline(row):
            data, checksums = inline_parts(row)
            damaged = damaged_block(key, data, 0, checksums)
            if damaged is not None:
                self._report_damage(incarnation, start + damaged, "the checksum of a block is wrong", place)
            return
        located = parse_location(key, row)
        if located is None:
            self._report_damage(incarnation, start, "the row of a chunk can't be read", place)
            return
        identity = progress.head.identity if progress.head else None
        found = self._segments.problem_of(identity, key, *located, index)
        if found:
            self._report_damage(incarnation, start + found[0], found[1], self._segments.place(incarnation, located[0]))

    def _check_tail(self, progress: ChunkProgress | None) -> None:
        if progress and progress.head and progress.end != progress.head.tail:
            reason = f"its bytes end at {progress.end}, its tail is {progress.head.tail}"
            place = place_of(Database.STREAMS, INCARNATION.pack(progress.incarnation))
            self._report_damage(progress.incarnation, min(progress.end, progress.head.tail), reason, place)

    def _check_indexes(self) -> None:
        for key, _ in self._base.rows(Database.INDEXES):
            if self._base.get(Database.CHUNKS, key) is None:
                self._findings.damage("an index without its chunk", place_of(Database.INDEXES, key))

    def close(self) -> None:
        self._segments.close()


def index_problem(packed: bytes | None, start: int, size: int, progress: ChunkProgress) -> str | None:
    """Return the problem of the index of a chunk of `size` bytes that begins at `start`, or None."""
    over, progress.over = progress.over, (0, 0)
    if packed is None or unpack_extent(packed) is None:
        return "it is missing or can't be read"
    index = unpack_index(packed, start)
    before = start - index.base
    messages, appends = ([end - before for end in ends] for ends in (index.messages, index.appends))
    times = list(index.times)
    if len(appends) != len(times):
        return "its counts do not add up"
    if messages[0] < 1 or messages[-1] != size or not _rising(messages):
        return "its messages do not fill the chunk"
    if not _rising(appends) or appends[-1] < size or not set(appends[:-1]) <= set(messages):
        return "its appends do not end where messages do"
    if over[0] and (appends[0], times[0]) != over:
        return "it does not continue the append before it"
    if appends[-1] > size:
        progress.over = (appends[-1] - size, times[-1])
    return None


def _rising(ends: list[int]) -> bool:
    return all(before < after for before, after in pairwise(ends))


class SegmentCheck:
    """Checks the chunks that are in segments, in the order of their rows, and then the list of files."""

    def __init__(self, folder: Path, findings: Findings) -> None:
        self._store = folder
        self._folder = folder / SEGMENTS
        self._disk = OsDisk()
        self._findings = findings
        self._path: Path | None = None
        self._reader: Reader | None = None
        self._ends: dict[tuple[int, int], int] = {}

    def place(self, incarnation: int, location: Location) -> str:
        path = segment_path(self._folder, incarnation, location.segment)
        return f"{path.relative_to(self._store)} at byte {location.position}"

    def problem_of(
        self, identity: Identity | None, key: bytes, location: Location, checksums: bytes, index: bytes | None
    ) -> tuple[int, str] | None:
        """Compare a chunk with its row. Returns the number of readable bytes and the problem behind them, or None."""
        incarnation, _ = PLACE.unpack(key)
        self._ends[incarnation, location.segment] = chunk_end(location)
        reader = self._open(incarnation, identity, location)
        if reader is None:
            return 0, "the file is missing"
        data = reader.read_at(location.position, location.length)
        self._findings.advance(len(data))
        # If the file ends inside the chunk, only the blocks before its end can be verified.
        whole = len(data) if len(data) == location.length else len(data) // BLOCK_BYTES * BLOCK_BYTES
        damaged = damaged_block(key, data[:whole], 0, checksums)
        if damaged is not None:
            return damaged, "the checksum of a block is wrong"
        if whole < location.length:
            return whole, "the file is too short"
        if index is not None:
            self._check_copy(reader, key, location, pack_chunk(key, index, data, checksums))
        return None

    def _check_copy(self, reader: Reader, key: bytes, location: Location, chunk: tuple[bytes, int]) -> None:
        """Check the copies of index and checksums in a segment, with which it can be decoded without the base."""
        packed, data_from = chunk
        begin = location.position - data_from
        (incarnation, _), place = PLACE.unpack(key), self.place(PLACE.unpack(key)[0], location)
        if begin < 0 or reader.read_at(begin, len(packed)) != packed:
            problem = "the index or the checksums in the file are not those of the base; the bytes are whole"
            self._findings.damage(problem, place, (incarnation,))

    def _open(self, incarnation: int, identity: Identity | None, location: Location) -> Reader | None:
        """Open the segment of a chunk, unless it is open, and check its header."""
        path = segment_path(self._folder, incarnation, location.segment)
        if path != self._path:
            self.close()
            self._path = path
            self._findings.at(path)
            try:
                self._reader = self._disk.reader(path)
            except OSError:
                return None
            header = self._reader.read_at(0, location.position)
            if identity and not _is_of(header, identity):
                problem = "its header is not that of its stream; the bytes are whole"
                self._findings.damage(problem, streams=(incarnation,))
        return self._reader

    def check_files(self, base: BaseReader) -> None:
        """Compare the files with the chunks, once all chunks are checked. A crash leaves files without references."""
        removals: set[tuple[int, int]] = set()
        for key, sealed in base.rows(Database.REMOVALS):
            if not is_removal(key, sealed):
                self._findings.damage("the row can't be read", place_of(Database.REMOVALS, key))
                continue
            place: tuple[int, int] = PLACE.unpack(key)
            removals.add(place)
            if place in self._ends:
                self._findings.damage(f"segment {place[1]} of stream {place[0]:016x} is to be removed, and has chunks")
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
            self._findings.remark(f"the base refers to no chunk of {left} segments; a crash has left them")
        if behind:
            self._findings.remark(
                f"{behind} segments have bytes behind the last chunk of the base: a checkpoint was not finished, and "
                "the next one overwrites them"
            )
        if unknown:
            self._findings.remark(f"{unknown} files in {SEGMENTS}/ are no segments")

    def close(self) -> None:
        if self._reader:
            self._reader.close()
        self._reader = self._path = None


def _is_of(header: bytes, identity: Identity) -> bool:
    """Return whether the header of a segment belongs to a stream. The source is not compared: a repair changes it."""
    found = parse_segment_header(header)
    return found is not None and (found.name, found.incarnation, found.content_type, found.created_at) == (
        identity.name,
        identity.incarnation,
        identity.content_type,
        identity.created_at,
    )


class Expected(Struct, frozen=True):
    """A blob that must exist, and the first stream that needs it."""

    name: bytes
    snapshot: Snapshot


class BlobCheck:
    """Collects the blobs that the streams of a store need, and then checks them."""

    def __init__(self, folder: Path, findings: Findings) -> None:
        self._folder = folder / BLOBS
        disk = OsDisk()
        self._blobs = FileBlobs(disk, self._folder, Hold(disk))
        self._findings = findings
        self._expected: dict[tuple[int, int], Expected] = {}
        self._inherited: set[tuple[int, int]] = set()

    def add(self, head: Head) -> None:
        if snapshot := _stored(head.kept.snapshot):
            place = (snapshot.owner, snapshot.blob)
            self._expected.setdefault(place, Expected(head.identity.name, snapshot))
        if snapshot := _stored(head.identity.first_kept.snapshot):
            self._inherited.add((snapshot.owner, snapshot.blob))

    def run(self) -> None:
        """Check the blobs that streams need, and count the others."""
        for (owner, blob), expected in self._expected.items():
            self._check(blob_path(self._folder, owner, blob), expected)
        orphans = 0
        for blobs in self._blobs.all():
            orphans += len(set(blobs) - self._expected.keys() - self._inherited)
        if orphans:
            self._findings.remark(f"{orphans} blobs belong to no snapshot; the next start removes them")

    def _check(self, path: Path, expected: Expected) -> None:
        snapshot = expected.snapshot
        whose = f"the snapshot of stream {quoted(expected.name)} at offset {snapshot.offset}"
        self._findings.at(path)
        try:
            size, expected_bytes = path.stat().st_size, blob_file_bytes(snapshot.size)
            if size != expected_bytes:
                self._findings.damage(f"{whose} is a file of {size} bytes, and should have {expected_bytes}")
            elif self._digest(snapshot) != snapshot.digest:
                self._findings.damage(f"{whose} is not what was published: its SHA-256 is another")
        except FileNotFoundError:
            self._findings.damage(f"{whose} is missing")
        except OSError as error:
            self._findings.damage(f"{whose} can't be read: {error.strerror}")
        except Damaged as damage:
            self._findings.damage(f"{whose} is not what was published: {damage.mark.reason}")

    def _digest(self, snapshot: Snapshot) -> bytes:
        """Read a blob, and return its SHA-256."""
        digest = sha256()
        with closing(self._blobs.open(snapshot.owner, snapshot.blob, snapshot.size)) as reader:
            while data := reader.read(READ_BYTES):
                digest.update(data)
                self._findings.advance(len(data))
        return digest.digest()


def _stored(snapshot: Snapshot | None) -> Snapshot | None:
    """Return a snapshot if it has a blob, or None."""
    return None if snapshot is None or snapshot.automatic else snapshot
