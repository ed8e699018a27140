"""The copy of a base in which only LMDB's own lists are damaged: the list of databases, or the list of free pages.

The trees of the databases are read page by page, without LMDB. They must be complete: the rows fill each page without a
gap, the keys increase, and the number of rows is the one that LMDB recorded. So the copy loses no row.
"""

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from struct import error as TooShort  # noqa: N812 - what it means here
from typing import Self

import lmdb
from msgspec import Struct as Value

from everbrook.storage.base_rows import DATA, Database
from everbrook.storage.check.rebuild import NewParts
from everbrook.storage.lmdb_base import DATABASE, open_environment
from everbrook.storage.lmdb_pages import (
    BIG,
    BRANCH,
    DIRTY,
    LEAF,
    NODE,
    NONE,
    NUMBER,
    PAGE,
    POINTER,
    newest_meta,
)
from everbrook.storage.manifest import BASE, LOST_AND_FOUND, StoreError

OVERFLOW = 4
MAX_DEPTH = 32
BATCH_ROWS = 5_000
"""The number of rows that are copied in one transaction."""


class _Damaged(Exception):
    """A page does not belong to an undamaged tree."""


class _Tree(Value, frozen=True):
    """The root page of a database, and the number of its rows."""

    root: int
    count: int


class _Node(Value, frozen=True):
    """An entry of a page: in a branch page it leads to another page, in a leaf page it is a row."""

    key: bytes
    begin: int
    size: int
    flags: int
    end: int


class PageTrees:
    """The trees of an LMDB file, read without LMDB."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb", buffering=0)
        self._size = os.fstat(self._file.fileno()).st_size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def databases(self) -> dict[bytes, _Tree] | None:
        """Find the databases of a base by their names. A single one with a damaged name is found by elimination."""
        try:
            self._page_bytes, root = self._begin()
            page = self._read(root * self._page_bytes, self._page_bytes)
            listed = {
                node.key: page[node.begin : node.begin + node.size]
                for node in self._nodes(page, PAGE.unpack_from(page)[-1], LEAF)
            }
        except (_Damaged, TooShort):
            return None
        lost, others = set(Database.ALL) - listed.keys(), listed.keys() - set(Database.ALL)
        if len(lost) > 1 or len(lost) != len(others):
            return None
        named = {name: listed[name if name in listed else next(iter(others))] for name in Database.ALL}
        if any(len(row) != DATABASE.size for row in named.values()):
            return None
        rows = {name: DATABASE.unpack(row) for name, row in named.items()}
        return {name: _Tree(row[-1], row[-2]) for name, row in rows.items()}

    def complete(self) -> bool:
        """Return whether no row is missing."""
        databases = self.databases()
        try:
            return databases is not None and all(
                sum(1 for _ in self.rows(tree)) == tree.count for tree in databases.values()
            )
        except (_Damaged, TooShort):
            return False

    def rows(self, tree: _Tree) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows of a database in order."""
        before = b""
        for key, value in self._below(tree.root, MAX_DEPTH):
            if key <= before:
                raise _Damaged
            before = key
            yield key, value

    def _begin(self) -> tuple[int, int]:
        """Return the size of a page, and the root of the list of databases."""
        meta = newest_meta(self._file.fileno())
        if meta is None:
            raise _Damaged
        return meta.page_bytes, int(DATABASE.unpack(meta.main)[-1])

    def _read(self, position: int, size: int) -> bytes:
        if position + size > self._size:
            raise _Damaged
        return os.pread(self._file.fileno(), size, position)

    def _below(self, number: int, depth: int) -> Iterator[tuple[bytes, bytes]]:
        if number == NONE:
            return
        page = self._read(number * self._page_bytes, self._page_bytes)
        found, _, flags, lower, upper = PAGE.unpack_from(page)
        kind = flags & ~DIRTY
        if found != number or kind not in {BRANCH, LEAF} or depth == 0:
            raise _Damaged
        nodes = {node.begin: node for node in self._nodes(page, upper, kind)}
        places = [POINTER.unpack_from(page, place)[0] for place in range(PAGE.size, lower, POINTER.size)]
        begins = [place + NODE.size + NODE.unpack_from(page, place)[3] for place in places]
        # Each entry must have exactly one pointer: otherwise a row is lost, or would be copied twice.
        if lower > upper or sorted(begins) != sorted(nodes):
            raise _Damaged
        for begin in begins:
            node = nodes[begin]
            if kind == BRANCH:
                yield from self._below(node.size, depth - 1)
            else:
                yield node.key, self._value(page, node)

    def _nodes(self, page: bytes, place: int, kind: int) -> Iterator[_Node]:
        """Yield the entries of a page in the order of their positions, up to the end of the page."""
        while place < len(page):
            low, high, flags, key_bytes = NODE.unpack_from(page, place)
            begin = place + NODE.size + key_bytes
            size = low | high << 16 | (flags << 32 if kind == BRANCH else 0)
            inside = 0 if kind == BRANCH else NUMBER.size if flags & BIG else size
            # LMDB aligns entries to two bytes.
            end = begin + inside + (begin + inside & 1)
            if end > len(page):
                raise _Damaged
            yield _Node(page[place + NODE.size : begin], begin, size, flags, end)
            place = end

    def _value(self, page: bytes, node: _Node) -> bytes:
        if not node.flags & BIG:
            return page[node.begin : node.begin + node.size]
        (number,) = NUMBER.unpack_from(page, node.begin)
        position = number * self._page_bytes
        found, _, flags, _, _ = PAGE.unpack(self._read(position, PAGE.size))
        if found != number or flags & ~DIRTY != OVERFLOW:
            raise _Damaged
        return self._read(position + PAGE.size, node.size)


def is_copyable(folder: Path) -> bool:
    """Return whether every row of a store's base can be copied although LMDB can't read the file."""
    path = folder / BASE / DATA
    if not path.is_file():
        return False
    with PageTrees(path) as trees:
        return trees.complete()


def copy_base(folder: Path, parts: NewParts) -> str:
    """Replace the base of a store by a copy of its rows, and set the old base aside. Returns a line for the user."""
    parts.begin((BASE,))
    with PageTrees(folder / BASE / DATA) as trees:
        try:
            _copy(trees, parts.draft / BASE)
        except lmdb.DiskError as error:
            raise StoreError(f"{folder} has no room for a copy of its base, free some space: {error}") from error
    parts.publish()
    return f"every row of the base is in a new file; the old one is kept in {LOST_AND_FOUND}"


def _copy(trees: PageTrees, base: Path) -> None:
    with open_environment(base) as env:
        opened = {name: env.open_db(name) for name in Database.ALL}
        for name, tree in (trees.databases() or {}).items():
            rows = trees.rows(tree)
            while batch := list(islice(rows, BATCH_ROWS)):
                with env.begin(write=True) as transaction:
                    # The keys increase, so that LMDB can append them without a search.
                    transaction.cursor(opened[name]).putmulti(batch, append=True)
