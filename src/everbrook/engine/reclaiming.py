"""Reclaiming: gives back the space of what nobody retains any more, cut bytes and superseded snapshots alike.

It follows what is durable, and can be lost: what a crash leaves behind is found again when its stream is loaded, or
among the blobs at the next start. While somebody reads a stream in one go, nothing of it goes.
"""

import logging
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Executor

from everbrook.engine.faults import Callback, Faults
from everbrook.engine.stream import Stream
from everbrook.protocol.state import Head, Kept, Snapshot
from everbrook.storage.api import Storage

logger = logging.getLogger(__name__)


class Reclaimer:
    """Discards bytes and blobs of a storage. `worker` runs what waits for a disk."""

    def __init__(self, storage: Storage, worker: Executor, faults: Faults) -> None:
        self._storage = storage
        self._faults = faults
        self._worker = worker
        self._holds: Counter[int] = Counter()
        self._stopped = False

    @property
    def held(self) -> int:
        """How many streams discard nothing for now."""
        return len(self._holds)

    def hold(self, stream: Stream) -> None:
        """Let nothing of a stream go for now."""
        self._holds[stream.committed.identity.incarnation] += 1

    def release(self, stream: Stream) -> None:
        """Let go of what was to go meanwhile."""
        incarnation = stream.committed.identity.incarnation
        self._holds[incarnation] -= 1
        if not self._holds[incarnation]:
            del self._holds[incarnation]
            self._discard(incarnation)

    def tidy(self, stream: Stream) -> None:
        """Discard what a stream does not retain."""
        if stream.committed.kept.earliest:
            self._discard(stream.committed.identity.incarnation)

    def _discard(self, incarnation: int) -> None:
        """Discard, soon: what became durable together is published first, and readers at the tail get it."""
        self._faults.soon(Callback.SPACE, self._discard_now, incarnation)

    def _discard_now(self, incarnation: int) -> None:
        if incarnation not in self._holds and not self._stopped:
            self._storage.discard(incarnation)

    def cut(self, stream: Stream, before: Kept) -> None:
        """Discard what a stream has cut, and the snapshot that was replaced."""
        self.tidy(stream)
        if before.snapshot and before.snapshot != stream.committed.kept.snapshot:
            self._collect(before.snapshot)

    def dropped(self, head: Head) -> None:
        """Collect what a dropped stream had, and what it had made its source keep."""
        identity = head.identity
        for snapshot in {head.kept.snapshot, identity.first_kept.snapshot}:
            if snapshot:
                self._collect(snapshot)
        if identity.fork:
            self._discard(identity.fork.source_incarnation)

    def _collect(self, snapshot: Snapshot) -> None:
        if not snapshot.automatic:
            self._remove_unless_kept(snapshot.owner, snapshot.blob)

    def _remove_unless_kept(self, owner: int, blob: int) -> None:
        if not self._stopped and not self._storage.keeps(owner, blob):
            self._worker.submit(self._faults.run, Callback.SPACE, self._remove, owner, blob)

    def _remove(self, owner: int, blob: int) -> None:
        try:
            self._storage.blobs.remove(owner, blob)
        except OSError as error:
            # A full disk, for example: the sweep of the next start finds it again.
            logger.warning("a snapshot that nobody retains stays until the next start: %s", error)

    def sweep(self, before: int) -> None:
        """Look for orphans among the blobs of earlier runs, whose numbers are all less than `before`."""
        self._worker.submit(self._faults.run, Callback.SPACE, self._sweep_on, self._storage.blobs.all(), before)

    def _sweep_on(self, batches: Iterator[list[tuple[int, int]]], before: int) -> None:
        """Look for the next blobs of earlier runs, in the worker's thread. Whether they are kept the loop's knows."""
        for batch in batches:
            earlier = [(owner, blob) for owner, blob in batch if blob < before]
            if earlier:
                self._faults.soon_threadsafe(Callback.SPACE, self._look_at, earlier, batches, before)
                return

    def _look_at(self, found: list[tuple[int, int]], batches: Iterator[list[tuple[int, int]]], before: int) -> None:
        for owner, blob in found:
            self._faults.run(Callback.SPACE, self._remove_unless_kept, owner, blob)
        if not self._stopped:
            self._worker.submit(self._faults.run, Callback.SPACE, self._sweep_on, batches, before)

    def stop(self) -> None:
        """Begin nothing any more."""
        self._stopped = True
