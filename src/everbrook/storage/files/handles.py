"""Open files: a bounded number of descriptors, and syncing many of them at once."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from pathlib import Path

from everbrook.storage.disk import Disk, File

SYNC_THREADS = 8


class SyncFailed(OSError):
    """A sync failed: nobody knows what the disk holds, whatever the reason was."""


class Handles:
    """Files that are open for writing. The one that was not used for longest is closed first.

    A file must be synced before `bound` others are used, if it has to be.
    """

    def __init__(self, disk: Disk, bound: int) -> None:
        self._disk = disk
        self.bound = bound
        self._open: OrderedDict[Path, File] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def use(self, path: Path) -> File:
        """Give an open file."""
        file = self._open.get(path)
        if file:
            self._open.move_to_end(path)
            return file
        return self._keep(path, self._disk.open(path))

    def create(self, path: Path) -> File:
        """Create a file and keep it open."""
        return self._keep(path, self._disk.create(path))

    def _keep(self, path: Path, file: File) -> File:
        self._open[path] = file
        if len(self._open) > self.bound:
            self._open.popitem(last=False)[1].close()
        return file

    def forget(self, path: Path) -> None:
        """Close a file, if it is open."""
        file = self._open.pop(path, None)
        if file:
            file.close()

    def close(self) -> None:
        """Close every file."""
        while self._open:
            self._open.popitem()[1].close()


class Syncer:
    """Syncs files and folders: one at once, several beside each other. A store that is not durable has none."""

    def __init__(self, disk: Disk, *, durable: bool, executor: Executor | None = None) -> None:
        """Several files or folders are synced concurrently by `executor`. The default is a pool of threads."""
        self._disk = disk
        self._executor = executor or ThreadPoolExecutor(SYNC_THREADS, "everbrook-sync")
        self.durable = durable

    def sync(self, files: Iterable[File] = (), folders: Iterable[Path] = (), *, always: bool = False) -> None:
        """Return when all of them are on the disk, in a store that is not durable only if `always` is set."""
        if not self.durable and not always:
            return
        tasks: list[Callable[[], None]] = [file.sync for file in files]
        tasks += [partial(self._disk.sync_folder, folder) for folder in folders]
        try:
            if len(tasks) == 1:
                tasks[0]()
            elif tasks:
                self._sync_beside(tasks)
        except OSError as error:
            raise SyncFailed(error.errno, f"a sync failed: {error.strerror}") from error

    def _sync_beside(self, tasks: list[Callable[[], None]]) -> None:
        """Give each thread its share, and wait for all of them, whatever one meets."""
        shares = [tasks[first::SYNC_THREADS] for first in range(min(SYNC_THREADS, len(tasks)))]
        futures = [self._executor.submit(_do_all, share) for share in shares]
        errors = [future.exception() for future in futures]
        for error in errors:
            if error:
                raise error

    def close(self) -> None:
        """End the threads."""
        self._executor.shutdown()


def _do_all(tasks: list[Callable[[], None]]) -> None:
    for task in tasks:
        task()
