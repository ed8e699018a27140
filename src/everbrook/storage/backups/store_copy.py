"""The copy of a pinned store: an unchanged file is a hard link to the last backup, other files are copied by blocks.

A file is verified before it is linked: a damaged block of the last backup is copied again, so that damage does not
spread. Blocks of many files are requested together, some batches ahead of those that are being written.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from math import inf
from pathlib import Path
from threading import Event, Lock
from time import monotonic

from everbrook.storage.api import Pin, PinnedFile
from everbrook.storage.backups.backup import Backup, Entry, GivenUp, format_list, require_inside
from everbrook.storage.backups.file_copy import DRAFT, EMPTY, Basis, FileCopy, Source, digests, draft_of, link
from everbrook.storage.backups.pieces import Asked, Piece, read_pieces
from everbrook.storage.journal_scan import parse_log_file


class ReadRate:
    """Bounds the bytes per second that all threads together read."""

    def __init__(self, bytes_per_sec: float = inf) -> None:
        self._bytes_per_sec = bytes_per_sec
        self._lock = Lock()
        self._due_at = 0.0

    def wait_secs(self, size: int) -> float:
        """Return how long to wait after `size` more bytes were read."""
        with self._lock:
            now = monotonic()
            self._due_at = max(now, self._due_at) + size / self._bytes_per_sec
            return self._due_at - now


BATCH_PIECES = 256
BATCH_BYTES = 4 * 1024 * 1024
BATCHES_AHEAD = 3
ASKING_THREADS = 2

Report = Callable[[int], None]
"""Called with the number of bytes that were copied or linked since the last call."""


class PinSource:
    """Reads pieces of a store from a pin in this process."""

    def __init__(self, pin: Pin) -> None:
        self._pin = pin
        self.folders = pin.folders
        self.files = pin.files

    def pieces(self, asked: Sequence[Asked]) -> list[Piece]:
        return list(read_pieces(self._pin, asked))


class StoreCopy:
    """Copies a store into a folder."""

    def __init__(
        self,
        source: Source,
        target: Path,
        previous: Backup | None,
        report: Report,
        given_up: Event,
        bytes_per_sec: float = inf,
    ) -> None:
        """Use the files that are in `target` already, and those of `previous`, the last backup.

        Once `given_up` is set, `run` raises `GivenUp`. `bytes_per_sec` bounds the bytes that are read, including those
        that the target has already.
        """
        self._source = source
        self.target = target
        self._previous = previous.store if previous else None
        self._known = {_identity(entry.name): entry for entry in previous.entries()} if previous else {}
        self._report = report
        self._rate = ReadRate(bytes_per_sec)
        self._given_up = given_up
        self._left_over: dict[str, list[Path]] = {}
        for path in _files_in(target):
            name = path.relative_to(target).as_posix().removesuffix(DRAFT)
            self._left_over.setdefault(_identity(name), []).append(path)
        self.entries: list[Entry] = []
        self.folders: list[str] = []
        self.written: list[Path] = []
        self.done_bytes = 0
        self.copied_bytes = 0

    def run(self) -> None:
        """Copy all files. They are not synced yet."""
        try:
            self._copy_all()
        finally:
            if self._last:
                self._last.close()
        if self._left_over:
            self._remove_others()

    def listed(self) -> bytes:
        """Return the list of the files, formatted."""
        return format_list(self.entries)

    def _copy_all(self) -> None:
        with ThreadPoolExecutor(ASKING_THREADS, "everbrook-copy") as threads:
            try:
                self._copy_by(threads)
            except BaseException:
                # The pieces that were requested ahead are no longer needed: do not wait for them.
                self._given_up.set()
                threads.shutdown(wait=False, cancel_futures=True)
                raise
        self._finish_last()

    def _copy_by(self, threads: ThreadPoolExecutor) -> None:
        under_way: deque[tuple[list[tuple[FileCopy, Asked]], Future[list[Piece]]]] = deque()
        for batch in self._batches():
            # Some batches are requested ahead, so that the source reads while this thread writes.
            under_way.append((batch, threads.submit(self._ask, [asked for _, asked in batch])))
            if len(under_way) > BATCHES_AHEAD:
                self._take(*under_way.popleft())
        while under_way:
            self._take(*under_way.popleft())

    def _ask(self, asked: list[Asked]) -> list[Piece]:
        pieces: list[Piece] = []
        while len(pieces) < len(asked):
            self._require_wanted()
            rest = asked[len(pieces) :]
            given = self._source.pieces(rest)
            # `given_up` ends this wait too, so that an interrupted copy does not sleep on.
            self._given_up.wait(self._rate.wait_secs(sum(each.size for each in rest[: len(given)])))
            pieces += given
        return pieces

    def _require_wanted(self) -> None:
        if self._given_up.is_set():
            raise GivenUp("the copy was given up")

    def _batches(self) -> "Iterator[list[tuple[FileCopy, Asked]]]":
        batch: list[tuple[FileCopy, Asked]] = []
        size = 0
        for copy in self._copies():
            for asked in copy.asked():
                batch.append((copy, asked))
                size += asked.size
                if len(batch) >= BATCH_PIECES or size >= BATCH_BYTES:
                    yield batch
                    batch, size = [], 0
        if batch:
            yield batch

    def _copies(self) -> Iterator[FileCopy]:
        """Yield a copy for each file that can't be linked, and link the others."""
        self.folders = self._source.folders()
        for folder in self.folders:
            require_inside(folder)
            (self.target / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
            for file in self._source.files(folder):
                require_inside(file.name)
                self._require_wanted()
                if not self._link(file):
                    yield FileCopy(self._source, file, self.target / file.name, list(self._bases(file)))

    def _link(self, file: PinnedFile) -> bool:
        """Link a file if the last backup has it unchanged."""
        known = self._known.get(_identity(file.name))
        if not (self._previous and known and file.stamp and known.stamp == file.stamp and known.size == file.size):
            return False
        path = self._previous / file.name
        if not (_has_size(path, file.size) and Basis(path, file.size, []).holds(known.blocks or [EMPTY])):
            return False
        link(path, self.target / file.name)
        self._add(known, 0)
        # On a file system without hard links the link is a copy, which must be synced.
        self.written.append(self.target / file.name)
        return True

    def _bases(self, file: PinnedFile) -> Iterator[Basis]:
        """Yield earlier copies of a file: those that a killed run has left, and the one in the last backup."""
        path, identity = self.target / file.name, _identity(file.name)
        _adopt_draft(draft_of(path), path)
        for left in {path: None} | dict.fromkeys(self._left_over.get(identity, ())):
            if left.is_file():
                yield Basis(left, left.stat().st_size, list(digests(left)))
        known = self._known.get(identity)
        if self._previous and known and _has_size(self._previous / known.name, known.size):
            yield Basis(self._previous / known.name, known.size, known.blocks or [EMPTY])

    _last: FileCopy | None = None

    def _take(self, batch: list[tuple[FileCopy, Asked]], asking: Future[list[Piece]]) -> None:
        for (copy, asked), piece in zip(batch, asking.result(), strict=True):
            if copy is not self._last:
                self._finish_last()
                self._last = copy
            copy.take(asked, piece)

    def _finish_last(self) -> None:
        copy, self._last = self._last, None
        if copy is None:
            return
        entry = copy.finish()
        if entry:
            self._add(entry, copy.copied_bytes)
            self.written.append(self.target / entry.name)

    def _add(self, entry: Entry, copied_bytes: int) -> None:
        self.entries.append(entry)
        self.done_bytes += entry.size
        self.copied_bytes += copied_bytes
        self._report(entry.size)

    def _remove_others(self) -> None:
        """Remove the files that a killed run has left and that this copy does not have."""
        names = {entry.name for entry in self.entries}
        for path in _files_in(self.target):
            if path.relative_to(self.target).as_posix() not in names:
                path.unlink()


def _identity(name: str) -> str:
    """Return the part of a file's name that does not change when it grows: the name of a journal file has its size."""
    file = parse_log_file(Path(name))
    return f"{file.first}-{file.use}" if file else name


def _files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _adopt_draft(draft: Path, path: Path) -> None:
    """Move the draft of a killed run to the path of its file, where it is read and never written to."""
    if draft.is_file() and not (path.is_file() and path.stat().st_size >= draft.stat().st_size):
        draft.rename(path)


def _has_size(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except OSError:
        return False
