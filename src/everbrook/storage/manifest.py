"""The manifest of a data folder: who owns it, which format it has, and the salt of its checksums.

The base has a second copy, so that a damaged manifest does not cost a store.
"""

from contextlib import closing
from pathlib import Path

import msgspec
from msgspec import Struct

from everbrook.storage.disk import Disk, Lock, LockHeld

FORMAT = 2
MANIFEST = "manifest.json"
LOCK = "lock"
JOURNAL = "journal"
BASE = "base"
SEGMENTS = "streams"
LOST_AND_FOUND = "lost+found"
REBUILT = "rebuilt"
"""The folder of a store that a repair has made anew, until its parts are in their places."""
# Folders of stores that are made after the manifest, so that they never stand without one.
STORED = {JOURNAL, BASE, SEGMENTS, "blobs"}


_MIX = 0x9E3779B97F4A7C15


class StoreError(Exception):
    """A data folder can't be used, for a reason that its owner can do something about."""


class Manifest(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a store is: its format, `acid` or `file`, and a random number that no client knows."""

    format: int
    mode: str
    salt: int = 0
    shard_count: int | None = None
    """Only stores of format 1 have it."""
    epoch: int = 0
    """Another number after each restore from a backup. Clients take the streams for other ones then."""


def nested(folder: Path, incarnation: int) -> Path:
    """Give where a stream has its files: in one of 256 folders, chosen by a hash."""
    return folder / f"{incarnation * _MIX % 2**64 >> 56:02x}"


def open_folder(disk: Disk, folder: Path) -> Lock:
    """Make the folder of a store, unless it is there, and keep others away from it."""
    try:
        disk.make_folder(folder)
    except OSError as error:
        raise StoreError(f"{folder} can't be used as a folder for a store: {error.strerror}") from None
    return lock_folder(disk, folder)


def lock_folder(disk: Disk, folder: Path) -> Lock:
    """Keep other servers away from the store in a folder."""
    try:
        return disk.lock(folder / LOCK)
    except LockHeld as held:
        raise StoreError(f"{folder} is in use by another server (process {held.owner})") from None


def find_manifest(disk: Disk, folder: Path) -> Manifest | None:
    """Read the manifest in a folder. None: it is there and can't be read. `StoreError`: there is none."""
    try:
        return parse_manifest(disk.read(folder / MANIFEST))
    except FileNotFoundError:
        raise StoreError(f"{folder} holds no store: there is no {MANIFEST} in it") from None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def open_manifest(disk: Disk, folder: Path, mode: str, salt: int) -> Manifest | None:
    """Find the store in a folder, or make a new one. None: its manifest can't be read, and the base has the copy."""
    disk.sync_folder(folder)
    names = disk.names(folder)
    if REBUILT in names:
        raise StoreError(f"a repair of {folder} was interrupted: run everbrook repair again")
    if MANIFEST not in names:
        if BASE in names:
            return None
        if STORED & set(names) or any(name.startswith("shard-") for name in names):
            raise StoreError(f"{folder} holds a store without its {MANIFEST}")
        manifest = Manifest(FORMAT, mode, salt)
        write_manifest(disk, folder, manifest)
        return manifest
    found = find_manifest(disk, folder)
    if found and BASE not in names:
        # Otherwise the copy in the base decides: what is wrong with the manifest may be damage.
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
        raise StoreError(f"{folder} has format {found.format}; this version reads format {FORMAT}")
    if found.mode != mode:
        raise StoreError(f"{folder} holds a store of mode {found.mode}, not {mode}")


def parse_manifest(text: bytes) -> Manifest:
    return msgspec.json.decode(text, type=Manifest)


def parse_manifest_copy(text: bytes) -> Manifest:
    """Read the copy of a manifest in the base, whose checksum is right. `StoreError`: another version wrote it."""
    try:
        return parse_manifest(text)
    except msgspec.MsgspecError as error:
        raise StoreError(f"the copy of the manifest in the base can't be read: {error}") from None


def format_manifest(manifest: Manifest) -> bytes:
    return msgspec.json.encode(manifest)


def write_manifest(disk: Disk, folder: Path, manifest: Manifest) -> None:
    """Write it beside its place and rename it there, so that it is there entirely or not at all."""
    draft = folder / f"{MANIFEST}.new"
    if draft.name in disk.names(folder):
        disk.remove(draft)
    with closing(disk.create(draft)) as file:
        file.write(format_manifest(manifest))
        file.sync()
    disk.rename(draft, folder / MANIFEST)
    disk.sync_folder(folder)
