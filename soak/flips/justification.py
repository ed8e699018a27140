"""What damage justifies: which streams may have lost something, and which of their bytes.

The damaged files are compared with those before, byte by byte. Whatever a store reports beyond that is more loss than
there is; whatever it does not report within that is silence.
"""

from pathlib import Path

import lmdb
from msgspec import Struct

from everbrook.storage.base_rows import INCARNATION, PLACE, Database
from everbrook.storage.chunk import BLOCK_BYTES, inline_parts, is_inline, parse_location
from everbrook.storage.file_blobs import parse_blob_name
from everbrook.storage.journal_scan import LogFile, parse_log_file
from everbrook.storage.lmdb_pages import problem_of
from everbrook.storage.manifest import MANIFEST, parse_manifest
from everbrook.storage.record import Record
from everbrook.storage.segments import segment_path
from soak.flips.damage import BASE, BLOB, JOURNAL, SEGMENT, Damaging
from soak.flips.ledger import State
from soak.flips.workload import StoreImage

PAGE_BYTES, HEADER_BYTES = 4096, 16
Rows = dict[tuple[bytes, bytes], bytes]
"""The rows of the base: by the names of their databases and their keys."""
Ranges = dict[int, list[tuple[int, int]]]
"""Ranges of offsets, by the incarnations of their streams."""


class Justified(Struct):
    """What a damaged store may say."""

    anything: bool = False
    """The tree of LMDB is damaged: nobody knows which rows are lost, but each must be said to be."""
    refusal: bool = False
    """It may not open."""
    streams: set[int] = set()
    """The streams that may be damaged."""
    names: set[bytes] = set()
    """The names that may be damaged."""
    blocks: Ranges = {}
    """The bytes that may be unreadable, of streams of which nothing else is."""
    blobs: set[tuple[int, int]] = set()
    first_state: int = 0
    """The earliest state that may be shown, as a whole, because all that proves a later one is gone."""

    def allows(self, incarnation: int) -> bool:
        """Tell whether a stream may be damaged."""
        return self.anything or incarnation in self.streams or incarnation in self.blocks


def justify(image: StoreImage, damaged: Path, damaging: Damaging) -> Justified:
    """Compare a damaged store with the image that it was made of."""
    justified = Justified(first_state=image.ledger.last)
    if not all((damaged / name).exists() for name in damaging.names if damaging.kind == BASE):
        justified.anything = justified.refusal = True
    elif damaging.kind == JOURNAL:
        _journal(image, damaged, justified)
    elif damaging.kind == SEGMENT:
        _segments(image, damaged, justified)
    elif damaging.kind == BASE:
        _base(image, damaged, justified)
    elif damaging.kind == BLOB:
        for name in damaging.names:
            justified.blobs.add(parse_blob_name(Path(name).name) or (0, 0))
    return justified


# The journal


def _journal(image: StoreImage, damaged: Path, justified: Justified) -> None:
    salt = parse_manifest((image.folder / MANIFEST).read_bytes()).salt
    files = sorted(filter(None, map(parse_log_file, (image.folder / "journal").iterdir())), key=lambda file: file.use)
    lost: set[int] = set()
    for file in files:
        for item, whole in _items(file, salt, damaged):
            if not whole and not item.seal:
                lost.add(item.number)
    justified.streams = {
        stream for number in lost if number < len(image.ledger.touched) for stream in image.ledger.touched[number]
    }
    if files:
        _erased_end(_items(files[-1], salt, damaged), justified)
        _replaced_blobs(image, justified)


def _items(file: LogFile, salt: int, damaged: Path) -> list[tuple[Record, bool]]:
    """Give the records of a file before it was damaged, and whether each is whole."""
    log, path = file.path.read_bytes(), damaged / "journal" / file.path.name
    now = path.read_bytes() if path.exists() else b""
    items = [item for item in file.scan(log, salt) if isinstance(item, Record)]
    return [(item, now[item.position : item.end] == log[item.position : item.end]) for item in items]


def _erased_end(items: list[tuple[Record, bool]], justified: Justified) -> None:
    """Find the changes that nothing proves any more: a crash that cut their group off would look the same."""
    proven = max((item.number if item.seal else item.durable for item, whole in items if whole), default=0)
    for item, whole in items:
        if not whole and not item.seal and item.number > proven:
            justified.first_state = min(justified.first_state, item.number - 1)


def _replaced_blobs(image: StoreImage, justified: Justified) -> None:
    """Find the blobs that an earlier state needs and the last one does not: they were removed, as they had to be."""
    earlier = image.ledger.states[justified.first_state : -1]
    justified.blobs = {blob for state in earlier for blob in _blobs_of(state)} - _blobs_of(image.ledger.state)


