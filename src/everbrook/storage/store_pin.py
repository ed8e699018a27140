"""A pinned store: the journal up to what is durable, the base as one of its transactions sees it, segments and blobs.

Files that are given up meanwhile are held open, or removed later. Checkpoints go on.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock

from everbrook.storage.disk import Disk
from everbrook.storage.file_blobs import BLOBS, parse_blob_name
from everbrook.storage.journal import Journal
from everbrook.storage.journal_scan import log_file_name
from everbrook.storage.lmdb_base import LmdbBase
from everbrook.storage.manifest import BASE, JOURNAL, MANIFEST, SEGMENTS
from everbrook.storage.pin import Hold, OpenFile, PinnedFile, pinned_files, read_part, subfolders
from everbrook.storage.pinned_base import PinnedBase
from everbrook.storage.rows import DATA
from everbrook.storage.segments import parse_segment_name

_HELD = re.compile(
    rf"(?:{BLOBS}/[0-9a-f]{{2}}/[0-9a-f]{{16}}-[0-9a-f]{{16}}\.blob"
    rf"|{SEGMENTS}/[0-9a-f]{{2}}/[0-9a-f]{{16}}-\d{{16}}\.log)"
)
# Each of them fails only if two checkpoints end while a page is read.
PIN_ATTEMPTS = 100


class StorePin:
    """A store at one moment."""

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
        """Pin a store, and call `released` in the end with the files that are to be removed."""
        self.store = store
        self.released = False
        self._disk = disk
        self._folder = folder
        self._released: Callable[[StorePin, list[Path]], None] | None = released
        self._lock = Lock()
        self._hold = hold
        self._open: dict[str, OpenFile | PinnedBase] = {}
        self._lengths = hold.begin()
        journal.recycles = False
        try:
            # In this order: what a checkpoint takes out of the journal between the two is in the base then.
            self._open[MANIFEST] = OpenFile(disk, folder / MANIFEST, (folder / MANIFEST).stat().st_size)
            self._open_journal(journal)
            self._open[f"{BASE}/{DATA}"] = _pinned_base(disk, base)
            # A checkpoint that ended just now has begun a file that its base needs. It holds nothing yet.
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
        if not _HELD.fullmatch(name):
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
