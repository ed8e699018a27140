"""A store that no server uses, as a pin: it stays as it is, since nobody else gets at it."""

from pathlib import Path

from everbrook.storage.disk import Lock, OsDisk
from everbrook.storage.file_blobs import BLOBS
from everbrook.storage.manifest import LOCK, MANIFEST, Manifest, StoreError, lock_folder, parse_manifest
from everbrook.storage.pin import PinnedFile, pinned_files, read_part, subfolders

_DRAFT = ".new"


class StillStore:
    """A store that was stopped, or whose server was killed: what it would be opened with is what is read."""

    def __init__(self, folder: Path) -> None:
        """Keep servers away from the store in `folder`."""
        if not (folder / MANIFEST).is_file():
            raise StoreError(f"{folder} holds no store: there is no {MANIFEST} in it")
        self._folder = folder
        self.released = False
        self._lock: Lock | None = lock_folder(OsDisk(), folder)
        self.manifest: Manifest = parse_manifest((folder / MANIFEST).read_bytes())
        self.store = self.manifest.mode

    def folders(self) -> list[str]:
        first = subfolders(self._folder)
        nested = [name for name in first if name in {"streams", BLOBS}]
        return ["", *first, *(f"{name}/{below}" for name in nested for below in subfolders(self._folder / name))]

    def files(self, folder: str) -> list[PinnedFile]:
        found = pinned_files(self._folder / folder, folder, {})
        kept = [file for name, file in found if name not in {LOCK, "lock.mdb"} and not name.endswith(_DRAFT)]
        return [file if file.name.endswith((".log", ".blob")) else PinnedFile(file.name, file.size) for file in kept]

    def read(self, name: str, start: int, size: int) -> bytes:
        return read_part(self._folder / name, start, size)

    def release(self) -> None:
        self.released = True
        lock, self._lock = self._lock, None
        if lock:
            lock.release()
