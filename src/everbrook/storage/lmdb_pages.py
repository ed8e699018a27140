"""The pages of an LMDB file: checks that none is missing before the file is mapped.

LMDB trusts its file. It takes an empty file for a new store, and a missing page ends the process that reads it. Free
pages may be missing at the end: LMDB does not write pages that it allocates and frees in the same transaction.
"""

import os
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from struct import (
    Struct,
    error as TooShort,  # noqa: N812 - what it means here
)

from msgspec import Struct as Value

PAGE = Struct("<QHHHH")
META = Struct("<IIQQIHHQQQQQ48sQQ")
NODE = Struct("<HHHH")
POINTER = Struct("<H")
NUMBER = Struct("<Q")

MAGIC = 0xBEEFC0DE
BRANCH, LEAF, DIRTY = 1, 2, 16
FIRST_PAGE = 2
"""The first page after the two meta pages."""
BIG = 1
NONE = 2**64 - 1
MAX_PAGE_BYTES = 1 << 16


class Meta(Value, frozen=True):
    """The meta page of an LMDB file."""

    page_bytes: int
    free_root: int
    last_page: int
    transaction: int
    main: bytes
    """LMDB's row of its list of databases."""


def problem_of(path: Path) -> str | None:
    """Return the reason why LMDB must not open a file, or None."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return "it is missing"
    with closing(os.fdopen(descriptor, "rb", buffering=0)):
        return _Pages(descriptor).problem()


def newest_meta(descriptor: int) -> Meta | None:
    """Return the newer meta page of an open file; None if it is not a file of LMDB."""
    return _Pages(descriptor).meta()


class _Pages:
    """The pages of an open file, read without a map."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size

    def problem(self) -> str | None:
        if not self._size:
            return "it is empty"
        try:
            meta = self.meta()
            return self._missing(meta) or self._misplaced(meta) if meta else "it is not a file of LMDB"
        except (TooShort, OSError, OverflowError, MemoryError, RecursionError):
            return "its pages can't be read"

    def meta(self) -> Meta | None:
        """Return the newer of the two meta pages."""
        first = self._meta_at(0)
        second = self._meta_at(first.page_bytes) if first else None
        return max(first, second, key=lambda meta: meta.transaction) if first and second else None

    def _meta_at(self, position: int) -> Meta | None:
        fields = META.unpack(os.pread(self._descriptor, META.size, position + PAGE.size))
        page_bytes = fields[4]
        if fields[0] != MAGIC or not 0 < page_bytes <= MAX_PAGE_BYTES:
            return None
        return Meta(page_bytes, fields[11], fields[13], fields[14], fields[12])

    def _missing(self, meta: Meta) -> str | None:
        there, count = self._size // meta.page_bytes, meta.last_page + 1
        if there >= count:
            return None
        free: set[int] = set()
        with suppress(TooShort, ValueError):
            # Pages of the free list itself may be missing. Then the missing pages are not all known to be free.
            free.update(number for number in self._free(meta, meta.free_root) if number >= there)
        return None if len(free) == count - there else f"it has {there} of its {count} pages"

    def _misplaced(self, meta: Meta) -> str | None:
        """Verify the list of free pages: LMDB would overwrite a used page that the list names."""
        try:
            free = list(self._free(meta, meta.free_root))
        except (TooShort, ValueError):
            return "its list of free pages can't be read"
        if len(set(free)) < len(free) or any(not FIRST_PAGE <= number <= meta.last_page for number in free):
            return "its list of free pages is damaged"
        return None

    def _free(self, meta: Meta, number: int) -> Iterator[int]:
        """Yield the free pages that a page of the list and the pages below it name."""
        if number == NONE:
            return
        page = os.pread(self._descriptor, meta.page_bytes, number * meta.page_bytes)
        found, _, flags, lower, _ = PAGE.unpack_from(page)
        if found != number or flags & ~DIRTY not in {BRANCH, LEAF} or not PAGE.size <= lower <= meta.page_bytes:
            raise ValueError(f"page {number} does not belong to the list of free pages")
        for pointer in range(PAGE.size, lower, POINTER.size):
            place = POINTER.unpack_from(page, pointer)[0]
            low, high, node_flags, key_bytes = NODE.unpack_from(page, place)
            if flags & BRANCH:
                yield from self._free(meta, low | high << 16 | node_flags << 32)
            elif flags & LEAF:
                if key_bytes != NUMBER.size:
                    raise ValueError(f"page {number} has a key of {key_bytes} bytes, and not a transaction number")
                value = page[place + NODE.size + key_bytes :]
                yield from self._listed(meta, value, big=bool(node_flags & BIG))

    def _listed(self, meta: Meta, value: bytes, *, big: bool) -> Iterator[int]:
        """Yield the pages of one entry of the list: it has their count, and then their numbers."""
        if big:
            position = NUMBER.unpack_from(value)[0] * meta.page_bytes + PAGE.size
            count = NUMBER.unpack(os.pread(self._descriptor, NUMBER.size, position))[0]
            if count > self._size:
                raise ValueError(f"an entry of {count} free pages is longer than the file")
            value = os.pread(self._descriptor, (count + 1) * NUMBER.size, position)
        count = NUMBER.unpack_from(value)[0]
        yield from Struct(f"<{count}Q").unpack_from(value, NUMBER.size)
