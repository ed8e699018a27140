"""Lost and found: the folder of a store that keeps damaged and torn bytes for inspection."""

from collections.abc import Iterable
from contextlib import closing
from itertools import chain
from pathlib import Path

from everbrook.storage.disk import Disk
from everbrook.storage.manifest import LOST_AND_FOUND


class LostAndFound:
    """Keeps bytes and files. When a call returns, they are on the disk."""

    def __init__(self, disk: Disk, folder: Path) -> None:
        """Use the folder `lost+found` of a store. It is made for its first file."""
        self._disk = disk
        self.folder = folder / LOST_AND_FOUND

    def keep(self, name: str, parts: Iterable[tuple[int, bytes]]) -> Path | None:
        """Keep bytes in one file, each part at its position. Returns the file; None if there are no bytes."""
        parts = (part for part in parts if part[1])
        first = next(parts, None)
        if first is None:
            return None
        path = self._free(name)
        with closing(self._disk.create(path)) as file:
            for position, data in chain((first,), parts):
                file.write_at(position, data)
            file.sync()
        self._disk.sync_folder(self.folder)
        return path

    def keep_once(self, name: str, data: bytes) -> Path:
        """Keep bytes under a name that identifies them, unless a file of that name exists."""
        if not self.folder.is_dir() or name not in self._disk.names(self.folder):
            self.keep(name, [(0, data)])
        return self.folder / name

    def copy(self, path: Path) -> Path | None:
        return self.keep(path.name, [(0, self._disk.read(path))])

    def take(self, path: Path) -> Path:
        """Move a file or a folder here."""
        kept = self._free(path.name)
        # Both folders are synced, because a power failure must not leave the file in neither of them.
        self._disk.rename(path, kept)
        self._disk.sync_folder(self.folder)
        self._disk.sync_folder(path.parent)
        return kept

    def _free(self, name: str) -> Path:
        """Return a path that does not exist yet."""
        self._disk.make_folder(self.folder)
        taken, number, free = set(self._disk.names(self.folder)), 1, name
        while free in taken:
            number += 1
            free = f"{name}.{number}"
        return self.folder / free
