"""The writing side, which has a thread of its own: groups of changes go into the logs, then into the catalogue.

It shares nothing with the reading side but the files. If there is no room, what was written is taken back step by step
in reverse, so that a crash meanwhile finds a store as it was at some step forward.
"""

import errno
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from everbrook.protocol.change import Change, Drop, Write
from everbrook.storage.api import StorageFull, refusal
from everbrook.storage.disk import Disk, File
from everbrook.storage.files.catalogue import Catalogue, is_joint, pack_commit, pack_joint
from everbrook.storage.files.handles import SyncFailed
from everbrook.storage.files.pens import Pens
from everbrook.storage.pin import ABSENT, Hold

Numbered = tuple[int, Change]


class Writer:
    """Makes groups of changes durable. `number` is that of the last change."""

    def __init__(
        self, disk: Disk, catalogue: Catalogue, pens: Pens, number: int, hold: Hold, renew_at_bytes: int
    ) -> None:
        self._disk = disk
        self._catalogue = catalogue
        self._pens = pens
        self._hold = hold
        self._renew_at_bytes = renew_at_bytes
        self._made: set[Path] = set()
        self._folders: set[Path] = set()
        self._removed_from: deque[Path] = deque()
        self._undo: list[Callable[[], None]] = []
        self.number = number
        self.failed = False

    def persist(self, group: Sequence[Change]) -> None:
        """Make a group durable, each change entirely or not at all."""
        if self.failed:
            raise OSError(errno.EIO, "the store failed before and takes no more writes until it is opened anew")
        number = self.number
        try:
            self._renew_catalogue()
            for batch in _batches(number, group):
                self._write_batch(batch)
        except OSError as error:
            self.failed = True
            refused = refusal_of(error)
            if isinstance(refused, StorageFull):
                self._take_back(number)
                raise refused from error
            raise
        except BaseException:
            self.failed = True
            raise
        finally:
            self._undo.clear()

    def _take_back(self, number: int) -> None:
        while self._undo:
            self._undo.pop()()
        self._pens.clear()
        self.number = number
        self.failed = False

    def _renew_catalogue(self) -> None:
        """Begin the catalogue anew when most of it is past. If there is no room, it can wait."""
        if self._catalogue.grown <= max(self._renew_at_bytes, self._catalogue.size // 2):
            return
        try:
            self._catalogue.renew(self.number)
        except OSError as error:
            if not isinstance(refusal_of(error), StorageFull):
                raise

    def _write_batch(self, batch: list[Numbered]) -> None:
        joint = [(number, pack_joint(change)) for number, change in batch if is_joint(change)]
        commits = [
            (number, pack_commit(change)) for number, change in batch if _enters(change) and not is_joint(change)
        ]
        self._enter(joint)
        self._write_logs(batch)
        self._enter(commits)
        self.number = batch[-1][0]
        for _, change in batch:
            self._forget_dropped(change)

    def _enter(self, records: list[tuple[int, bytes]]) -> None:
        """Put records into the catalogue, durably."""
        if not records:
            return
        mark = self._catalogue.mark()
        self._undo.append(lambda: self._catalogue.cut(mark))
        self._catalogue.append(records)
        self._catalogue.sync()

    def _write_logs(self, batch: list[Numbered]) -> None:
        """Write each stream's part at once, as many streams together as files may be open."""
        streams: dict[int, list[tuple[int, Write]]] = {}
        for number, change in batch:
            for edit in change:
                if isinstance(edit, Write):
                    streams.setdefault(edit.head.identity.incarnation, []).append((number, edit))
        parts = list(streams.items())
        bound = self._pens.handles.bound
        for start in range(0, len(parts), bound):
            self._sync([self._write_log(*part) for part in parts[start : start + bound]])

    def _write_log(self, incarnation: int, writes: list[tuple[int, Write]]) -> File:
        pen = self._pens.take(incarnation, writes[0][1])
        data = self._pens.write(pen, writes)
        path = self._pens.path(incarnation, pen)
        file = self._open(path) if pen.position else self._create(path)
        file.write(data)
        pen.position = file.size
        return file

    def _open(self, path: Path) -> File:
        file = self._pens.handles.use(path)
        size = file.size
        self._hold.note(path, size)
        self._undo.append(lambda: self._cut(path, size))
        return file

    def _cut(self, path: Path, size: int) -> None:
        file = self._pens.handles.use(path)
        file.truncate(size)
        self._sync([file])

    def _create(self, path: Path) -> File:
        folder = path.parent
        self._hold.note(path, ABSENT)
        if folder not in self._made:
            self._disk.make_folder(folder)
            self._made.add(folder)
        self._folders.add(folder)
        self._undo.append(lambda: self._remove(path))
        return self._pens.handles.create(path)

    def _remove(self, path: Path) -> None:
        self._pens.handles.forget(path)
        with suppress(FileNotFoundError):
            self._disk.remove(path)
        self.removed(path.parent)
        self._sync([])

    def removed(self, folder: Path) -> None:
        """Sync a folder with the next group: something was removed from it. Any thread may say so."""
        self._removed_from.append(folder)

    def _sync(self, files: list[File]) -> None:
        folders, self._folders = self._folders, set()
        while self._removed_from:
            folders.add(self._removed_from.popleft())
        self._pens.syncer.sync(files, folders)

    def _forget_dropped(self, change: Change) -> None:
        for edit in change:
            if isinstance(edit, Drop):
                self._pens.forget(edit.head.identity.incarnation)

    def redo(self, number: int, write: Write, salt: int) -> None:
        """Put a write of an earlier time, when `salt` was used, into its log if that lacks it."""
        if self._pens.lacks(write, number, salt):
            self._write_logs([(number, (write,))])
        self._undo.clear()
        self._pens.clear()

    def close(self) -> None:
        """Sync the folders that still have to be, and close the files."""
        try:
            if not self.failed:
                self._sync([])
        finally:
            self._pens.close()


def refusal_of(error: OSError) -> Exception:
    """Tell a write that found no room from an error after which nobody knows. A failed sync is always such a one."""
    return error if isinstance(error, SyncFailed) else refusal(error)


def _enters(change: Change) -> bool:
    """Tell whether a change creates or drops a stream."""
    return any(isinstance(edit, Drop) or edit.created for edit in change)


def _batches(number: int, group: Sequence[Change]) -> Iterator[list[Numbered]]:
    """Number the changes and part them into batches, each of which is durable before the next begins.

    Within a batch the order counts for each stream alone. A joint change is a batch by itself. A soft deletion begins
    one: it rests on forks, which are other streams, and must not be there without them.
    """
    batch: list[Numbered] = []
    for change in group:
        number += 1
        joint = is_joint(change)
        if batch and (joint or any(isinstance(edit, Write) and edit.head.deleted for edit in change)):
            yield batch
            batch = []
        batch.append((number, change))
        if joint:
            yield batch
            batch = []
    if batch:
        yield batch
