"""Lost and found: the folder of a store where damaged bytes are kept, for whoever wants to look at them."""

from collections.abc import Iterable
from contextlib import closing
from itertools import chain
from pathlib import Path

from everbrook.storage.disk import Disk
from everbrook.storage.manifest import LOST_AND_FOUND


class LostAndFound:
    """Keeps bytes and files. What it has is on the disk when a call returns."""

    def __init__(self, disk: Disk, folder: Path) -> None:
        """Use the one in the folder of a store. It is made when something comes."""
        self._disk = disk
        self.folder = folder / LOST_AND_FOUND

    def keep(self, name: str, parts: Iterable[tuple[int, bytes]]) -> Path | None:
        """Keep bytes, each part at its position in one file. None if there are none."""
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
        """Keep bytes under a name that no others have, unless they are here already."""
        if not self.folder.is_dir() or name not in self._disk.names(self.folder):
            self.keep(name, [(0, data)])
        return self.folder / name

    def copy(self, path: Path) -> Path | None:
        return self.keep(path.name, [(0, self._disk.read(path))])

    def take(self, path: Path) -> Path:
        """Move a file or a folder here."""
        kept = self._free(path.name)
        self._disk.rename(path, kept)
        self._disk.sync_folder(self.folder)
        self._disk.sync_folder(path.parent)
        return kept

    def _free(self, name: str) -> Path:
        """Give a place that is not taken."""
        self._disk.make_folder(self.folder)
        taken, number, free = set(self._disk.names(self.folder)), 1, name
        while free in taken:
            number += 1
            free = f"{name}.{number}"
        return self.folder / free
