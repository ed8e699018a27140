"""The destination of backups: a folder with one folder for each backup, and `latest`.

The rule: a folder with the name of a backup is complete. A backup that is being made is in `.partial`, and is renamed
when all its files are on the disk. The next run continues the `.partial` of a run that was killed.
"""

import os
import shutil
from pathlib import Path

import msgspec

from everbrook.file_lock import LockHeld, take_lock
from everbrook.storage.backups.backup import (
    LIST,
    MANIFEST,
    Backup,
    BackupError,
    Manifest,
    find_backups,
    next_name,
)
from everbrook.storage.backups.file_system import OpenFileSystem, folders_of, open_file_system
from everbrook.storage.backups.store_copy import StoreCopy

PARTIAL = ".partial"
LATEST = "latest"
LOCK = ".lock"
_REMOVING = ".removing-"
_DRAFT = f"{PARTIAL}-{LATEST}"
# The root of a file system may have this folder, so it does not count as a foreign file.
_LOST = "lost+found"


class Destination:
    """A folder for backups, used by one process at a time."""

    def __init__(self, folder: Path, open_file_system: OpenFileSystem = open_file_system) -> None:
        """Lock the folder, and make it if it is missing. Raises `BackupError` if another process has locked it."""
        self.folder = folder
        self.partial = folder / PARTIAL
        folder.mkdir(parents=True, exist_ok=True)
        self._require_backups_only()
        try:
            self._lock = take_lock(folder / LOCK)
        except LockHeld:
            raise BackupError(f"another backup into {folder} is under way: wait until it has ended") from None
        self._file_system = open_file_system(folder)
        for left in folder.glob(f"{_REMOVING}*"):
            shutil.rmtree(left)
        (folder / _DRAFT).unlink(missing_ok=True)

    def _require_backups_only(self) -> None:
        """Refuse a folder with other files, so that a wrong argument does not fill a folder with another purpose."""
        names = {path.name for path in self.folder.iterdir()} - {PARTIAL, LATEST, LOCK, _DRAFT, _LOST}
        known = {path.name for path in find_backups(self.folder)}
        strange = sorted(name for name in names - known if not name.startswith(_REMOVING))
        if strange:
            raise BackupError(f"{self.folder} holds other files than backups: {strange[0]}; name an empty folder")

    def previous(self) -> Backup | None:
        found = find_backups(self.folder)
        return Backup(found[-1]) if found else None

    def publish(self, copy: StoreCopy, manifest: Manifest) -> Path:
        """Rename the copy in `.partial`, and return when the backup is on the disk.

        The order makes a backup atomic: first the files, then the manifest that says that they are complete, then the
        name.
        """
        file_system = self._file_system
        folders = folders_of(copy.target, copy.folders)
        file_system.write(self.partial / LIST, copy.listed())
        file_system.sync(copy.written, [*folders, copy.target.parent, self.partial])
        file_system.write(self.partial / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
        file_system.sync_path(self.partial)
        found = find_backups(self.folder)
        path = self.folder / next_name(manifest.taken_at_ms, found[-1].name if found else None)
        file_system.rename(self.partial, path)
        file_system.sync_path(self.folder)
        draft = self.folder / _DRAFT
        draft.symlink_to(path.name)
        file_system.rename(draft, self.folder / LATEST)
        file_system.sync_path(self.folder)
        return path

    def prune(self, keep: int) -> list[Path]:
        """Remove all but the last `keep` backups. Returns the removed ones."""
        gone = find_backups(self.folder)[:-keep]
        for path in gone:
            # Renamed first: a crash during the removal must not leave an incomplete folder with the name of a backup.
            removing = self.folder / f"{_REMOVING}{path.name}"
            self._file_system.rename(path, removing)
            self._file_system.sync_path(self.folder)
            shutil.rmtree(removing)
        return gone

    def close(self) -> None:
        """Release the lock."""
        self._file_system.close()
        os.close(self._lock)
