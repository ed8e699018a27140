"""Pins: a consistent view of a store's files, of a store in use at one moment or of a store that no server uses.

The bytes of that moment stay readable until the pin is released.
"""

import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import lmdb
import msgspec

from everbrook.storage.api import PinnedFile
from everbrook.storage.base_rows import DATA
from everbrook.storage.disk import Disk, Lock, OsDisk, OsReader
from everbrook.storage.file_blobs import BLOBS, parse_blob_name
from everbrook.storage.hold import ABSENT, Hold, Lengths
from everbrook.storage.journal import Journal
from everbrook.storage.journal_scan import log_file_name, parse_log_file
from everbrook.storage.lmdb_base import LmdbBase
from everbrook.storage.lmdb_pages import META, PAGE
from everbrook.storage.manifest import (
    BASE,
    JOURNAL,
    MANIFEST,
    SEGMENTS,
    StoreError,
    lock_folder,
    parse_manifest,
    require_kind,
)
from everbrook.storage.segments import parse_segment_name

_PAGE_BYTES, _LAST_PAGE, _TRANSACTION = 4, 13, 14


class OpenFile:
    """A file that a pin keeps open: it remains readable after its removal, and its length is fixed."""

    def __init__(self, disk: Disk, path: Path, size: int) -> None:
        """Open a file, of which the first `size` bytes belong to the pin."""
        self._reader = disk.reader(path)
        self.size = size

    def read(self, start: int, size: int) -> bytes:
        return self._reader.read_at(start, max(0, min(size, self.size - start)))

    def close(self) -> None:
        self._reader.close()


class PinnedBase:
    """The file of an LMDB environment as one read transaction sees it, while checkpoints continue.

    LMDB never overwrites a page that a reader can reach. So the file is read without LMDB, except for its two meta
    pages: those of the transaction are kept in memory. Pages that the transaction can't reach may hold anything.
    """

    def __init__(self, disk: Disk, env: lmdb.Environment, path: Path) -> None:
        """Pin an environment whose file is at `path`. After a `BlockingIOError` the caller must try again."""
        self._reading = env.begin()
        try:
            # LMDB never shortens the file, so this size covers every page of the transaction.
            self._file = OpenFile(disk, path, path.stat().st_size)
        except BaseException:
            self._reading.abort()
            raise
        try:
            self._first = self._first_pages(self._reading.id())
        except BaseException:
            self.close()
            raise
        self.size = min(self._file.size, self._pages * self._page_bytes)

    def _first_pages(self, transaction: int) -> bytes:
        """Return the meta page of this transaction twice: as itself, and as the older meta page that LMDB expects."""
        fields = META.unpack(self._file.read(PAGE.size, META.size))
        self._page_bytes = fields[_PAGE_BYTES]
        place = transaction % 2
        page = self._file.read(place * self._page_bytes, self._page_bytes)
        fields = META.unpack_from(page, PAGE.size)
        if fields[_TRANSACTION] != transaction:
            raise BlockingIOError("two checkpoints ended while the base was being pinned")
        self._pages = fields[_LAST_PAGE] + 1
        pages = [page, page]
        for number in range(2):
            _, *rest = PAGE.unpack_from(page)
            seen = transaction if number == place else max(transaction - 1, 0)
            meta = META.pack(*fields[:_TRANSACTION], seen, *fields[_TRANSACTION + 1 :])
            pages[number] = PAGE.pack(number, *rest) + meta + page[PAGE.size + META.size :]
        return b"".join(pages)

    def read(self, start: int, size: int) -> bytes:
        end = min(start + size, self.size)
        first = self._first[start:end]
        begin = start + len(first)
        return first + self._file.read(begin, end - begin) if begin < end else first

    def close(self) -> None:
        """End the transaction, so that LMDB can reuse its pages."""
        self._reading.abort()
        self._file.close()


