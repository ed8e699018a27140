"""The acid engine: a group of changes is one write and one sync of the journal; LMDB takes them over in the background.

Opening replays the journal over the shelf, skipping what a shard has already, so doing it twice changes nothing.
"""

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import lmdb

from everbrook.protocol.change import Change, Drop, Edit, Write
from everbrook.protocol.content_type import DEFAULT_CONTENT_TYPE
from everbrook.protocol.errors import StreamDamaged
from everbrook.protocol.state import Head, Identity
from everbrook.storage.acid.journal import Damage, Journal
from everbrook.storage.acid.listing import Counts, Listing
from everbrook.storage.acid.pinning import AcidPin
from everbrook.storage.acid.recent import Recent
from everbrook.storage.acid.shard import OpenEnvironment, Shard, open_environment
from everbrook.storage.acid.shelf import Shelf
from everbrook.storage.acid.tuning import DEFAULT_TUNING, AcidTuning
from everbrook.storage.checkpoints import Checkpoints
from everbrook.storage.disk import Disk
from everbrook.storage.file_blobs import BLOBS, FileBlobs
from everbrook.storage.manifest import FORMAT, Manifest, StoreError, open_folder, open_manifest
from everbrook.storage.packing import Unpacker, pack_change, unpack_edit
from everbrook.storage.retained import floor_of, needs_blob

logger = logging.getLogger(__name__)

JOURNAL = "journal"
# How many forks are asked whether they need a blob. Where there are more, one of them does.
MAX_ASKED_FORKS = 1000


