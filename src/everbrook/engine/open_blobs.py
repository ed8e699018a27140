"""Open blobs: bounds how many snapshots are written and read at a time, because each of them is an open file.

All calls come from the loop's thread.
"""

from collections.abc import Callable

from everbrook.protocol.errors import Unavailable
from everbrook.protocol.state import Snapshot
from everbrook.storage.api import BlobReader, Blobs, StorageFull
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
        """Open the blob of a snapshot. It counts until it is closed. `tell` is called with damage that was found."""
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
        """Give the next bytes, at most `size`; none at the end. Any thread may call."""
        try:
            return self._reader.read(size)
        except Damaged as damage:
            self._damage = damage
            raise

    def close(self) -> None:
        """Close the blob, and report damage that `read` has found. Only the loop's thread may call."""
        self._reader.close()
        self._open_blobs.leave()
        if self._damage:
            self._tell(self._damage)
