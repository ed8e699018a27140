"""Where backups go: a folder with one folder for each moment, and `latest`.

The rule: what has the name of a backup is whole. What is under way is in `.partial`, and gets its name when every file
of it is on the disk; what is left of a run that was killed is taken on by the next one.
"""

import fcntl
import os
import shutil
from pathlib import Path

import msgspec

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
# What a file system has at its top is nobody's.
_LOST = "lost+found"


class Destination:
    """A folder for backups, used by one process at a time."""

    def __init__(self, folder: Path, open_file_system: OpenFileSystem = open_file_system) -> None:
        """Take the folder, and make it if need be. `BackupError` if another backup is under way there."""
        self.folder = folder
        self.partial = folder / PARTIAL
        folder.mkdir(parents=True, exist_ok=True)
        self._refuse_others()
        self._lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise BackupError(f"another backup into {folder} is under way") from None
        self._file_system = open_file_system(folder)
        for left in folder.glob(f"{_REMOVING}*"):
            shutil.rmtree(left)
        (folder / _DRAFT).unlink(missing_ok=True)

    def _refuse_others(self) -> None:
        """Put backups only where nothing else is: a wrong argument must not fill somebody's folder."""
        names = {path.name for path in self.folder.iterdir()} - {PARTIAL, LATEST, LOCK, _DRAFT, _LOST}
        known = {path.name for path in find_backups(self.folder)}
        strange = sorted(name for name in names - known if not name.startswith(_REMOVING))
        if strange:
            raise BackupError(f"{self.folder} holds something else than backups: {strange[0]}")

    def previous(self) -> Backup | None:
        found = find_backups(self.folder)
        return Backup(found[-1]) if found else None

    def publish(self, copy: StoreCopy, manifest: Manifest) -> Path:
        """Give the copy in `.partial` its name, and return when the backup is on the disk.

        In this order: the files, what tells that they are all there, and the name. So no crash leaves a backup that
        is not whole.
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
        """Remove all but the `keep` backups that were made last. Gives those that are gone."""
        gone = find_backups(self.folder)[:-keep]
        for path in gone:
            removing = self.folder / f"{_REMOVING}{path.name}"
            self._file_system.rename(path, removing)
            self._file_system.sync_path(self.folder)
            shutil.rmtree(removing)
        return gone

    def close(self) -> None:
        """Let others in."""
        self._file_system.close()
        os.close(self._lock)
