"""Storages whose blobs behave as a test wants: slowly, badly, or without keeping anything."""

import threading
from base64 import b64encode
from hashlib import sha256

from everbrook.storage import MemoryBlobReader, MemoryBlobs, MemoryDraft, MemoryStorage
from tests.kit.asgi_mount import Mounted
from tests.kit.server_thread import PATIENCE_SECS, RunningServer, eventually

Server = RunningServer | Mounted

PIECE = bytes(range(256)) * 256


class WatchedBlobs(MemoryBlobs):
    """Blobs that a test can delay, fail, and count. What is beyond `readable_bytes` fails, or is missing."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()
        self.write_error: Exception | None = None
        self.read_error: Exception | None = None
        self.readable_bytes = 1 << 62
        self.writes: list[int] = []
        self.open_readers = 0

    def begin(self, owner: int, number: int) -> "WatchedDraft":
        return WatchedDraft(self, (owner, number))

    def open(self, owner: int, number: int, size: int) -> "WatchedReader":
        blob = super().open(owner, number, size)
        return WatchedReader(self, list(iter(lambda: blob.read(len(PIECE)), b"")))


class WatchedDraft(MemoryDraft):
    """A draft of `WatchedBlobs`."""

    _blobs: WatchedBlobs

    def write(self, data: bytes) -> None:
        assert self._blobs.gate.wait(PATIENCE_SECS), "nobody opened the gate"
        if self._blobs.write_error:
            raise self._blobs.write_error
        self._blobs.writes.append(len(data))
        super().write(data)


class WatchedReader(MemoryBlobReader):
    """A reader of `WatchedBlobs`."""

    def __init__(self, blobs: WatchedBlobs, pieces: list[bytes]) -> None:
        super().__init__(pieces)
        self._blobs = blobs
        self._read_bytes = 0
        blobs.open_readers += 1

    def read(self, size: int) -> bytes:
        piece = super().read(size)
        self._read_bytes += len(piece)
        if self._read_bytes <= self._blobs.readable_bytes:
            return piece
        if self._blobs.read_error:
            raise self._blobs.read_error
        return b""

    def close(self) -> None:
        self._blobs.open_readers -= 1


class WatchedStorage(MemoryStorage):
    """Streams in memory, with `WatchedBlobs`."""

    blobs: WatchedBlobs

    def __init__(self) -> None:
        super().__init__()
        self.blobs = WatchedBlobs()


class HollowDraft(MemoryDraft):
    """A draft that keeps nothing of what is written."""

    def write(self, data: bytes) -> None:
        """Forget it."""


class HollowReader(MemoryBlobReader):
    """A reader that gives the same bytes over and over."""

    def read(self, size: int) -> bytes:
        return PIECE[:size]


class HollowBlobs(MemoryBlobs):
    """Blobs that take no memory: each is one piece, over and over."""

    def begin(self, owner: int, number: int) -> HollowDraft:
        return HollowDraft(self, (owner, number))

    def open(self, owner: int, number: int, size: int) -> HollowReader:
        super().open(owner, number, size)
        return HollowReader([])


class HollowStorage(MemoryStorage):
    """Streams in memory, whose snapshots take none."""

    def __init__(self) -> None:
        super().__init__()
        self.blobs = HollowBlobs()


def memory_blobs(server: Server) -> MemoryBlobs:
    """The blobs of a server that keeps them in memory."""
    assert isinstance(server.storage, MemoryStorage)
    return server.storage.blobs


def none_left(server: Server) -> bool:
    """Whether nothing of any blob is left in good time."""
    blobs = memory_blobs(server)
    return eventually(lambda: not any(blobs.all()) and not blobs.used_bytes)


def digest_of(body: bytes) -> str:
    """The value of `Content-Digest` (RFC 9530 §2)."""
    return f"sha-256=:{b64encode(sha256(body).digest()).decode()}:"


def etag_of(offset: int, body: bytes, content_type: bytes = b"application/octet-stream") -> str:
    """The entity tag of a snapshot."""
    return f'"{offset:016d}-{sha256(sha256(body).digest() + content_type).hexdigest()}"'
