"""The hold on the files of a store: while a pin exists, removals of files are deferred.

A file that grows is read up to its length at the moment of the pin. A writer notes the length of a file before it
writes; a pin costs nothing else.
"""

from pathlib import Path
from threading import Lock

from everbrook.storage.disk import Disk

ABSENT = -1
"""The length of a file that did not exist yet."""

Lengths = dict[Path, int]
"""The lengths, at the moment of a pin, of files that were written to since."""


class Hold:
    """Defers removals while there are pins, and notes the lengths of files. Any thread may call it."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._lock = Lock()
        self._pinned: tuple[Lengths, ...] = ()
        self._deferred: dict[Path, None] = {}

    def begin(self) -> Lengths:
        """Begin to defer removals for a pin. Returns the table for the lengths of files at this moment."""
        lengths: Lengths = {}
        with self._lock:
            self._pinned = (*self._pinned, lengths)
        return lengths

    def end(self, lengths: Lengths) -> list[Path]:
        """End a pin. Returns the deferred files if it was the last pin: they can be removed now."""
        with self._lock:
            self._pinned = tuple(each for each in self._pinned if each is not lengths)
            if self._pinned:
                return []
            deferred, self._deferred = self._deferred, {}
            return list(deferred)

    def note(self, path: Path, size: int) -> None:
        """Note the length of a file before a write to it, or `ABSENT` before it is made.

        A writer must not change referenced bytes below that length.
        """
        # Without the lock: `_pinned` is a tuple that is replaced as a whole, so a writer never waits for a pin.
        for lengths in self._pinned:
            lengths.setdefault(path, size)

    def remove(self, path: Path, *, later: bool = True) -> bool:
        """Remove a file that exists, or defer the removal until the last pin is released. Returns whether it is
        removed.

        Without `later` the removal is not deferred, and the file stays if there is a pin: its name may be used again
        before the pin is released.
        """
        with self._lock:
            if self._pinned and not later:
                return False
            if self._pinned:
                # This raises `FileNotFoundError` now, as a removal would.
                self._disk.read(path, 0, 1)
                self._deferred[path] = None
                return False
            self._disk.remove(path)
            return True
