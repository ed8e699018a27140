"""The catalogue: a log of which streams there are. A creation or a drop counts when its record here does.

What a change writes into the logs of streams is on the disk before its record here is: so changes over several streams,
and a fork together with the bytes it inherits, are there entirely or not at all. A change that also writes to streams
that exist already is put here whole, before it goes into their logs, and is done again by the next opening.

Every opening begins a file, `catalogue-<generation>-<file>.log`, whose first record is a snapshot. Numbers of records
carry the generation in their upper bits, so that none is ever used twice, not even by a record that was cut off. If the
file is lost or damaged, the logs of the streams are read to make it anew.
"""

import re
from pathlib import Path
from struct import Struct

from msgspec import Struct as Value
from msgspec.structs import replace

from everbrook.protocol.change import Change, Edit, Write
from everbrook.protocol.content_type import DEFAULT_CONTENT_TYPE
from everbrook.protocol.state import Head, Identity
from everbrook.storage.disk import Disk, File
from everbrook.storage.files.beginnings import Beginnings
from everbrook.storage.files.damage import Damage
from everbrook.storage.files.entries import Entries
from everbrook.storage.files.handles import Syncer
from everbrook.storage.files.log import first_record, proves_loss
from everbrook.storage.packing import KIND, Unpacker, pack_edit, unpack_edit
from everbrook.storage.record import Record, frame, log_header, record_at

SNAPSHOT, COMMIT, JOINT, CLOSED, BEGINNINGS = 0x10, 0x11, 0x12, 0x13, 0x14
GENERATION_SHIFT = 40
DOUBTS = Struct("<QQ")

_NAME = re.compile(r"catalogue-(\d{8})-(\d{8})\.log")


class Doubts(Value, frozen=True):
    """From which times something can be read that may not be on the disk: generations before these."""

    ends: int = 0
    """The last group of a log may not be, for its process may have ended before the sync."""
    logs: int = 0
    """Nothing of a log may be, for it was written in the fast mode."""


class Contents(Value):
    """What a catalogue said when it was opened."""

    entries: Entries
    generation: int = 0
    salt: int = 0
    doubts: Doubts = Doubts()
    clean: bool = True
    """Whether it was closed, with nothing left to do."""
    joint: list[tuple[int, Change]] = []


class CatalogueFile(Value, frozen=True):
    """Which file a catalogue is in."""

    path: Path
    generation: int
    number: int


def is_joint(change: Change) -> bool:
    """Tell whether a change writes to a stream that exists already, and does something else beside it."""
    return len(change) > 1 and any(isinstance(edit, Write) and not edit.created for edit in change)


def pack_commit(change: Change) -> bytes:
    """Write a change, without what the logs of its streams hold."""
    return KIND.pack(COMMIT) + b"".join(pack_edit(_bare(edit)) for edit in change)


def _bare(edit: Edit) -> Edit:
    if isinstance(edit, Write):
        return replace(edit, data=b"", ends=(), producer_id=None, producer=None, forgotten=())
    return edit


def pack_joint(change: Change) -> bytes:
    """Write a change with everything in it."""
    return KIND.pack(JOINT) + b"".join(pack_edit(_entire(edit)) for edit in change)


def _entire(edit: Edit) -> Edit:
    """Let a write say what its stream keeps of its past: what came before may be lost when it is done again."""
    return replace(edit, cut=True) if isinstance(edit, Write) and not edit.created else edit


def _unpack_change(body: bytes) -> Change:
    unpacker = Unpacker(body, KIND.size)
    edits: list[Edit] = []
    while not unpacker.done:
        edits.append(unpack_edit(unpacker, nameless))
    return tuple(edits)


def nameless(incarnation: int) -> Head:
    """Stand for the head of a stream, where only its number counts."""
    return Head(Identity(b"", incarnation, DEFAULT_CONTENT_TYPE, DEFAULT_CONTENT_TYPE, 0), 0, 0)


def catalogue_files(disk: Disk, folder: Path) -> list[CatalogueFile]:
    """Find the files of a catalogue, the newest last."""
    matches = [match for name in disk.names(folder) if (match := _NAME.fullmatch(name))]
    return [CatalogueFile(folder / match[0], int(match[1]), int(match[2])) for match in matches]


