"""The durable storage: one journal in front of one base, for every durable mode.

A group of changes is one write, and one sync where the mode promises it. The view keeps the changes that are in the
journal and not yet in the base. In the background a checkpoint takes them into the base and trims the journal. Opening
replays only the changes that the base does not have yet, so that no change is applied twice.
"""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import lmdb
from msgspec import Struct

from everbrook.protocol.errors import StreamDamaged
from everbrook.protocol.state import Change, Write
from everbrook.storage.api import Checkpoints, Record, StorageFull
from everbrook.storage.base_rows import DATA
from everbrook.storage.base_state import BaseState, Opened, parse_opened
from everbrook.storage.checkpoint import Checkpoint
from everbrook.storage.checkpointer import Checkpointer
from everbrook.storage.codec import pack_change
from everbrook.storage.damage import Damage, DamageMark
from everbrook.storage.disk import Disk, lost_lock
from everbrook.storage.file_blobs import BLOBS, FileBlobs
from everbrook.storage.hold import Hold
from everbrook.storage.journal import Entry, Framed, Journal
from everbrook.storage.journal_scan import read_journal
from everbrook.storage.lmdb_base import LmdbBase, OpenEnvironment, open_environment
from everbrook.storage.lmdb_pages import problem_of
from everbrook.storage.manifest import (
    BASE,
    JOURNAL,
    Manifest,
    StoreError,
    open_folder,
    open_manifest,
    parse_manifest_copy,
    require_kind,
    write_manifest,
)
from everbrook.storage.merged_view import MergedView
from everbrook.storage.pin import StorePin
from everbrook.storage.record import MAX_STREAMS
from everbrook.storage.recovery import Recovery
from everbrook.storage.segments import Segments
from everbrook.storage.tuning import DEFAULT_TUNING, StorageTuning

logger = logging.getLogger(__name__)

NOTHING_PREPARED: tuple[Sequence[Change], Framed | None] = ((), None)


class DurableMode(Struct, frozen=True):
    """The promise of a storage mode, and the kind of store that keeps it."""

    store: str
    """`acid`: chunks are rows of LMDB. `file`: full chunks are in segments, plain files."""
    sync: bool
    """Whether a change is on the disk before it is acknowledged."""
    promise: str


ACID = DurableMode(
    "acid", sync=True, promise="acknowledged changes survive a crash of this machine, each entirely or not at all"
)
FILE_DURABLE = DurableMode(
    "file", sync=True, promise="acknowledged changes survive a crash of this machine, in plain files"
)
FILE_FAST = DurableMode(
    "file", sync=False, promise="acknowledged changes survive a crash of this process, not of this machine"
)


class Walk(Protocol):
    """A walk over LMDB's tree beside the storage, which looks for damaged pages."""

    def problem(self) -> str | None:
        """Return the problem of the tree, if the walk has found damage so far."""

    def stop(self) -> None:
        """End the walk, if it has not ended."""


BeginWalk = Callable[[Path, lmdb.Environment], Walk | None]
"""Begins to walk the tree of the environment in a folder. Returns None if it was walked before it was opened."""


