"""The pinned base: the file of an LMDB environment as one transaction sees it, while others write on.

LMDB never writes to a page that a reader can reach. So the file is read past LMDB, as it is, but for its first two
pages, which say what the others mean: those are of the pin. Pages that it does not reach may hold anything.
"""

from pathlib import Path

import lmdb

from everbrook.storage.disk import Disk
from everbrook.storage.lmdb_pages import META, PAGE
from everbrook.storage.pin import OpenFile

_PAGE_BYTES, _LAST_PAGE, _TRANSACTION = 4, 13, 14


class PinnedBase:
    """The file of the base, at one transaction."""

    def __init__(self, disk: Disk, env: lmdb.Environment, path: Path) -> None:
        """Begin to read an environment, whose file is at `path`. After a `BlockingIOError` it has to be tried again."""
        self._reading = env.begin()
        try:
            # The file never gets shorter.
            self._file = OpenFile(disk, path, path.stat().st_size)
        except BaseException:
            self._reading.abort()
            raise
        try:
            self._first = self._first_pages(self._reading.id())
        except BaseException:
            self.close()
            raise
        self.size = min(self._file.size, self._pages * self._page_bytes)

    def _first_pages(self, transaction: int) -> bytes:
        """Give the page that describes this transaction, twice: as itself, and as the older one that LMDB looks for."""
        fields = META.unpack(self._file.read(PAGE.size, META.size))
        self._page_bytes = fields[_PAGE_BYTES]
        place = transaction % 2
        page = self._file.read(place * self._page_bytes, self._page_bytes)
        fields = META.unpack_from(page, PAGE.size)
        if fields[_TRANSACTION] != transaction:
            raise BlockingIOError("two checkpoints ended while the base was pinned")
        self._pages = fields[_LAST_PAGE] + 1
        pages = [page, page]
        for number in range(2):
            _, *rest = PAGE.unpack_from(page)
            seen = transaction if number == place else max(transaction - 1, 0)
            meta = META.pack(*fields[:_TRANSACTION], seen, *fields[_TRANSACTION + 1 :])
            pages[number] = PAGE.pack(number, *rest) + meta + page[PAGE.size + META.size :]
        return b"".join(pages)

    def read(self, start: int, size: int) -> bytes:
        """Read a part of the file as it was."""
        end = min(start + size, self.size)
        first = self._first[start:end]
        begin = start + len(first)
        return first + self._file.read(begin, end - begin) if begin < end else first

    def close(self) -> None:
        """Let LMDB use the pages again."""
        self._reading.abort()
        self._file.close()
