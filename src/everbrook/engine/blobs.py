"""Blobs of snapshots: bounds how many are open at a time, and uploads new ones.

Each open blob is an open file, so the number of blobs that are written and read at once is bounded.

A thread writes the bytes of an upload into its blob while more of them arrive. Appends do not wait for it: the commit
thread and the thread of the blobs share only the disk.
"""

import logging
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from hashlib import sha256

from everbrook.engine.faults import Callback, Faults
from everbrook.engine.tuning import UploadTuning
from everbrook.protocol.errors import MemoryFull, ProtocolError, Unavailable
from everbrook.protocol.state import Snapshot
from everbrook.storage.api import BlobReader, Blobs, Draft, Storage, StorageFull
from everbrook.storage.damage import Damaged

Tell = Callable[[Damaged], None]


class OpenBlobs:
    """Counts the blobs of a storage that are open."""

    def __init__(self, blobs: Blobs, most: int) -> None:
        """At most `most` blobs are open at a time."""
        self._blobs = blobs
        self._most = most
        self.count = 0

    def enter(self) -> None:
        """Count one more open blob, or refuse it."""
        if self.count >= self._most:
            raise Unavailable(f"{self.count} snapshots are being written and read, and no more can be at once")
        self.count += 1

    def leave(self) -> None:
        """Count one open blob less."""
        self.count -= 1

    def open(self, snapshot: Snapshot, tell: Tell) -> "CountedReader":
        """Open the blob of a snapshot, which counts until it is closed. `tell` is called with damage that is found."""
        self.enter()
        try:
            return CountedReader(self._blobs.open(snapshot.owner, snapshot.blob, snapshot.size), self, tell)
        except StorageFull as error:
            self.leave()
            raise Unavailable(f"the snapshot can't be read now: {error}") from error
        except Damaged as damage:
            self.leave()
            tell(damage)
            raise
        except BaseException:
            self.leave()
            raise


class CountedReader:
    """Reads a blob, which counts as open until `close`."""

    def __init__(self, reader: BlobReader, open_blobs: OpenBlobs, tell: Tell) -> None:
        self._reader = reader
        self._open_blobs = open_blobs
        self._tell = tell
        self._damage: Damaged | None = None

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most `size`; none at the end. Any thread may call."""
        try:
            return self._reader.read(size)
        except Damaged as damage:
            # `close` reports it, because only the loop's thread may mark the stream.
            self._damage = damage
            raise

    def close(self) -> None:
        """Close the blob, and report the damage that `read` has found. Only the loop's thread may call."""
        self._reader.close()
        self._open_blobs.leave()
        if self._damage:
            self._tell(self._damage)


logger = logging.getLogger(__name__)

Finished = Callable[[ProtocolError | None], None]