def pinned_files(folder: Path, name: str, lengths: Lengths) -> Iterator[tuple[str, PinnedFile]]:
    """Yield the files in a folder as they were at the moment of a pin. `name` is its path below the store's folder."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        # The length is looked up after `stat`: a writer notes it before it writes, so a grown file is in `lengths`.
        size = lengths.get(folder / entry.name, status.st_size)
        if size != ABSENT and entry.is_file(follow_symlinks=False):
            stamp = f"{status.st_ino:x}-{status.st_mtime_ns:x}" if size == status.st_size else ""
            path = f"{name}/{entry.name}" if name else entry.name
            yield entry.name, PinnedFile(path, size, stamp)


def read_part(path: Path, start: int, size: int) -> bytes:
    """Read a part of a file. Fewer bytes are returned only if the file ends."""
    with closing(OsReader(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW))) as reader:
        return reader.read_at(start, size)


def subfolders(folder: Path) -> list[str]:
    """Return the names of the folders in a folder, sorted; none if it is missing."""
    try:
        return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return []


_PINNED_NAME = re.compile(
    rf"(?:{BLOBS}/[0-9a-f]{{2}}/[0-9a-f]{{16}}-[0-9a-f]{{16}}\.blob"
    rf"|{SEGMENTS}/[0-9a-f]{{2}}/[0-9a-f]{{16}}-\d{{16}}\.log)"
)
# An attempt fails only if two checkpoints end while one page is read, so a second one nearly always succeeds.
PIN_ATTEMPTS = 100


class StorePin:
    """A store at one moment: the journal up to what is durable, the base at one transaction, segments and blobs.

    Files that the store removes meanwhile are kept open, or are removed later. Checkpoints continue.
    """

    def __init__(
        self,
        disk: Disk,
        folder: Path,
        store: str,
        journal: Journal,
        base: LmdbBase,
        hold: Hold,
        released: "Callable[[StorePin, list[Path]], None]",
    ) -> None:
        """Pin a store. `released` is called at the release, with the files whose removal was deferred."""
        self.store = store
        self.released = False
        self._disk = disk
        self._folder = folder
        self._released: Callable[[StorePin, list[Path]], None] | None = released
        self._lock = threading.Lock()
        self._hold = hold
        self._open: dict[str, OpenFile | PinnedBase] = {}
        self._lengths = hold.begin()
        # A recycled file would get new records while the pin reads the old ones.
        journal.recycles = False
        try:
            # The journal comes first: a change that a checkpoint takes out of it meanwhile is in the base afterwards.
            self._open[MANIFEST] = OpenFile(disk, folder / MANIFEST, (folder / MANIFEST).stat().st_size)
            self._open_journal(journal)
            self._open[f"{BASE}/{DATA}"] = _pinned_base(disk, base)
            # A checkpoint that ended meanwhile has begun a journal file, still empty, that the pinned base refers to.
            self._open_journal(journal)
            # That checkpoint may have extended segments that the pinned base refers to: forget their earlier lengths.
            self._lengths.clear()
        except BaseException:
            self.release()
            raise

    def _open_journal(self, journal: Journal) -> None:
        known = {name.rsplit("-", 1)[0] for name in self._open}
        for file, size in journal.files:
            name = f"{JOURNAL}/{log_file_name(file.first, file.use, size)}"
            if name.rsplit("-", 1)[0] not in known:
                with suppress(FileNotFoundError):
                    self._open[name] = OpenFile(self._disk, file.path, size)

    def folders(self) -> list[str]:
        nested = [f"{parent}/{name}" for parent in (BLOBS, SEGMENTS) for name in subfolders(self._folder / parent)]
        return ["", BASE, JOURNAL, *nested]

    def files(self, folder: str) -> list[PinnedFile]:
        parent, _, name = folder.partition("/")
        parse = {BLOBS: parse_blob_name, SEGMENTS: parse_segment_name}.get(parent)
        if parse and name and "/" not in name:
            found = pinned_files(self._folder / folder, folder, self._lengths)
            return [file for each, file in found if parse(each)]
        held = {name: file for name, file in self._open.items() if name.rpartition("/")[0] == folder}
        return [PinnedFile(name, file.size) for name, file in sorted(held.items())]

    def read(self, name: str, start: int, size: int) -> bytes:
        with self._lock:
            if file := self._open.get(name):
                return file.read(start, size)
        if not _PINNED_NAME.fullmatch(name):
            raise FileNotFoundError(f"{name} is not a file of this store")
        return read_part(self._folder / name, start, size)

    def release(self) -> None:
        self.released = True
        with self._lock:
            held, self._open = self._open, {}
        for file in held.values():
            file.close()
        if self._released:
            released, self._released = self._released, None
            released(self, self._hold.end(self._lengths))


def _pinned_base(disk: Disk, base: LmdbBase) -> PinnedBase:
    for _ in range(PIN_ATTEMPTS - 1):
        with suppress(BlockingIOError):
            return PinnedBase(disk, base.env, base.folder / DATA)
    return PinnedBase(disk, base.env, base.folder / DATA)


class StillStore:
    """A pin of a store that no server uses. The lock keeps servers away, so the files do not change.

    Locks, the spare file of the journal and the files in `lost+found` are not part of it.
    """

    def __init__(self, folder: Path) -> None:
        """Lock the store in `folder`."""
        if not (folder / MANIFEST).is_file():
            raise StoreError(f"{folder} holds no store: there is no {MANIFEST} in it")
        self._folder = folder
        self.released = False
        self._lock: Lock | None = lock_folder(OsDisk(), folder)
        try:
            manifest = parse_manifest((folder / MANIFEST).read_bytes())
            require_kind(folder, manifest, manifest.mode)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self.release()
            raise StoreError(
                f"{folder / MANIFEST} can't be read: start a server on the store, which restores the file from its copy"
            ) from None
        except BaseException:
            self.release()
            raise
        self.store = manifest.mode

    def folders(self) -> list[str]:
        there = [name for name in (BASE, JOURNAL) if (self._folder / name).is_dir()]
        nested = [f"{parent}/{name}" for parent in (BLOBS, SEGMENTS) for name in subfolders(self._folder / parent)]
        return ["", *there, *nested]

    def files(self, folder: str) -> list[PinnedFile]:
        parent = folder.partition("/")[0]
        found = [file for name, file in pinned_files(self._folder / folder, folder, {}) if _belongs(parent, name)]
        # LMDB and the journal write to files in place, so an unchanged stamp proves nothing.
        return found if parent in {BLOBS, SEGMENTS} else [PinnedFile(file.name, file.size) for file in found]

    def read(self, name: str, start: int, size: int) -> bytes:
        return read_part(self._folder / name, start, size)

    def release(self) -> None:
        self.released = True
        lock, self._lock = self._lock, None
        if lock:
            lock.release()


def _belongs(folder: str, name: str) -> bool:
    """Return whether a file is part of a store, by its name and the folder that it is in."""
    if folder == JOURNAL:
        return parse_log_file(Path(name)) is not None
    if folder == BLOBS:
        return parse_blob_name(name) is not None
    if folder == SEGMENTS:
        return parse_segment_name(name) is not None
    return (folder, name) in {("", MANIFEST), (BASE, DATA)}
