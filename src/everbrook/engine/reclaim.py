"""Reclaim: frees the space of bytes that were cut, and of snapshots that were replaced.

It follows durable changes. The leftovers of a crash are found when their stream is loaded, or by the sweep of the blobs
at the next start. Nothing of a stream is discarded while a bootstrap reads it.
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
    """Discards bytes and blobs of a storage. `worker` runs the steps that wait for a disk."""

    def __init__(self, storage: Storage, worker: Executor, faults: Faults) -> None:
        self._storage = storage
        self._faults = faults
        self._worker = worker
        self._holds: Counter[int] = Counter()
        self._stopped = False

    @property
    def held(self) -> int:
        """How many streams discard nothing at present, because a bootstrap reads them."""
        return len(self._holds)

    def hold(self, stream: Stream) -> None:
        """Discard nothing of a stream until `release`."""
        self._holds[stream.committed.identity.incarnation] += 1

    def release(self, stream: Stream) -> None:
        """End a `hold`. After the last one, bytes that were not discarded meanwhile are discarded."""
        incarnation = stream.committed.identity.incarnation
        self._holds[incarnation] -= 1
        if not self._holds[incarnation]:
            del self._holds[incarnation]
            self._discard(incarnation)

    def tidy(self, stream: Stream) -> None:
        """Discard the bytes that a stream does not retain."""
        if stream.committed.kept.earliest:
            self._discard(stream.committed.identity.incarnation)

    def _discard(self, incarnation: int) -> None:
        """Discard in a later turn: before it, the whole group is published and readers at the tail get its bytes."""
        self._faults.soon(Callback.SPACE, self._discard_now, incarnation)

    def _discard_now(self, incarnation: int) -> None:
        if incarnation not in self._holds and not self._stopped:
            self._storage.discard(incarnation)

    def cut(self, stream: Stream, before: Kept) -> None:
        """Discard the bytes that a stream has cut, and the snapshot that was replaced."""
        self.tidy(stream)
        if before.snapshot and before.snapshot != stream.committed.kept.snapshot:
            self._collect(before.snapshot)

    def dropped(self, head: Head) -> None:
        """Remove the snapshots of a dropped stream, and the bytes of its source that only this fork needed."""
        identity = head.identity
        for snapshot in {head.kept.snapshot, identity.first_kept.snapshot}:
            if snapshot:
                self._collect(snapshot)
        if identity.fork:
            # The source may have cut these bytes long ago, and kept them for this fork.
            self._discard(identity.fork.source_incarnation)

    def _collect(self, snapshot: Snapshot) -> None:
        if not snapshot.automatic:
            self._remove_unless_kept(snapshot.owner, snapshot.blob)

    def _remove_unless_kept(self, owner: int, blob: int) -> None:
        # `keeps` is called on the loop, where changes are applied: a fork may have begun with this snapshot by now.
        if not self._stopped and not self._storage.keeps(owner, blob):
            self._worker.submit(self._faults.run, Callback.SPACE, self._remove, owner, blob)

    def _remove(self, owner: int, blob: int) -> None:
        try:
            self._storage.blobs.remove(owner, blob)
        except OSError as error:
            # On a full disk even a removal may fail. The sweep of the next start finds the blob again.
            logger.warning("a snapshot that no stream retains stays until the next start: %s", error)

    def sweep(self, before: int) -> None:
        """Remove the orphans among the blobs of earlier runs, whose numbers are all less than `before`.

        Blobs of this run are left alone: one that is being uploaded has no reference yet.
        """
        self._worker.submit(self._faults.run, Callback.SPACE, self._sweep_on, self._storage.blobs.all(), before)

    def _sweep_on(self, batches: Iterator[list[tuple[int, int]]], before: int) -> None:
        """Find the next blobs of earlier runs, in the worker's thread. Only the loop's thread knows which are kept."""
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
        """Discard and remove nothing any more: the engine is being closed, or has lost its folder."""
        self._stopped = True
