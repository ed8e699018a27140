"""A store that no server uses, as a pin: it stays as it is, since nobody else gets at it."""

from pathlib import Path

import msgspec

from everbrook.storage.disk import Lock, OsDisk
from everbrook.storage.file_blobs import BLOBS, parse_blob_name
from everbrook.storage.journal_scan import parse_log_file
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
from everbrook.storage.pin import PinnedFile, pinned_files, read_part, subfolders
from everbrook.storage.rows import DATA
from everbrook.storage.segments import parse_segment_name


class StillStore:
    """A store that was stopped, or whose server was killed: what it would be opened with is what is read.

    Locks, the spare file of the journal and what is in `lost+found` are not part of it.
    """

    def __init__(self, folder: Path) -> None:
        """Keep servers away from the store in `folder`."""
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
            raise StoreError(f"{folder / MANIFEST} can't be read: a start of the server restores it") from None
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
        # LMDB and the journal write to files in place: a stamp would not tell.
        return found if parent in {BLOBS, SEGMENTS} else [PinnedFile(file.name, file.size) for file in found]

    def read(self, name: str, start: int, size: int) -> bytes:
        return read_part(self._folder / name, start, size)

    def release(self) -> None:
        self.released = True
        lock, self._lock = self._lock, None
        if lock:
            lock.release()


def _belongs(folder: str, name: str) -> bool:
    """Tell whether a file is part of a store, by its name and the folder that it is in."""
    if folder == JOURNAL:
        return parse_log_file(Path(name)) is not None
    if folder == BLOBS:
        return parse_blob_name(name) is not None
    if folder == SEGMENTS:
        return parse_segment_name(name) is not None
    return (folder, name) in {("", MANIFEST), (BASE, DATA)}
