"""A backup in a folder: its manifest, the list of its files with the digests of their blocks, and the files.

<time>/backup.json      the manifest; written last, so a folder without it is no backup
<time>/files.jsonl      a file in each line: name, size, SHA-256 of each block of 128 KiB
<time>/data/<store>/…   the files, as they are in a data folder
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct

MANIFEST = "backup.json"
LIST = "files.jsonl"
DATA = "data"
FORMAT = 1
STORES = ("acid", "file")

_NAME = re.compile(r"\d{8}T\d{6}\.\d{3}Z(-\d+)?")


class BackupError(Exception):
    """A backup can't be made or used, for a reason that its owner can resolve."""


class GivenUp(BackupError):
    """The backup was interrupted, or another part of it has failed."""


class Manifest(Struct, frozen=True):
    """The manifest of a backup. `copied_bytes` were copied; the other bytes are shared with an earlier backup."""

    format: int
    store: str
    taken_at_ms: int
    source: str
    folders: list[str]
    files: int
    bytes: int
    copied_bytes: int
    list_digest: str
    everbrook: str = ""


class Entry(Struct, frozen=True, omit_defaults=True):
    """A file of a backup."""

    name: str
    size: int
    blocks: list[str]
    stamp: str = ""


class Backup:
    """A complete backup."""

    def __init__(self, folder: Path) -> None:
        """Read the manifest in a folder. Raises `BackupError` if the folder holds no backup."""
        self.folder = folder
        try:
            self.manifest = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
        except FileNotFoundError:
            raise BackupError(f"{folder} holds no backup: there is no {MANIFEST} in it") from None
        except msgspec.MsgspecError as error:
            raise BackupError(f"{folder / MANIFEST} is not the manifest of a backup: {error}") from None
        if self.manifest.format != FORMAT:
            raise BackupError(
                f"{folder} has format {self.manifest.format}; this version reads format {FORMAT}: use the version that "
                "made it"
            )
        require_store(self.manifest.store)
        for name in self.manifest.folders:
            require_inside(name)
        self.store = folder / DATA / self.manifest.store

    def entries(self) -> Iterator[Entry]:
        """Verify the list of files, and yield the files."""
        try:
            text = (self.folder / LIST).read_bytes()
        except OSError as error:
            raise BackupError(f"{self.folder / LIST} can't be read: {error.strerror}") from error
        if sha256(text).hexdigest() != self.manifest.list_digest:
            raise BackupError(f"{self.folder / LIST} is damaged: its SHA-256 differs from the one in {MANIFEST}")
        for entry in msgspec.json.Decoder(Entry).decode_lines(text):
            require_inside(entry.name)
            yield entry


def require_store(store: str) -> None:
    """Refuse an unknown kind of store: its name becomes a folder, and comes from an untrusted file or server."""
    if store not in STORES:
        raise BackupError(f"the kind of the store must be {' or '.join(STORES)}, got {store!r}")


def require_inside(name: str) -> None:
    """Refuse a name that leads out of its folder (path traversal): it comes from an untrusted file or server."""
    if name.startswith("/") or any(part in {"..", "."} for part in name.split("/")) or "\0" in name:
        raise BackupError(f"{name!r} is not the name of a file in a store")


def format_list(entries: list[Entry]) -> bytes:
    return msgspec.json.Encoder().encode_lines(entries)


def format_name(taken_at_ms: int) -> str:
    """Name a backup after its moment, so that names sort by time."""
    try:
        moment = datetime.fromtimestamp(taken_at_ms // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        raise BackupError(f"the time of a backup is out of range: {taken_at_ms} ms since 1970") from None
    return f"{moment:%Y%m%dT%H%M%S}.{taken_at_ms % 1000:03d}Z"


def find_backups(folder: Path) -> list[Path]:
    """Return the complete backups in a folder, the oldest first."""
    if not folder.is_dir():
        return []
    names = sorted((path.name for path in folder.iterdir() if _NAME.fullmatch(path.name)), key=_order)
    return [folder / name for name in names if (folder / name / MANIFEST).is_file()]


def next_name(taken_at_ms: int, last: str | None) -> str:
    """Return the name of the backup after the last one. Names increase even if the clock was set back."""
    name = format_name(taken_at_ms)
    if last is None or _order(name) > _order(last):
        return name
    moment, number = _order(last)
    return f"{moment}-{number + 1}"


def _order(name: str) -> tuple[str, int]:
    moment, _, number = name.partition("-")
    return moment, int(number or 0)


def choose_backup(folder: Path, at: str | None = None) -> Backup:
    """Return the backup in a folder; if it has several, the last one that is not younger than `at`."""
    if (folder / MANIFEST).is_file():
        return Backup(folder)
    found = find_backups(folder)
    if not found:
        raise BackupError(f"{folder} holds no backup")
    if at is None:
        return Backup(found[-1])
    if folder / at in found:
        return Backup(folder / at)
    earlier = [backup for backup in map(Backup, found) if format_name(backup.manifest.taken_at_ms)[: len(at)] <= at]
    if not earlier:
        raise BackupError(f"{folder} holds no backup from {at} or before; the oldest is {found[0].name}")
    return earlier[-1]
