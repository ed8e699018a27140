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
    Entry,
    Manifest,
    find_backups,
    format_list,
    next_name,
)
from everbrook.storage.backups.syncing import Syncing, sync_path

PARTIAL = ".partial"
LATEST = "latest"
LOCK = ".lock"
_REMOVING = ".removing-"
_DRAFT = f"{PARTIAL}-{LATEST}"
# What a file system has at its top is nobody's.
_LOST = "lost+found"


class Destination:
    """A folder for backups, used by one process at a time."""

    def __init__(self, folder: Path) -> None:
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
        self.syncing = Syncing(folder)
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
        """Give the last backup that is whole."""
        found = find_backups(self.folder)
        return Backup(found[-1]) if found else None

    def publish(self, manifest: Manifest) -> Path:
        """Give what is in `.partial` its name. Everything in it is on the disk already."""
        _write(self.partial / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
        sync_path(self.partial)
        found = find_backups(self.folder)
        path = self.folder / next_name(manifest.taken_at_ms, found[-1].name if found else None)
        self.partial.rename(path)
        sync_path(self.folder)
        draft = self.folder / _DRAFT
        draft.symlink_to(path.name)
        draft.rename(self.folder / LATEST)
        sync_path(self.folder)
        return path

    def write_list(self, entries: list[Entry]) -> bytes:
        """Write the list of the files, durably, and give its bytes."""
        text = format_list(entries)
        _write(self.partial / LIST, text)
        return text

    def prune(self, keep: int) -> list[Path]:
        """Remove all but the `keep` backups that were made last. Gives those that are gone."""
        gone = find_backups(self.folder)[:-keep]
        for path in gone:
            removing = self.folder / f"{_REMOVING}{path.name}"
            path.rename(removing)
            sync_path(self.folder)
            shutil.rmtree(removing)
        return gone

    def close(self) -> None:
        """Let others in."""
        self.syncing.close()
        os.close(self._lock)


def _write(path: Path, data: bytes) -> None:
    draft = path.with_name(f"{path.name}.new")
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
