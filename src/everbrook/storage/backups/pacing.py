"""Pace: a store is read no faster than was asked for, so that its server has time for others."""

from collections.abc import Sequence
from threading import Lock
from time import monotonic, sleep

from everbrook.storage.backups.file_copy import Source
from everbrook.storage.backups.pieces import Asked, Piece
from everbrook.storage.pin import PinnedFile


class PacedSource:
    """A store of which so many bytes a second are read at most, those included that turn out to be known already."""

    def __init__(self, source: Source, bytes_per_sec: float) -> None:
        self._source = source
        self._bytes_per_sec = bytes_per_sec
        self._lock = Lock()
        self._due_at = 0.0

    def folders(self) -> list[str]:
        """Give its folders."""
        return self._source.folders()

    def files(self, folder: str) -> list[PinnedFile]:
        """Give the files of a folder."""
        return self._source.files(folder)

    def pieces(self, asked: Sequence[Asked]) -> list[Piece]:
        """Give pieces, when it is time for them."""
        pieces = self._source.pieces(asked)
        sleep(self._early_secs(sum(each.size for each in asked[: len(pieces)])))
        return pieces

    def _early_secs(self, size: int) -> float:
        with self._lock:
            now = monotonic()
            self._due_at = max(now, self._due_at) + size / self._bytes_per_sec
            return self._due_at - now
