"""Images: folders and files as a disk holds them at one moment."""

import os
from pathlib import Path

from msgspec import Struct


class Image(Struct, frozen=True):
    """What is found after a crash."""

    folders: tuple[Path, ...] = ()
    files: dict[Path, bytes] = {}

    def restore(self, root: Path) -> None:
        """Lay it out in an empty folder."""
        for folder in self.folders:
            (root / folder).mkdir()
        for path, content in self.files.items():
            (root / path).write_bytes(content)

    def numbered(self) -> dict[Path, int]:
        """Give each file its number in a recording that begins with this image."""
        return {path: number for number, path in enumerate(sorted(self.files))}


def photograph(root: Path, ignored: frozenset[str]) -> Image:
    """Take the image of a real folder, without the files that have an ignored name."""
    folders: list[Path] = []
    files: dict[Path, bytes] = {}
    for parent, folder_names, file_names in os.walk(root):
        place = Path(parent)
        folders += ((place / name).relative_to(root) for name in folder_names)
        for name in set(file_names) - ignored:
            files[(place / name).relative_to(root)] = (place / name).read_bytes()
    return Image(tuple(sorted(folders)), files)
