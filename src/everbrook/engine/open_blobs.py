"""Open blobs: how many snapshots are written and read at a time. Each is an open file, of which there are only so many.

All calls come from the loop's thread.
"""

from everbrook.protocol.errors import Unavailable
from everbrook.storage.api import StorageFull
from everbrook.storage.blobs import BlobReader, Blobs


class OpenBlobs:
    """Counts the blobs of a storage that are open."""

    def __init__(self, blobs: Blobs, most: int) -> None:
        """Let `most` be open at a time."""
        self._blobs = blobs
        self._most = most
        self.count = 0

    def enter(self) -> None:
        """Count one more, or refuse it."""
        if self.count >= self._most:
            raise Unavailable(f"{self.count} snapshots are being written and read, and no more can be at once")
        self.count += 1

    def leave(self) -> None:
        """Count one less."""
        self.count -= 1

    def open(self, owner: int, number: int) -> "CountedReader":
        """Begin to read a blob, which counts until it is closed."""
        self.enter()
        try:
            return CountedReader(self._blobs.open(owner, number), self)
        except StorageFull as error:
            self.leave()
            raise Unavailable(f"the snapshot can't be read now: {error}") from error
        except BaseException:
            self.leave()
            raise


class CountedReader:
    """A blob that is being read. It counts as open until it is closed."""

    def __init__(self, reader: BlobReader, open_blobs: OpenBlobs) -> None:
        self._reader = reader
        self._open_blobs = open_blobs

    def read(self, size: int) -> bytes:
        """Give the next bytes, at most `size`; none at the end."""
        return self._reader.read(size)

    def close(self) -> None:
        """Let go of it."""
        self._reader.close()
        self._open_blobs.leave()