def _blobs_of(state: State) -> set[tuple[int, int]]:
    snapshots = (stream.head.kept.snapshot for stream in state.values())
    return {(snapshot.owner, snapshot.blob) for snapshot in snapshots if snapshot and snapshot.blob}


# Segments


def _segments(image: StoreImage, damaged: Path, justified: Justified) -> None:
    for (database, key), row in rows_of(image.folder).items():
        if database != Database.CHUNKS or is_inline(row):
            continue
        incarnation, start = PLACE.unpack(key)
        located = parse_location(key, row)
        if located is None:
            continue
        location = located[0]
        name = segment_path(Path("streams"), incarnation, location.segment)
        before = (image.folder / name).read_bytes()
        now = (damaged / name).read_bytes() if (damaged / name).exists() else b""
        for block in range(0, location.length, BLOCK_BYTES):
            end = min(location.length, block + BLOCK_BYTES)
            place = slice(location.position + block, location.position + end)
            if before[place] != now[place]:
                justified.blocks.setdefault(incarnation, []).append((start + block, start + end))


# The base


def rows_of(folder: Path) -> Rows:
    """Read every row of the base of a store that is not open. LMDB may end the process over a damaged page."""
    rows: Rows = {}
    with lmdb.open(str(folder / "base"), readonly=True, lock=False, create=False, max_dbs=16) as env:
        with env.begin() as transaction:
            names = [bytes(name) for name, _ in transaction.cursor()]
        databases = [(name, env.open_db(name, create=False)) for name in names]
        with env.begin() as transaction:
            for name, database in databases:
                count = transaction.stat(database)["entries"]
                for key, row in transaction.cursor(database):
                    rows[name, bytes(key)] = bytes(row)
                    count -= 1
                    if count < 0 or transaction.get(key, db=database) is None:
                        raise lmdb.CorruptedError("more rows than there are, or one that is not found")
                if count:
                    raise lmdb.CorruptedError("fewer rows than there are")
    return rows


def _base(image: StoreImage, damaged: Path, justified: Justified) -> None:
    before = rows_of(image.folder)
    # The list of free pages and the headers of pages are no rows, and LMDB writes to the pages that they name.
    justified.anything = _other_headers(image, damaged)
    justified.refusal = justified.anything or problem_of(damaged / "base/data.mdb") is not None
    try:
        now = rows_of(damaged)
    except (lmdb.Error, OSError):
        justified.anything = justified.refusal = True
        return
    if before.keys() != now.keys():
        # A key is damaged, or a page lies elsewhere.
        justified.anything = justified.refusal = True
    for (database, key), row in before.items():
        if now.get((database, key)) == row:
            continue
        if database == Database.META:
            justified.refusal = True
        elif database == Database.NAMES:
            justified.names.add(key)
        elif database == Database.CHUNKS:
            _chunk(key, row, now.get((database, key), b""), justified)
        elif database != Database.REMOVALS:
            justified.streams.update(number for (number,) in INCARNATION.iter_unpack(key[:8]))
            if database not in (Database.INDEXES, b"producers", b"streams"):
                justified.streams.update(PLACE.unpack(key) if len(key) == PLACE.size else ())


def _other_headers(image: StoreImage, damaged: Path) -> bool:
    """Tell whether the header of a page differs."""
    before, now = (image.folder / "base/data.mdb").read_bytes(), (damaged / "base/data.mdb").read_bytes()
    pages = range(0, len(before), PAGE_BYTES)
    return any(before[page : page + HEADER_BYTES] != now[page : page + HEADER_BYTES] for page in pages)


def _chunk(key: bytes, before: bytes, now: bytes, justified: Justified) -> None:
    incarnation, start = PLACE.unpack(key)
    if not is_inline(before) or len(before) != len(now) or not is_inline(now):
        justified.streams.add(incarnation)
        return
    (data, checksums), (other, other_checksums) = inline_parts(before), inline_parts(now)
    for block in range(0, len(data), BLOCK_BYTES):
        place, checksum = (
            slice(block, block + BLOCK_BYTES),
            slice(block // BLOCK_BYTES * 4, block // BLOCK_BYTES * 4 + 4),
        )
        if data[place] != other[place] or checksums[checksum] != other_checksums[checksum]:
            justified.blocks.setdefault(incarnation, []).append(
                (start + block, start + min(len(data), block + BLOCK_BYTES))
            )