class Upload:
    """A blob that is being written. All calls come from the loop's thread."""

    def __init__(
        self,
        storage: Storage,
        worker: Executor,
        faults: Faults,
        last_change: Callable[[], int],
        key: tuple[int, int],
        check_memory: Callable[[int], None],
        tuning: UploadTuning,
    ) -> None:
        """Write the blob of `key`, the pair of its stream and its number.

        `check_memory` refuses bytes for which memory has no room. `last_change` returns the number of the newest
        change; by it the upload notices whether others write.
        """
        self._storage = storage
        self._worker = worker
        self._faults = faults
        self._last_change = last_change
        self._seen_change = last_change()
        self._pausing = False
        self._check_memory = check_memory
        self._tuning = tuning
        self._draft: Draft | None = None
        self._hash = sha256()
        self._failure: ProtocolError | None = None
        self._backlog_bytes = 0
        self._settled = False
        self._removed = False
        self.on_relief: Callable[[], None] | None = None
        self.on_closed: Callable[[], None] | None = None
        self.check_size: Callable[[int], None] | None = None
        self.owner, self.blob = key
        self.size = 0

    @property
    def congested(self) -> bool:
        """Whether to pause until `on_relief` is called, because the disk does not keep up or other writers go first."""
        return self._pausing or self._backlog_bytes >= self._tuning.max_backlog_bytes

    @property
    def digest(self) -> bytes:
        """The SHA-256 of the bytes, once the upload is finished."""
        return self._hash.digest()

    def write(self, data: bytes) -> None:
        """Add bytes. `check_size` raises if a snapshot of this size could not be published."""
        if self.check_size:
            self.check_size(self.size + len(data))
        try:
            self._check_memory(self._backlog_bytes + len(data))
        except MemoryFull as error:
            self._failure = error
        self.size += len(data)
        self._backlog_bytes += len(data)
        self._submit(self._write, data)

    def _submit(self, step: Callable[..., None], *args: object) -> None:
        """Run a step in the worker's thread, unless the engine was closed."""
        # An executor that was shut down raises: what the upload has written is an orphan then, which the next start
        # removes.
        with suppress(RuntimeError):
            self._worker.submit(step, *args)

    def finish(self, then: Finished, failed: Callable[[], None] | None = None) -> None:
        """Call `then` with None when the blob is durable, or with the error. `failed` is called if `then` raises."""
        self._submit(self._finish, then, failed)

    def keep(self) -> None:
        """Keep the blob from now on: a change refers to it."""
        self._settled = True

    def cancel(self) -> None:
        """Remove the bytes that were written, unless the blob was kept or removed already."""
        if not self._settled:
            self._settled = True
            self.remove()

    def remove(self) -> None:
        """Remove the bytes that were written."""
        # Set at once, so that the writes that are queued before `_abandon` do nothing.
        self._removed = True
        self._submit(self._abandon)

    # In the worker's thread

    def _write(self, data: bytes) -> None:
        if not self._removed and self._failure is None:
            self._attempt(lambda: self._add(data))
        self._faults.soon_threadsafe(Callback.UPLOAD, self._relieve, len(data), failed=self._break_off)

    def _add(self, data: bytes) -> None:
        self._hash.update(data)
        self._begun().write(data)

    def _begun(self) -> Draft:
        if self._draft is None:
            self._draft = self._storage.blobs.begin(self.owner, self.blob)
        return self._draft

    def _attempt(self, step: Callable[[], None]) -> None:
        """Run a step. An exception fails this upload only."""
        try:
            step()
        except Exception as error:
            if not isinstance(error, (StorageFull, OSError)):
                logger.exception("a snapshot could not be stored")
            self._failure = Unavailable(f"the snapshot can't be stored now: {error}")

    def _finish(self, then: Finished, failed: Callable[[], None] | None) -> None:
        if self._failure is None:
            self._attempt(lambda: self._begun().finish())
        if self._failure is None:
            self._close_soon()
        self._faults.soon_threadsafe(Callback.UPLOAD, then, self._failure, failed=failed)

    def _abandon(self) -> None:
        if self._draft is not None:
            draft = self._draft
            self._attempt(draft.abandon)
        self._close_soon()

    def _close_soon(self) -> None:
        self._faults.soon_threadsafe(Callback.UPLOAD, self._close, failed=self._close)

    # In the loop's thread

    def _close(self) -> None:
        """Call `on_closed` once, when the blob is complete or removed and its file is closed."""
        on_closed, self.on_closed = self.on_closed, None
        if on_closed:
            on_closed()

    def _relieve(self, size: int) -> None:
        was_congested = self.congested
        self._backlog_bytes -= size
        if not was_congested or self.congested:
            return
        if self._last_change() == self._seen_change:
            self._call_relief()
        else:
            # Others write, and their syncs share the disk with this upload: let them go first.
            self._pausing = True
            secs = self._tuning.pause_secs
            self._faults.later(Callback.UPLOAD, secs, self._call_relief, failed=self._break_off)

    def _break_off(self) -> None:
        """Fail the upload and let its sender continue, because after a fault the size of the backlog is unknown."""
        self._failure = self._failure or Unavailable("the snapshot can't be stored now; the log says why")
        self._backlog_bytes = 0
        self._call_relief()

    def _call_relief(self) -> None:
        self._pausing, self._seen_change = False, self._last_change()
        if self.on_relief:
            self.on_relief()