class DurableStorage:
    """Stores streams on a disk."""

    blocking = True
    used_bytes = 0

    def __init__(  # noqa: PLR0913 - a test controls every collaborator
        self,
        disk: Disk,
        folder: Path,
        mode: DurableMode = ACID,
        *,
        salt: int,
        boot: str = "",
        tuning: StorageTuning = DEFAULT_TUNING,
        executor: Executor | None = None,
        open_environment: OpenEnvironment = open_environment,
        begin_walk: BeginWalk | None = None,
    ) -> None:
        """Open the store in `folder`, or make one. `salt` is a random number of 63 bits for a new store.

        `boot` is the id of this boot of the machine. `executor` runs checkpoints, one at a time, and is shut down with
        the storage; the default is a thread. `open_environment` opens the LMDB environment. `begin_walk` starts the
        search for damaged pages beside the storage.
        """
        self.promise = mode.promise
        self._mode = mode
        self._tuning = tuning
        self._disk = disk
        self._folder = folder
        self._hold = Hold(disk)
        self._pins: set[StorePin] = set()
        self._walk: Walk | None = None
        self._lock = open_folder(disk, folder)
        try:
            self._open(salt, boot, executor, open_environment)
            if begin_walk:
                self._walk = begin_walk(self._base.folder, self._base.env)
        except BaseException:
            self._lock.release()
            raise

    def _open(self, salt: int, boot: str, executor: Executor | None, open_environment: OpenEnvironment) -> None:
        folder, disk = self._folder, self._disk
        manifest = open_manifest(disk, folder, self._mode.store, salt)
        # The folder of the journal is made after the base. If it is missing, no opening of the store has completed, and
        # the base must be empty.
        made = JOURNAL in disk.names(folder)
        self._make_base(made=made)
        segments = Segments(
            disk,
            folder,
            self._hold,
            max_bytes=self._tuning.segment_bytes,
            max_open=self._tuning.max_open_segments,
            used=self._mode.store == FILE_DURABLE.store,
        )
        self._base = LmdbBase(folder, segments, open_environment)
        try:
            # LMDB syncs its file, but not the name of a new one.
            disk.sync_folder(folder / BASE)
            state = self._base.state()
            if not made:
                _require_empty(folder, state)
            self._begin(self._settled_manifest(manifest, state), state, boot, executor)
        except BaseException as error:
            self._base.close()
            if isinstance(error, StreamDamaged):
                raise StoreError(f"{self._base.folder / DATA} is damaged: {error}") from error
            raise

    def _make_base(self, *, made: bool) -> None:
        """Make the folder of the base. Validate an existing file before LMDB opens it, because LMDB does not."""
        base = self._folder / BASE
        self._disk.make_folder(base)
        problem = problem_of(base / DATA)
        if problem and made:
            raise StoreError(f"{base / DATA} can't be opened: {problem}")
        if problem and DATA in self._disk.names(base):
            # A crash interrupted the making of the store, so the file is empty.
            self._disk.remove(base / DATA)

    def _settled_manifest(self, manifest: Manifest | None, state: BaseState) -> Manifest:
        """Return the manifest, restored if its copy in the base differs: the copy has a checksum, and wins."""
        if state.manifest:
            copy = parse_manifest_copy(state.manifest)
            if copy != manifest:
                logger.warning("the manifest of %s was damaged, and is restored from its copy", self._folder)
                write_manifest(self._disk, self._folder, copy)
            manifest = copy
        if manifest is None:
            raise StoreError(f"the manifest of {self._folder} can't be read, and the base has no copy of it")
        require_kind(self._folder, manifest, self._mode.store)
        return manifest

    def _begin(self, manifest: Manifest, state: BaseState, boot: str, executor: Executor | None) -> None:
        disk, folder, tuning = self._disk, self._folder / JOURNAL, self._tuning
        self.epoch = manifest.epoch
        disk.make_folder(folder)
        recovered = read_journal(disk, folder, manifest.salt, state.applied, state.needed)
        opened = parse_opened(state.opened) or Opened(sync=True, boot=boot)
        self._view = view = MergedView(self._base, tuning.max_counts)
        view.last_incarnation = state.last_incarnation
        # The view does most reads. Its methods are bound here, so that a read has one call less.
        self.scan, self.count, self.mortal = view.scan, view.count, view.mortal
        self.fork_count, self.read, self.messages, self.seek = view.fork_count, view.read, view.messages, view.seek
        self.boundary_at_or_before, self.index_at, self.mark = view.boundary_at_or_before, view.index_at, view.mark
        recovery = Recovery(disk, self._folder, self._view)
        if not opened.kept_in(boot):
            # The journal was not synced, and the machine has restarted: a missing end is no damage.
            recovered = recovery.prefix_of(recovered)
        recovery.replay(recovered)
        self.remarks: Sequence[str] = recovery.remarks
        self.damages: Sequence[Damage] = recovery.damages
        self.refusal = recovery.refusal
        self._journal = Journal(
            disk, folder, manifest.salt, recovered, sync=self._mode.sync, synced=opened.sync, tuning=tuning.journal
        )
        self._applied = self._journal.last
        self.blobs = FileBlobs(
            disk, self._folder / BLOBS, self._hold, self._journal.settle, sync_bytes=tuning.blob_sync_bytes
        )
        self._checkpointer = Checkpointer(
            self._base,
            self._journal,
            self._view,
            self._hold,
            executor or ThreadPoolExecutor(1, "everbrook-checkpoint"),
            tuning,
        )
        self._opened = (Opened(self._mode.sync, boot), manifest, state.applied)
        self._prepared: tuple[Sequence[Change], Framed | None] = NOTHING_PREPARED
        self._writable = False
        if not self.refusal:
            # Before the first checkpoint of this process: a segment that it begins must not be taken for a leftover.
            self._checkpointer.remove_leftovers(recovery.written)
            try:
                self._begin_writing()
            except StorageFull as error:
                logger.warning("%s can be read, but there is no room to write: %s", self._folder, error)

    def _begin_writing(self) -> None:
        """Begin a file of the journal, and record in the base how the store was opened.

        A store that refuses changes is left unchanged, so that the next start finds the same loss.
        """
        opened, manifest, applied = self._opened
        try:
            # The file is begun first: from then on recovery needs it, and `set_needed` says so.
            self._journal.begin()
            with Checkpoint(self._base, self._tuning) as checkpoint:
                checkpoint.set_opened(opened, manifest)
                checkpoint.set_needed(self._journal.needed_after(applied))
                checkpoint.set_damage(dict(self._view.marks))
                checkpoint.commit()
        except lmdb.DiskError as error:
            raise StorageFull(f"the disk is full: {error}") from error
        except lmdb.Error as error:
            raise StoreError(f"{self._base.folder / DATA} can't be written: {error}") from error
        self._writable = True

    @property
    def checkpoints(self) -> Checkpoints:
        return self._checkpointer.stats

    @property
    def last_incarnation(self) -> int:
        return self._view.last_incarnation

    @property
    def damaged_streams(self) -> int:
        return len(self._view.marks)

    # Writing

    def bucket_bytes(self, _bucket_id: bytes) -> int:
        return 0

    def cost_bytes(self, _write: Write) -> int:
        return 0

    def prepare(self, group: Sequence[Change]) -> None:
        size = sum([len(edit.data) for change in group for edit in change if isinstance(edit, Write)])
        # Large groups are framed by `persist`: that would make a long turn of the event loop.
        self._prepared = (group, self._frame(group)) if size <= self._tuning.max_prepared_bytes else NOTHING_PREPARED

    def _frame(self, group: Sequence[Change]) -> Framed:
        return self._journal.frame([_entry(change) for change in group], self._journal.last)

    def persist(self, group: Sequence[Change]) -> None:
        if self.refusal:
            raise StorageFull(self.refusal)
        if not self._writable:
            self._begin_writing()
        self._checkpointer.wait_for_room()
        prepared_group, framed = self._prepared
        if framed is None or prepared_group is not group:
            framed = self._frame(group)
        self._journal.append(framed)
        self._checkpointer.stats.journal_bytes = self._journal.pending_bytes

    @property
    def unsealed(self) -> bool:
        return self._journal.unsealed

    def seal(self) -> None:
        self._journal.seal()

    def apply(self, group: Sequence[Change]) -> None:
        take = self._view.take
        for change in group:
            for edit in change:
                take(edit)
        self._applied += len(group)
        self._checkpointer.follow(self._applied)

    def discard(self, incarnation: int) -> None:
        self._checkpointer.discard(incarnation)

    # Reading

    def load(self, name: bytes) -> Record | None:
        return self._view.load(name)

    def keeps(self, owner: int, blob: int) -> bool:
        return self._view.keeps(owner, blob)

    def damage_of(self, incarnation: int) -> DamageMark | None:
        return self._view.marks.get(incarnation)

    # Pins, and the end

    def pin(self) -> StorePin:
        pin = StorePin(self._disk, self._folder, self._mode.store, self._journal, self._base, self._hold, self._unpin)
        self._pins.add(pin)
        return pin

    def _unpin(self, pin: StorePin, removable: list[Path]) -> None:
        self._pins.discard(pin)
        self._journal.recycles = not self._pins
        if removable:
            self._checkpointer.remove_later(removable)

    def verify(self) -> str | None:
        return lost_lock(self._lock) or (self._walk.problem() if self._walk else None)

    def close(self) -> None:
        """Make a last checkpoint, so that the next opening replays nothing, and release the files and the lock.

        A group that was persisted and never applied is only in the journal. Then there is no checkpoint, and the
        journal stays.
        """
        refused = self.refusal or (self._walk.problem() if self._walk else None)
        if self._walk:
            self._walk.stop()
        for pin in list(self._pins):
            pin.release()
        try:
            # A store that refuses changes gets no checkpoint, because its journal must show the loss until a repair.
            trimmed = self._checkpointer.close(None if refused else self._applied)
            # The seal may fail: recovery accepts an unsealed last group, unless the group is damaged by then.
            with suppress(OSError, StorageFull):
                self._journal.close(trimmed=trimmed)
        finally:
            self._base.close()
            self._lock.release()


def _require_empty(folder: Path, state: BaseState) -> None:
    if state.applied:
        raise StoreError(f"{folder} holds a store without its {JOURNAL}")


def _entry(change: Change) -> Entry:
    """Return the journal entry of a change: the streams that it edits, and the packed change."""
    if len(change) == 1:
        return (change[0].head.identity.incarnation,), pack_change(change)
    streams = dict.fromkeys(edit.head.identity.incarnation for edit in change)
    return tuple(streams)[:MAX_STREAMS], pack_change(change)