def read_catalogue(disk: Disk, file: CatalogueFile) -> Contents:
    """Read a catalogue. What was torn off its end was never acknowledged; `Damage` tells of anything else."""
    data = disk.read(file.path)
    found = first_record(data)
    if found is None or found[1].body[0] != SNAPSHOT:
        raise Damage(file.path, 0)
    salt, record = found
    doubts = Doubts(*DOUBTS.unpack_from(record.body, KIND.size))
    entries = Entries.unpack(record.body[KIND.size + DOUBTS.size :])
    contents = Contents(entries, file.generation, salt, doubts, clean=False)
    while following := record_at(data, record.end, salt):
        if following.synced > record.number:
            raise Damage(file.path, record.end)
        record = following
        _replay(contents, record)
    if proves_loss(data, record.end, salt, record.number):
        raise Damage(file.path, record.end)
    return contents


def _replay(contents: Contents, record: Record) -> None:
    kind = record.body[0]
    contents.clean = kind == CLOSED
    if kind in {COMMIT, JOINT}:
        change = _unpack_change(record.body)
        contents.entries.apply(change)
        if kind == JOINT:
            contents.joint.append((record.number, change))
    elif kind == BEGINNINGS:
        contents.entries.beginnings.take(record.body[KIND.size :])


class Catalogue:
    """The catalogue of an open store, for writing."""

    def __init__(self, disk: Disk, folder: Path, salt: int, syncer: Syncer) -> None:
        self._disk = disk
        self._folder = folder
        self._salt = salt
        self._syncer = syncer
        self._file: File | None = None
        self._at = CatalogueFile(folder, 0, 0)
        self._last = 0
        self._synced = 0
        self._snapshot_bytes = 0

    @property
    def begun(self) -> bool:
        """Whether it can be written to."""
        return self._file is not None

    @property
    def size(self) -> int:
        """How many bytes the file holds."""
        return self._file.size if self._file else 0

    @property
    def grown(self) -> int:
        """How much larger the file is than the snapshot that it began with."""
        return self.size - self._snapshot_bytes

    def begin(self, entries: Entries, generation: int, doubts: Doubts, number: int) -> None:
        """Begin a file with a snapshot. It takes the place of the one before when it is whole."""
        old = catalogue_files(self._disk, self._folder)
        following = max((file.number for file in old), default=0) + 1
        path = self._folder / f"catalogue-{generation:08d}-{following:08d}.log"
        body = KIND.pack(SNAPSHOT) + DOUBTS.pack(doubts.ends, doubts.logs) + entries.pack()
        file = self._write_aside(body, path, number)
        entries.beginnings.moved = False
        if self._file:
            self._file.close()
        self._file, self._at = file, CatalogueFile(path, generation, following)
        self._last = self._synced = number
        self._snapshot_bytes = file.size
        for each in old:
            self._disk.remove(each.path)

    def _write_aside(self, body: bytes, path: Path, number: int) -> File:
        draft = path.with_suffix(".new")
        if draft.name in self._disk.names(self._folder):
            self._disk.remove(draft)
        file = self._disk.create(draft)
        try:
            file.write(log_header(self._salt, number) + frame(self._salt, number, number, body))
        except OSError:
            file.close()
            self._disk.remove(draft)
            raise
        # Always: it takes the place of one that may be all that is left of an acknowledged deletion.
        self._syncer.sync([file], always=True)
        self._disk.rename(draft, path)
        self._syncer.sync(folders=[self._folder], always=True)
        return file

    def renew(self, number: int) -> None:
        """Begin a new file with a snapshot of what this one says."""
        contents = read_catalogue(self._disk, self._at)
        self.begin(contents.entries, contents.generation, contents.doubts, number)

    def append(self, records: list[tuple[int, bytes]]) -> None:
        """Add records. They must be synced before anything else is done."""
        if self._file and records:
            self._file.write(b"".join(frame(self._salt, number, self._synced, body) for number, body in records))
            self._last = records[-1][0]

    def sync(self) -> None:
        """Return when what was added is on the disk."""
        if self._file:
            self._syncer.sync([self._file])
        self._synced = self._last

    def mark(self) -> tuple[int, int]:
        """Give what `cut` needs to come back to where the catalogue is now."""
        return self.size, self._last

    def cut(self, mark: tuple[int, int]) -> None:
        """Take back what was added since."""
        size, self._last = mark
        if self._file:
            self._file.truncate(size)
            self.sync()

    def close(self, number: int, beginnings: Beginnings, *, clean: bool) -> None:
        """Let the file go. It is clean if nothing is left to do for the next opening."""
        if self._file is None:
            return
        try:
            if clean:
                moved = [(number, KIND.pack(BEGINNINGS) + beginnings.pack())] if beginnings.moved else []
                self.append([*moved, (number, KIND.pack(CLOSED))])
                self.sync()
        finally:
            self._file.close()
            self._file = None
