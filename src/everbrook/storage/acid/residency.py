"""Residency: lets go of the pages of LMDB's map that reads have left in the process.

The kernel maps sixteen pages for each one that a read touches, so that random reads would make the process look as
large as the store. The pages stay in the page cache, and the map is of a file that is only read through it: nothing can
be lost, and whoever needs a page again gets it back.
"""

import ctypes
import os
import sys
from pathlib import Path

MAX_MAPPED_BYTES = 128 * 1024 * 1024
LOOKS_BETWEEN = 256

_MADV_DONTNEED = 4
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_STATM = Path("/proc/self/statm")
_MAPS = Path("/proc/self/maps")


class Residency:
    """Counts the reads of one mapped file, and unmaps its pages when the process holds too many."""

    def __init__(self, path: Path) -> None:
        self._path = str(path.resolve())
        self._looks = 0
        self._libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def look(self) -> None:
        """Count a read, and check now and then."""
        self._looks += 1
        if self._looks >= LOOKS_BETWEEN:
            self._looks = 0
            self.check()

    def check(self) -> None:
        """Unmap the pages if the process holds too many."""
        if self._libc and _mapped_bytes() > MAX_MAPPED_BYTES:
            self._release(self._libc)

    def _release(self, libc: ctypes.CDLL) -> None:
        for line in _MAPS.read_text().splitlines():
            addresses, *_, path = line.split(maxsplit=5)
            if path == self._path:
                start, end = (int(address, 16) for address in addresses.split("-"))
                libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _MADV_DONTNEED)


def _mapped_bytes() -> int:
    """How much of mapped files the process holds: the third field of its memory statistics."""
    return int(_STATM.read_bytes().split()[2]) * _PAGE_BYTES
