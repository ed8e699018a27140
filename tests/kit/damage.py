"""Damage that tests do to a store behind its back."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb

from everbrook.storage.lmdb_base import MAP_BYTES
from everbrook.storage.lmdb_pages import PAGE, POINTER

PAGE_BYTES = 4096


def flip(path: Path, position: int, bit: int = 4) -> None:
    """Flip one bit of a file."""
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(data)


def cut(path: Path, size: int) -> None:
    """Keep the first `size` bytes of a file."""
    path.write_bytes(path.read_bytes()[:size])


def places(store: Path, found: bytes) -> Iterator[int]:
    """Find bytes in the file of LMDB, also in its free pages."""
    data, place = (store / "base" / "data.mdb").read_bytes(), -1
    while (place := data.find(found, place + 1)) >= 0:
        yield place


class Rows:
    """The rows of a base, to be changed without their checksums."""

    def __init__(self, env: lmdb.Environment, transaction: lmdb.Transaction) -> None:
        self._env = env
        self._transaction = transaction

    def _database(self, name: bytes) -> "lmdb._Database":
        return self._env.open_db(name, txn=self._transaction, create=False)

    def names(self) -> list[bytes]:
        """Give the databases."""
        return [bytes(name) for name, _ in self._transaction.cursor()]

    def all(self, database: bytes) -> dict[bytes, bytes]:
        """Give every row of a database."""
        return {bytes(key): bytes(row) for key, row in self._transaction.cursor(self._database(database))}

    def put(self, database: bytes, key: bytes, row: bytes) -> None:
        self._transaction.put(key, row, db=self._database(database))

    def flip(self, database: bytes, key: bytes, position: int = 0, bit: int = 4) -> None:
        """Flip one bit of a row."""
        row = bytearray(self.all(database)[key])
        row[position] ^= 1 << bit
        self.put(database, key, bytes(row))

    def delete(self, database: bytes, key: bytes) -> None:
        assert self._transaction.delete(key, db=self._database(database)), "there was no such row"


@contextmanager
def rows(folder: Path) -> Iterator[Rows]:
    """Open the base of the closed store in a folder."""
    with lmdb.open(str(folder / "base"), max_dbs=16, map_size=MAP_BYTES) as env, env.begin(write=True) as transaction:
        yield Rows(env, transaction)


def hide_rows(folder: Path, database: bytes) -> None:
    """Let LMDB meet the first row of a database in place of the one in the middle, so that rows before that are hidden.

    All rows of the database are in one page.
    """
    with rows(folder) as there:
        (key, row), count = next(iter(there.all(database).items())), len(there.all(database))
    path, middle = folder / "base" / "data.mdb", (count - 1) // 2
    data = bytearray(path.read_bytes())
    for start in range(0, len(data), PAGE_BYTES):
        if key + row in data[start : start + PAGE_BYTES]:
            first = POINTER.unpack_from(data, start + PAGE.size)
            POINTER.pack_into(data, start + PAGE.size + middle * POINTER.size, *first)
    path.write_bytes(data)
