"""The manifest of a data folder: who owns it, which format it has, and with which layout it was made."""

from pathlib import Path

import msgspec
from msgspec import Struct

from everbrook.storage.disk import Disk, Lock, LockHeld

FORMAT = 1
MANIFEST = "manifest.json"
LOCK = "lock"
# Folders of stores that are made after the manifest, so that they never stand without one.
STORED = {"journal", "streams", "blobs"}
MAX_SHARDS = 256


class StoreError(Exception):
    """A data folder can't be used, for a reason that its owner can do something about."""


class Manifest(Struct, frozen=True, forbid_unknown_fields=True):
    """What a store is."""

    format: int
    mode: str
    shard_count: int = 1


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


def open_manifest(disk: Disk, folder: Path, wanted: Manifest) -> None:
    """Find the store in a folder as it is wanted, or make a new one so."""
    disk.sync_folder(folder)
    names = disk.names(folder)
    if MANIFEST not in names:
        if any(name in STORED or name.startswith("shard-") for name in names):
            raise StoreError(f"{folder} holds a store without its {MANIFEST}")
        _write(disk, folder, wanted)
        return
    found = _read(disk, folder)
    if found.format != wanted.format:
        raise StoreError(f"{folder} has format {found.format}; this version reads format {wanted.format}")
    if found.mode != wanted.mode:
        raise StoreError(f"{folder} holds a store of mode {found.mode}, not {wanted.mode}")
    if found.shard_count != wanted.shard_count:
        raise StoreError(
            f"{folder} was made with {found.shard_count} shards, the settings say {wanted.shard_count}: "
            f"set DS_STORAGE__ACID_SHARD_COUNT={found.shard_count}"
        )


def _read(disk: Disk, folder: Path) -> Manifest:
    try:
        return parse_manifest(disk.read(folder / MANIFEST))
    except msgspec.MsgspecError as error:
        raise StoreError(f"{folder / MANIFEST} is not a manifest of this version: {error}") from None


def parse_manifest(text: bytes) -> Manifest:
    """Read a manifest."""
    manifest = msgspec.json.decode(text, type=Manifest)
    if not 1 <= manifest.shard_count <= MAX_SHARDS or manifest.shard_count.bit_count() != 1:
        raise msgspec.ValidationError(
            f"shard_count must be a power of two from 1 to {MAX_SHARDS}, got {manifest.shard_count}"
        )
    return manifest


def _write(disk: Disk, folder: Path, manifest: Manifest) -> None:
    """Write it beside its place and rename it there, so that it is never half there."""
    draft = folder / f"{MANIFEST}.new"
    if draft.name in disk.names(folder):
        disk.remove(draft)
    file = disk.create(draft)
    file.write(msgspec.json.encode(manifest))
    file.sync()
    file.close()
    disk.rename(draft, folder / MANIFEST)
    disk.sync_folder(folder)
