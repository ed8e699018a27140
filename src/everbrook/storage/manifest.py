"""The manifest of a store: its format, its mode, and the salt of its checksums. Also the lock of its folder.

The base has a second copy, so that a store survives a damaged manifest.
"""

from contextlib import closing
from pathlib import Path

import msgspec
from msgspec import Struct

from everbrook.file_lock import LockHeld
from everbrook.storage.disk import Disk, Lock

FORMAT = 2
MANIFEST = "manifest.json"
LOCK = "lock"
JOURNAL = "journal"
BASE = "base"
SEGMENTS = "streams"
LOST_AND_FOUND = "lost+found"
REBUILT = "rebuilt"
"""The folder of the parts that a repair has rebuilt, until they are moved to their places."""
# The folders of a store that are made after the manifest. If one of them exists, a manifest must exist too.
STORED = {JOURNAL, BASE, SEGMENTS, "blobs"}


_MIX = 0x9E3779B97F4A7C15


class StoreError(Exception):
    """A data folder can't be used, for a reason that its owner can resolve."""


class Manifest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The format of a store, its mode (`acid` or `file`), and a random number that no client knows.

    Without the number, a client could send data that looks like a record of the journal.
    """

    format: int
    mode: str
    salt: int = 0
    shard_count: int | None = None
    """Only stores of format 1 have it."""
    epoch: int = 0
    """A number that changes with each restore from a backup, so that clients see other incarnations."""


def nested(folder: Path, incarnation: int) -> Path:
    """Return the folder of a stream's files: one of 256, chosen by a hash."""
    return folder / f"{incarnation * _MIX % 2**64 >> 56:02x}"


def open_folder(disk: Disk, folder: Path) -> Lock:
    """Make the folder of a store, unless it exists, and lock it."""
    try:
        disk.make_folder(folder)
    except OSError as error:
        raise StoreError(f"{folder} can't be used as a folder for a store: {error.strerror}") from None
    return lock_folder(disk, folder)


def lock_folder(disk: Disk, folder: Path) -> Lock:
    """Lock the store in a folder, so that no other server uses it."""
    try:
        return disk.lock(folder / LOCK)
    except LockHeld as held:
        raise StoreError(
            f"{folder} is in use by another server (process {held.owner or 'unknown'}): stop it first"
        ) from None


def find_manifest(disk: Disk, folder: Path) -> Manifest | None:
    """Read the manifest in a folder. None: it can't be parsed. Raises `StoreError` if it does not exist."""
    try:
        return parse_manifest(disk.read(folder / MANIFEST))
    except FileNotFoundError:
        raise StoreError(f"{folder} holds no store: there is no {MANIFEST} in it") from None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def open_manifest(disk: Disk, folder: Path, mode: str, salt: int) -> Manifest | None:
    """Read the manifest in a folder, or write a new one. None: it is missing or damaged, and the base has the copy."""
    # An earlier process may have died before it synced the names in the folder.
    disk.sync_folder(folder)
    names = disk.names(folder)
    if REBUILT in names:
        raise StoreError(f"a repair of {folder} was interrupted: run everbrook repair again")
    if MANIFEST not in names:
        if BASE in names:
            return None
        if STORED & set(names) or any(name.startswith("shard-") for name in names):
            raise StoreError(f"{folder} holds a store without its {MANIFEST}: restore a backup into a new folder")
        manifest = Manifest(FORMAT, mode, salt)
        write_manifest(disk, folder, manifest)
        return manifest
    found = find_manifest(disk, folder)
    if found and BASE not in names:
        # With a base, its copy of the manifest is compared later: an unexpected manifest may be a damaged one.
        require_kind(folder, found, mode)
    return found


def require_kind(folder: Path, found: Manifest, mode: str) -> None:
    """Refuse a store of another format or mode, and say what to do."""
    if found.format == 1:
        raise StoreError(
            f"{folder} has format 1, and this version reads format {FORMAT}: export its streams with the version that "
            "wrote it (everbrook export), and import them into a new folder (everbrook import); producers, "
            "subscriptions and stream lifetimes that have begun are not carried over"
        )
    if found.format != FORMAT:
        raise StoreError(
            f"{folder} has format {found.format}; this version reads format {FORMAT}: use the version that wrote it"
        )
    if found.mode != mode:
        raise StoreError(f"{folder} holds a store of mode {found.mode}, not {mode}")


def parse_manifest(text: bytes) -> Manifest:
    return msgspec.json.decode(text, type=Manifest)


def parse_manifest_copy(text: bytes) -> Manifest:
    """Parse the copy of a manifest in the base, which has verified. Raises `StoreError` if it can't be parsed."""
    try:
        return parse_manifest(text)
    except msgspec.MsgspecError as error:
        raise StoreError(
            f"the copy of the manifest in the base can't be read, perhaps another version wrote it: {error}"
        ) from None


def format_manifest(manifest: Manifest) -> bytes:
    return msgspec.json.encode(manifest)


def write_manifest(disk: Disk, folder: Path, manifest: Manifest) -> None:
    """Write a manifest atomically: into a draft that is renamed when it is on the disk."""
    draft = folder / f"{MANIFEST}.new"
    if draft.name in disk.names(folder):
        # A crash has interrupted an earlier write.
        disk.remove(draft)
    with closing(disk.create(draft)) as file:
        file.write(format_manifest(manifest))
        file.sync()
    disk.rename(draft, folder / MANIFEST)
    disk.sync_folder(folder)