class AcidStorage(Listing):
    """Streams that survive the machine, all-or-nothing across data, metadata and streams."""

    promise = "what is acknowledged survives a crash of this machine, entirely or not at all"
    blocking = True
    used_bytes = 0

    def __init__(
        self,
        disk: Disk,
        folder: Path,
        *,
        shard_count: int,
        salt: int,
        tuning: AcidTuning = DEFAULT_TUNING,
        executor: Executor | None = None,
        open_environment: OpenEnvironment = open_environment,
    ) -> None:
        """Open the store in `folder`, or make one. `salt` is a random number of 32 bits.

        `executor` folds the journal, one step after the other, and is shut down with the storage; the default is a
        thread. `open_environment` opens the LMDB environment of a shard.
        """
        self._tuning = tuning
        self._executor = executor or ThreadPoolExecutor(1, "everbrook-fold")
        self._lock = open_folder(disk, folder)
        try:
            self._open(disk, folder, shard_count, salt, lambda path: Shard(path, tuning, open_environment))
        except BaseException:
            self._lock.release()
            raise

    def _open(self, disk: Disk, folder: Path, shard_count: int, salt: int, open_shard: Callable[[Path], Shard]) -> None:
        open_manifest(disk, folder, Manifest(FORMAT, "acid", shard_count))
        # The journal's folder is made when all shards are: without it there can't be anything in them yet.
        made = JOURNAL in disk.names(folder)
        self._shelf = Shelf(disk, folder, shard_count, open_shard, made=made)
        try:
            self._begin(disk, folder, salt, made=made)
        except BaseException:
            self._shelf.close()
            raise

    def _begin(self, disk: Disk, folder: Path, salt: int, *, made: bool) -> None:
        if self._shelf.newest_applied and not made:
            raise StoreError(f"{folder} holds a store without its {JOURNAL}")
        disk.make_folder(folder / JOURNAL)
        self._fold_at_bytes = self._tuning.fold_at_bytes
        self._journal = Journal(disk, folder / JOURNAL, salt)
        self.blobs = FileBlobs(disk, folder / BLOBS, durable=True, sync_bytes=self._tuning.blob_sync_bytes)
        self.last_incarnation = self._shelf.last_incarnation
        self._recent = Recent()
        self._counts = Counts(self._tuning.max_counts)
        self._damaged = self._shelf.damaged()
        self._applied = 0
        self._folding: Recent | None = None
        self._fold: Future[None] | None = None
        self._discarding: Future[None] | None = None
        self._fold_number = 0
        self._fold_paths: list[Path] = []
        self._retry_at_bytes = 0
        self._folder = folder
        self._pins: set[AcidPin] = set()
        self.checkpoints = Checkpoints()
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
                edit = unpack_edit(unpacker, self._head_before)
                shelved = self._shelf.has(edit, record.number)
                if shelved or self._follows(edit):
                    self._take(edit, shelved=shelved)
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

    def _known_head(self, incarnation: int) -> Head | None:
        try:
            return self._head(incarnation)
        except StreamDamaged:
            return None

    def _head_before(self, incarnation: int) -> Head:
        """Give a stream as it is before an edit of it. What an unknown one is does not matter: nothing follows it."""
        nobody = Identity(b"", incarnation, DEFAULT_CONTENT_TYPE, DEFAULT_CONTENT_TYPE, 0)
        return self._known_head(incarnation) or Head(nobody, 0, 0)

    def _follows(self, edit: Edit) -> bool:
        """Tell whether an edit follows what is known of its stream. If not, what lies between was lost."""
        identity = edit.head.identity
        if isinstance(edit, Drop) or edit.created:
            return True
        before = self._known_head(identity.incarnation)
        if before and before.tail == edit.head.tail - len(edit.data):
            return True
        self._damaged.add(identity.incarnation)
        return False

    def _take(self, edit: Edit, *, shelved: bool = False) -> None:
        self._recent.apply(edit, shelved=shelved)
        if isinstance(edit, Write) and edit.created:
            self.last_incarnation = max(self.last_incarnation, edit.head.identity.incarnation)

    # Writing

    def cost_bytes(self, _write: Write) -> int:
        return 0

    def persist(self, group: Sequence[Change]) -> None:
        self._journal.append([pack_change(change) for change in group])
        self.checkpoints.journal_bytes = self._journal.size

    def apply(self, group: Sequence[Change]) -> None:
        for change in group:
            for edit in change:
                self._take(edit)
                self._counts.follow(edit)
        self._applied += len(group)
        self._end_fold()
        if self._folding is None and self._journal.size >= self._fold_at_bytes:
            self._begin_fold()

    def _begin_fold(self) -> None:
        """Set the recent changes aside and fold them in the background. The journal goes on in a new file."""
        self._folding, self._recent = self._recent, Recent()
        if self._folding.order.sorted:
            self._recent.order.sort()
        self._fold_number, self._fold_paths = self._journal.last, self._journal.roll()
        self._retry_at_bytes = 0
        self._fold = self._executor.submit(self._fold_aside, self._folding, self._fold_number, self._fold_paths)

    def _fold_aside(self, recent: Recent, number: int, paths: list[Path]) -> None:
        began = time.perf_counter()
        try:
            self._shelf.fold(recent, number, self._damaged)
            self._journal.remove(paths)
        except BaseException:
            self.checkpoints.note(time.perf_counter() - began, failed=True)
            raise
        self.checkpoints.note(time.perf_counter() - began)

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
            self._fold = self._executor.submit(self._fold_aside, self._folding, self._fold_number, self._fold_paths)

    # Giving space back

    def discard(self, incarnation: int) -> None:
        """Let go of what nobody needs of a stream: in memory now, on the shelf with the next fold, or if it is much."""
        try:
            floor = self._floor(incarnation)
        except StreamDamaged:
            return
        if floor:
            self._recent.discard(incarnation, floor, self._discardable_bytes(incarnation, floor))
            if self._recent.discardable_bytes >= self._fold_at_bytes:
                self._begin_discarding()

    def _begin_discarding(self) -> None:
        """Discard in the background, after the fold that is under way. If it waits already it takes this in."""
        self._recent.discardable_bytes = 0
        if self._discarding is None or self._discarding.running() or self._discarding.done():
            self._discarding = self._executor.submit(self._discard_aside)

    def _discard_aside(self) -> None:
        """Discard what is noted now. It stays noted: should this fail, the next fold does it."""
        try:
            self._shelf.discard(self._recent.floors.copy())
        except (OSError, lmdb.Error) as error:
            logger.warning("what no stream retains could not be removed from LMDB, and will be later: %s", error)

    def _floor(self, incarnation: int) -> int:
        """Give the offset before which nobody needs a stream's bytes; 0 also if that is not known."""
        head = self._head(incarnation)
        if head is None or not head.kept.earliest or incarnation in self._damaged:
            return 0
        oldest_fork = next(iter(self._fork_identities(incarnation, 0, 1)), None)
        return floor_of(head, oldest_fork)

    def _discardable_bytes(self, incarnation: int, floor: int) -> int:
        """Count what the shelf has before an offset, and will have when the fold that is under way is done."""
        run = self._folding.run(incarnation) if self._folding else None
        folding_bytes = max(0, min(floor, run.tail) - run.first) if run else 0
        return self._shelf.bytes_before(incarnation, floor) + folding_bytes

    def keeps(self, owner: int, blob: int) -> bool:
        try:
            # A fork has the snapshot that its source had when it was made, and so no younger one.
            forks = self._fork_identities(owner, blob, MAX_ASKED_FORKS + 1)
            return len(forks) > MAX_ASKED_FORKS or needs_blob(self._head(owner), forks, blob)
        except StreamDamaged:
            return True

    # Pinning

    def pin(self) -> AcidPin:
        pin = AcidPin(self._folder, self._shelf.pin, self.blobs, self._unpin)
        self._pins.add(pin)
        return pin

    def _unpin(self, pin: AcidPin, removable: list[Path]) -> None:
        self._pins.discard(pin)
        if removable:
            self._executor.submit(self._remove_blobs, removable)

    def _remove_blobs(self, paths: list[Path]) -> None:
        """Remove what was put off. What can't be, the next start finds."""
        for path in paths:
            with suppress(OSError):
                self.blobs.hold.remove(path)

    def close(self) -> None:
        """Fold what is left, so that the next opening has nothing to replay, and let everything go.

        A group that was persisted and never applied is only in the journal, which then stays.
        """
        for pin in list(self._pins):
            pin.release()
        self._executor.shutdown()
        if self._fold and self._fold.exception() is None:
            self._folding = None
        if self._folding is None and self._journal.size and self._applied == self._journal.last:
            try:
                self._fold_aside(self._recent, self._journal.last, self._journal.roll())
            except (OSError, lmdb.Error) as error:
                logger.warning("the journal could not be folded into LMDB; the next opening replays it: %s", error)
        elif self._recent.floors:
            self._discard_aside()
        self._journal.close()
        self._shelf.close()
        self._lock.release()
