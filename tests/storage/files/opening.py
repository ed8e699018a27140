"""Opening file storages for tests, and looking at all that they hold."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from everbrook.protocol import Change
from everbrook.storage import FileStorage, Record
from everbrook.storage.disk import Disk
from everbrook.storage.files.layout import Layout
from everbrook.storage.files.tuning import FilesTuning
from tests.crash.jobs import Inline
from tests.storage.files.disks import WatchedDisk

Contents = dict[bytes, tuple[Record, bytes, int]]


class HeldFiles(FileStorage):
    """A file storage whose disk and threads the test holds."""

    def __init__(self, disk: Disk, folder: Path, *, durable: bool, salt: int, tuning: FilesTuning) -> None:
        self.disk = disk
        self.folder = folder
        self.layout = Layout(folder)
        self.removing = ThreadPoolExecutor(1)
        super().__init__(
            disk,
            folder,
            durable=durable,
            salt=salt,
            tuning=tuning,
            removal_executor=self.removing,
            sync_executor=Inline(),
        )


def open_files(
    folder: Path, disk: Disk | None = None, *, durable: bool = True, salt: int = 7, **sizes: int
) -> HeldFiles:
    """Open a store. `sizes` are those of its tuning that are not the default."""
    return HeldFiles(disk or WatchedDisk(), folder, durable=durable, salt=salt, tuning=FilesTuning(**sizes))


def commit(storage: FileStorage, *group: Change) -> None:
    """Make a group durable, then visible."""
    storage.persist(group)
    storage.apply(group)


def abandon(storage: HeldFiles) -> None:
    """Let a store go without closing it, as the end of a process does."""
    assert isinstance(storage.disk, WatchedDisk)
    storage.removing.shutdown()
    storage.disk.forget()


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


def finish_removals(storage: HeldFiles) -> None:
    """Return when what was discarded so far has been removed."""
    storage.removing.submit(int).result()


def numbers(folder: Path, incarnation: int) -> list[int]:
    """Give the numbers of a stream's segments."""
    prefix = f"{incarnation:016x}-"
    return [int(path.stem[17:]) for path in segments(folder) if path.name.startswith(prefix)]
