"""The restore of a backup: makes a data folder from it, atomically.

The files are copied into a draft folder beside the target, and each block is verified against its digest. The draft is
checked as a store, and then renamed to the target.
"""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path

from msgspec.structs import replace

from everbrook.storage.backups.backup import Backup, BackupError, Entry
from everbrook.storage.backups.file_system import OpenFileSystem, folders_of, open_file_system
from everbrook.storage.backups.pieces import BLOCK_BYTES
from everbrook.storage.base_state import Opened
from everbrook.storage.check import Report, check_store
from everbrook.storage.checkpoint import Checkpoint
from everbrook.storage.disk import OsDisk
from everbrook.storage.lmdb_base import LMDB_LOCK, open_base
from everbrook.storage.manifest import JOURNAL, LOCK, MANIFEST, parse_manifest, write_manifest
from everbrook.storage.tuning import DEFAULT_TUNING

Progress = Callable[[int], None]
"""Called with the number of bytes that were copied since the last call."""


def restore(
    backup: Backup,
    target: Path,
    progress: Progress,
    *,
    epoch: int,
    open_file_system: OpenFileSystem = open_file_system,
) -> Report:
    """Make a data folder from a backup. Raises `BackupError` if the backup is damaged; then there is no data folder.

    `epoch` is a random number. By it clients notice that their offsets from before the restore are no longer valid.
    """
    require_free(target)
    with _draft_of(target) as draft:
        store = draft / backup.manifest.store
        store.mkdir(mode=0o700)
        with closing(open_file_system(store)) as file_system:
            files = _copy(backup, store, progress)
            # Before `set_epoch`, which opens the base: LMDB does not verify its file.
            report = check_copy(store)
            set_epoch(store, epoch)
            file_system.sync(files, [*folders_of(store, backup.manifest.folders), draft])
            file_system.rename(draft, target)
            file_system.sync_path(target.parent)
    report.folder = target / backup.manifest.store
    return report


@contextmanager
def _draft_of(target: Path) -> Iterator[Path]:
    """Return an empty folder beside a target, which one process at a time can use, and remove it at the end."""
    draft = target.with_name(f".{target.name}.restoring")
    draft.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(draft, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not _lock(descriptor, draft):
            raise BackupError(f"{target} is being restored by another process: wait until that has ended")
        try:
            # A killed restore may have left files.
            for left in draft.iterdir():
                shutil.rmtree(left)
            yield draft
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, draft: Path) -> bool:
    """Lock a folder. False if another process has locked it, or has replaced it since it was opened."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return draft.exists() and os.path.samestat(os.fstat(descriptor), draft.stat())


def require_free(target: Path) -> None:
    """Refuse a target that is not an empty or missing folder."""
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise BackupError(f"{target} is not a folder")
    if target.exists() and any(target.iterdir()):
        raise BackupError(f"{target} is not empty: a backup is restored into a new folder only, so name another one")
    if target.is_mount():
        raise BackupError(f"{target} is a mount point, which can't be replaced: name a new folder in it")
    if not target.parent.is_dir():
        raise BackupError(f"{target.parent}, in which {target.name} would be made, does not exist: make it first")


def check_copy(store: Path) -> Report:
    """Check a copy of a store, and leave no lock in it. Raises `BackupError` if it does not verify."""
    report = check_store(store, lambda _read_bytes, _total_bytes: None)
    (store / LOCK).unlink(missing_ok=True)
    if not report.sound:
        raise BackupError(
            f"the copy does not verify, in {len(report.damages)} places; the first: {report.damages[0]}. "
            f"`everbrook check` says whether the store itself does"
        )
    return report


def _copy(backup: Backup, store: Path, progress: Progress) -> list[Path]:
    """Copy all files. Returns the paths of the copies."""
    done = 0
    files: list[Path] = []
    for folder in filter(None, backup.manifest.folders):
        (store / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    for entry in backup.entries():
        _copy_file(backup.store / entry.name, store / entry.name, entry)
        files.append(store / entry.name)
        done += entry.size
        progress(entry.size)
    if (len(files), done) != (backup.manifest.files, backup.manifest.bytes):
        raise BackupError(
            f"{backup.folder} is damaged: it lists {len(files)} files with {done} bytes, and its manifest says "
            f"{backup.manifest.files} with {backup.manifest.bytes}"
        )
    return files


def _for_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _copy_file(source: Path, target: Path, entry: Entry) -> None:
    try:
        reading = source.open("rb", buffering=0)
    except OSError as error:
        raise BackupError(f"{source} can't be read: {error.strerror}") from error
    with reading, open(target, "wb", buffering=0, opener=_for_owner) as writing:
        for number, digest in enumerate(entry.blocks):
            size = min(BLOCK_BYTES, entry.size - number * BLOCK_BYTES)
            block = os.pread(reading.fileno(), size, number * BLOCK_BYTES)
            if sha256(block).hexdigest() != digest:
                place = number * BLOCK_BYTES
                raise BackupError(f"{source} is damaged: the SHA-256 of the {size} bytes from {place} on is wrong")
            writing.write(block)
        if os.fstat(reading.fileno()).st_size != entry.size:
            found = os.fstat(reading.fileno()).st_size
            raise BackupError(f"{source} is damaged: it has {found} bytes, and should have {entry.size}")


def set_epoch(folder: Path, epoch: int) -> None:
    """Set the epoch of a store that no server uses: in its manifest, and in the base's copy of it.

    The caller syncs the rest of the folder.
    """
    if not (folder / JOURNAL).is_dir():
        # A crash interrupted the creation of the store, so no client has seen an offset of it.
        return
    disk = OsDisk()
    with closing(open_base(disk, folder)) as base:
        manifest = replace(parse_manifest(base.state().manifest or disk.read(folder / MANIFEST)), epoch=epoch)
        with Checkpoint(base, DEFAULT_TUNING) as checkpoint:
            # The caller syncs all files, so the boot does not matter: a crash of the machine loses none of them.
            checkpoint.set_opened(Opened(sync=True, boot=""), manifest)
            checkpoint.commit()
    (base.folder / LMDB_LOCK).unlink(missing_ok=True)
    write_manifest(disk, folder, manifest)
