"""Opening file storages for tests, and looking at all that they hold."""

from collections.abc import Iterable
from pathlib import Path

from everbrook.protocol.change import Change
from everbrook.storage.api import Record
from everbrook.storage.disk import Disk
from everbrook.storage.files.engine import FileStorage
from tests.storage.files.disks import WatchedDisk

Contents = dict[bytes, tuple[Record, bytes, int]]


def open_files(
    folder: Path, disk: Disk | None = None, *, durable: bool = True, salt: int = 7, segment_bytes: int = 2**20
) -> FileStorage:
    return FileStorage(disk or WatchedDisk(), folder, durable=durable, salt=salt, segment_bytes=segment_bytes)


def commit(storage: FileStorage, *group: Change) -> None:
    """Make a group durable, then visible."""
    storage.persist(group)
    storage.apply(group)


def abandon(storage: FileStorage) -> None:
    """Let a store go without closing it, as the end of a process does."""
    storage._lock.release()
    storage._writer.close()


def contents(storage: FileStorage, names: Iterable[bytes]) -> Contents:
    """Give everything that can be seen of streams: state, own bytes, forks."""
    found: Contents = {}
    for name in names:
        record = storage.load(name)
        if record:
            identity = record.head.identity
            data = storage.read(identity.incarnation, identity.first_own_offset, record.head.tail)
            copy = Record(record.head, dict(record.producers))
            found[name] = (copy, data, storage.fork_count(identity.incarnation))
    return found


def segments(folder: Path) -> list[Path]:
    """Give the log files of all streams, in order."""
    return sorted(folder.glob("streams/*/*.log"))


def finish_removals(storage: FileStorage) -> None:
    """Return when what was discarded so far has been removed."""
    thread = storage._removals._thread
    if thread:
        thread.submit(int).result()


def numbers(folder: Path, incarnation: int) -> list[int]:
    """Give the numbers of a stream's segments."""
    prefix = f"{incarnation:016x}-"
    return [int(path.stem[17:]) for path in segments(folder) if path.name.startswith(prefix)]
