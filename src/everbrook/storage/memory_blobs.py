"""Blobs in memory, as the pieces in which they came."""

from collections.abc import Iterator
from threading import Lock

from everbrook.protocol.errors import StreamDamaged


class MemoryBlobs:
    """Keeps blobs for as long as the process lives."""

    def __init__(self) -> None:
        self._blobs: dict[tuple[int, int], list[bytes]] = {}
        self._lock = Lock()
        self.used_bytes = 0

    def begin(self, owner: int, number: int) -> "MemoryDraft":
        return MemoryDraft(self, (owner, number))

    def put(self, key: tuple[int, int], pieces: list[bytes]) -> None:
        """Take a whole blob in."""
        self._blobs[key] = pieces

    def count_bytes(self, change: int) -> None:
        """Keep count of what all blobs take, those included that are being written."""
        with self._lock:
            self.used_bytes += change

    def open(self, owner: int, number: int, _size: int) -> "MemoryBlobReader":
        pieces = self._blobs.get((owner, number))
        if pieces is None:
            raise StreamDamaged("the snapshot of the stream was lost")
        return MemoryBlobReader(pieces)

    def remove(self, owner: int, number: int) -> None:
        pieces = self._blobs.pop((owner, number), ())
        self.count_bytes(-sum(map(len, pieces)))

    def all(self) -> Iterator[list[tuple[int, int]]]:
        yield list(self._blobs)


class MemoryDraft:
    """A blob that is being written."""

    def __init__(self, blobs: MemoryBlobs, key: tuple[int, int]) -> None:
        self._blobs = blobs
        self._key = key
        self._pieces: list[bytes] = []
        self._finished = False

    def write(self, data: bytes) -> None:
        if data:
            self._pieces.append(data)
        self._blobs.count_bytes(len(data))

    def finish(self) -> None:
        self._blobs.put(self._key, self._pieces)
        self._finished = True

    def abandon(self) -> None:
        if self._finished:
            self._blobs.remove(*self._key)
        else:
            self._blobs.count_bytes(-sum(map(len, self._pieces)))
            self._pieces.clear()


class MemoryBlobReader:
    """Reads the pieces of a blob, one after the other."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = iter(tuple(pieces))
        self._left = b""

    def read(self, size: int) -> bytes:
        piece = self._left or next(self._pieces, b"")
        self._left = piece[size:]
        return piece[:size]

    def close(self) -> None:
        """There is nothing to let go of."""
