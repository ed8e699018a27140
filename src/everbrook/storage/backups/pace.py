"""Pace: a store is read no faster than was asked for, so that its server has time for others."""

from math import inf
from threading import Lock
from time import monotonic


class Pace:
    """So many bytes a second at most, by however many threads."""

    def __init__(self, bytes_per_sec: float = inf) -> None:
        self._bytes_per_sec = bytes_per_sec
        self._lock = Lock()
        self._due_at = 0.0

    def early_secs(self, size: int) -> float:
        """Tell how long to wait, now that so many bytes more were read."""
        with self._lock:
            now = monotonic()
            self._due_at = max(now, self._due_at) + size / self._bytes_per_sec
            return self._due_at - now
