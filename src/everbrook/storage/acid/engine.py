"""The acid engine: a group of changes is one write and one sync of the journal; LMDB takes them over in the background.

Three layers answer together, the newest first: the recent changes, those that are being folded, and the shelf.
Opening replays the journal over the shelf, skipping what a shard has already, so doing it twice changes nothing.
"""

import logging
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import lmdb

from everbrook.protocol.change import Change, Drop, Edit, Write
from everbrook.protocol.content_type import DEFAULT_CONTENT_TYPE
from everbrook.protocol.errors import StreamDamaged, quoted
from everbrook.protocol.state import Head, Identity, Producer
from everbrook.storage.acid.journal import Damage, Journal
from everbrook.storage.acid.recent import Recent
from everbrook.storage.acid.shelf import Shelf
from everbrook.storage.api import Record
from everbrook.storage.disk import Disk
from everbrook.storage.manifest import FORMAT, FolderLock, Manifest, StoreError, open_manifest
from everbrook.storage.packing import Unpacker, pack_change, unpack_edit
from everbrook.storage.run import Run

logger = logging.getLogger(__name__)

FOLD_AT_BYTES = 32 * 1024 * 1024


class AcidStorage:
    """Streams that survive the machine, all-or-nothing across data, metadata and streams."""

    promise = "what is acknowledged survives a crash of this machine, entirely or not at all"
    blocking = True
    used_bytes = 0

    def __init__(
        self, disk: Disk, folder: Path, *, shard_count: int, salt: int, fold_at_bytes: int = FOLD_AT_BYTES
    ) -> None:
        """Open the store in `folder`, or make one. `salt` is a random number of 32 bits."""
        disk.make_folder(folder)
        self._lock = FolderLock(folder)
        try:
            self._open(disk, folder, shard_count, salt, fold_at_bytes)
        except BaseException:
            self._lock.release()
            raise

    def _open(self, disk: Disk, folder: Path, shard_count: int, salt: int, fold_at_bytes: int) -> None:
        open_manifest(disk, folder, Manifest(FORMAT, "acid", shard_count))
        disk.make_folder(folder / "journal")
        self._fold_at_bytes = fold_at_bytes
        self._shelf = Shelf(disk, folder, shard_count)
        self._journal = Journal(disk, folder / "journal", salt)
        self._recent = Recent()
        self._damaged = self._shelf.damaged()
        self._applied = 0
        self._folding: Recent | None = None
        self._fold: Future[None] | None = None
        self._fold_number = 0
        self._fold_paths: list[Path] = []
        self._retry_at_bytes = 0
        self._thread = ThreadPoolExecutor(1, "everbrook-fold")
        self._replay()

    def _replay(self) -> None:
        records = self._journal.recover(self._shelf.applied)
        if self._shelf.applied < self._shelf.newest_applied and (
            not records or records[0].number > self._shelf.applied + 1
        ):
            raise StoreError("a shard is behind the others, and the journal does not have what it lacks")
        for record in records:
            unpacker = Unpacker(record.body)
            while not unpacker.done:
                edit = unpack_edit(unpacker, self._identity_of)
                shelved = self._shelf.has(edit, record.number)
                if shelved or self._follows(edit):
                    self._recent.apply(edit, shelved=shelved)
        self._applied = self._journal.last
        for damage in self.damages:
            logger.error(
                "the journal is damaged: %s at %d, changes %d to %d are lost",
                damage.path,
                damage.position,
                damage.first,
                damage.last,
            )

    @property
    def damages(self) -> list[Damage]:
        """What of the journal can't be read any more."""
        return self._journal.damages

    def _identity_of(self, incarnation: int) -> Identity:
        head = self._head(incarnation)
        return head.identity if head else Identity(b"", incarnation, DEFAULT_CONTENT_TYPE, DEFAULT_CONTENT_TYPE, 0)

    def _follows(self, edit: Edit) -> bool:
        """Tell whether an edit follows what is known of its stream. If not, what lies between was lost."""
        identity = edit.head.identity
        if isinstance(edit, Drop) or edit.created:
            return True
        before = self._head(identity.incarnation)
        if before and before.tail == edit.head.tail - len(edit.data):
            return True
        self._damaged.add(identity.incarnation)
        return False

    def _head(self, incarnation: int) -> Head | None:
        for layer in self._layers():
            stream = layer.streams.get(incarnation)
            if stream:
                return stream.head
        return self._shelf.head(incarnation)

    def _layers(self) -> tuple[Recent, ...]:
        return (self._recent, self._folding) if self._folding else (self._recent,)

    # Writing

    def cost_bytes(self, _write: Write) -> int:
        return 0

    def persist(self, group: Sequence[Change]) -> None:
        self._journal.append([pack_change(change) for change in group])

    def apply(self, group: Sequence[Change]) -> None:
        for change in group:
            for edit in change:
                self._recent.apply(edit)
        self._applied += len(group)
        self._end_fold()
        if self._folding is None and self._journal.size >= self._fold_at_bytes:
            self._begin_fold()

    def _begin_fold(self) -> None:
        """Set the recent changes aside and fold them in the background. The journal goes on in a new file."""
        self._folding, self._recent = self._recent, Recent()
        self._fold_number, self._fold_paths = self._journal.last, self._journal.roll()
        self._retry_at_bytes = 0
        self._fold = self._thread.submit(self._fold_aside, self._folding, self._fold_number, self._fold_paths)

    def _fold_aside(self, recent: Recent, number: int, paths: list[Path]) -> None:
        self._shelf.fold(recent, number, self._damaged)
        self._journal.remove(paths)

    def _end_fold(self) -> None:
        """See whether a fold is done. One that failed is tried again: until it succeeds the journal keeps it all."""
        if self._fold is None or not self._fold.done() or self._folding is None:
            return
        error = self._fold.exception()
        if error is None:
            self._fold = self._folding = None
        elif self._journal.size >= self._retry_at_bytes:
            logger.error("the journal could not be folded into LMDB and will be again: %s", error)
            self._retry_at_bytes = self._journal.size + self._fold_at_bytes
            self._fold = self._thread.submit(self._fold_aside, self._folding, self._fold_number, self._fold_paths)

    # Reading

    def load(self, name: bytes) -> Record | None:
        incarnation = self._incarnation(name)
        if incarnation is None:
            return None
        head = self._head(incarnation)
        if head is None or incarnation in self._damaged:
            raise StreamDamaged(f"a part of the stream at {quoted(name)} was lost with a damaged part of the journal")
        return Record(head, self._producers(incarnation))

    def _incarnation(self, name: bytes) -> int | None:
        for layer in self._layers():
            if name in layer.names:
                return layer.names[name]
        return self._shelf.incarnation(name)

    def _producers(self, incarnation: int) -> dict[bytes, Producer]:
        producers: dict[bytes, Producer] = {}
        streams = [layer.streams.get(incarnation) for layer in self._layers()]
        if not any(stream and stream.created for stream in streams):
            producers = self._shelf.producers(incarnation)
        for stream in reversed(streams):
            if stream:
                for producer_id in stream.forgotten:
                    producers.pop(producer_id, None)
                producers.update(stream.producers)
        return producers

    def mortal(self, after: int, limit: int) -> list[Head]:
        """Give streams that can expire: those on the shelf that live, and those that have not got there."""
        recent = {
            incarnation: stream.head
            for layer in reversed(self._layers())
            for incarnation, stream in layer.streams.items()
            if incarnation > after and stream.head.identity.mortal
        }
        dropped = {incarnation for layer in self._layers() for incarnation in layer.dropped}
        shelved = {head.identity.incarnation: head for head in self._shelf.mortal(after, limit + len(dropped))}
        heads = {**shelved, **recent}
        return [heads[incarnation] for incarnation in sorted(heads.keys() - dropped)[:limit]]

    def fork_count(self, incarnation: int) -> int:
        forks = self._shelf.forks(incarnation)
        for layer in reversed(self._layers()):
            forks |= layer.forked.get(incarnation, set())
            forks -= layer.unforked.get(incarnation, set())
        return len(forks)

    def _runs(self, incarnation: int) -> list[Run]:
        """Give the runs of a stream that are in memory, the newest first."""
        return [run for layer in self._layers() if (run := layer.run(incarnation))]

    def read(self, incarnation: int, start: int, end: int) -> bytes:
        parts: list[bytes] = []
        for run in self._runs(incarnation):
            if run.first < end and start < end:
                first = max(start, run.first)
                parts.append(run.read(first, end))
                end = first
        if start < end:
            parts.append(self._shelf.read(incarnation, start, end))
        return parts[0] if len(parts) == 1 else b"".join(reversed(parts))

    def boundary_at_or_before(self, incarnation: int, offset: int) -> int:
        for run in self._runs(incarnation):
            if run.first < offset:
                return run.boundary_at_or_before(offset)
        return self._shelf.boundary_at_or_before(incarnation, offset)

    def boundary_after(self, incarnation: int, offset: int) -> int:
        for run in self._runs(incarnation):
            if run.first <= offset:
                return run.boundary_after(offset)
        return self._shelf.boundary_after(incarnation, offset)

    def append_end(self, incarnation: int, offset: int) -> int:
        for run in self._runs(incarnation):
            if run.first <= offset:
                return run.append_end(offset)
        return self._shelf.append_end(incarnation, offset)

    def close(self) -> None:
        """Fold what is left, so that the next opening has nothing to replay, and let everything go.

        A group that was persisted and never applied is only in the journal, which then stays.
        """
        self._thread.shutdown()
        self._end_fold()
        if self._folding is None and self._journal.size and self._applied == self._journal.last:
            try:
                self._fold_aside(self._recent, self._journal.last, self._journal.roll())
            except (OSError, lmdb.Error) as error:
                logger.warning("the journal could not be folded into LMDB; the next opening replays it: %s", error)
        self._journal.close()
        self._shelf.close()
        self._lock.release()
