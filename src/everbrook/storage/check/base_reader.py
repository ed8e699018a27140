"""The reader of the base for a check: reads every row of every database in order, and reports the errors of LMDB."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import lmdb

from everbrook.protocol.state import Head
from everbrook.storage.base_rows import DATA, INCARNATION, Database, place_of, readable_head, unseal, with_prefix
from everbrook.storage.check.report import BASE_UNREADABLE, Findings
from everbrook.storage.lmdb_base import is_plain_database
from everbrook.storage.lmdb_pages import problem_of
from everbrook.storage.manifest import BASE


class BaseReader:
    """The base, read-only. `made`: the making of the store was completed, so a missing or incomplete file is damage."""

    def __init__(self, folder: Path, findings: Findings, *, made: bool) -> None:
        self._file = folder / BASE / DATA
        self._findings = findings
        self._transaction: lmdb.Transaction | None = None
        self._env: lmdb.Environment | None = None
        self._databases: dict[bytes, lmdb._Database] = {}
        findings.at(self._file)
        # Before LMDB maps the file: a read of a missing page would end this process.
        problem = problem_of(self._file)
        if problem:
            if made:
                self._unreadable(problem)
            return
        self._size = self._file.stat().st_size
        try:
            self._open()
        except lmdb.Error as error:
            self._unreadable(f"LMDB can't open it: {error}")
            return
        if made and set(self._databases) != set(Database.ALL):
            self._unreadable("its list of databases is damaged")

    def _open(self) -> None:
        env = self._env = lmdb.open(str(self._file.parent), readonly=True, lock=False, create=False, max_dbs=16)
        with env.begin() as transaction:
            found = {bytes(name): bytes(row) for name, row in islice(transaction.cursor(), len(Database.ALL) + 1)}
        for name in Database.ALL:
            if is_plain_database(found.get(name, b"")):
                self._databases[name] = env.open_db(name, create=False)
        self._transaction = env.begin(buffers=True)

    def _unreadable(self, problem: str, place: str = "") -> None:
        self._findings.damage(problem, place)
        self._findings.refuse(BASE_UNREADABLE)

    @property
    def readable(self) -> bool:
        return self._transaction is not None

    def get(self, database: bytes, key: bytes) -> bytes | None:
        """Return a value with its checksum."""
        if self._transaction is None or database not in self._databases:
            return None
        try:
            value = self._transaction.get(key, db=self._databases[database])
        except lmdb.Error as error:
            self._unreadable(f"LMDB can't read it: {error}", place_of(database, key))
            return None
        return None if value is None else bytes(value)

    def sealed(self, database: bytes, key: bytes) -> bytes | None:
        """Return a value without its checksum; None if it is missing or damaged."""
        value = self.get(database, key)
        return None if value is None else unseal(key, value)

    def rows(self, database: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield every row with its checksum, until one is out of order or their number exceeds LMDB's count.

        The count is a bound, because damaged pages may refer to each other in a circle.
        """
        self._findings.at(self._file, database.decode())
        if self._transaction is None or database not in self._databases:
            return
        before, seen = b"", 0
        try:
            count = self._transaction.stat(self._databases[database])["entries"]
            for key, value in self._transaction.cursor(self._databases[database]):
                seen += 1
                if seen > count or bytes(key) <= before or len(value) > self._size:
                    self._unreadable("its rows are not in order", f"{place_of(database, before)} and behind it")
                    return
                before = bytes(key)
                self._findings.advance(len(value))
                yield before, bytes(value)
        except lmdb.Error as error:
            self._unreadable(f"LMDB can't read it: {error}", f"{place_of(database, before)} and behind it")
            return
        if seen != count:
            self._unreadable(f"it has {seen} rows, and LMDB counts {count}")

    def with_prefix(self, database: bytes, prefix: bytes) -> Iterator[bytes]:
        """Yield the keys that begin with `prefix`."""
        if self._transaction is None or database not in self._databases:
            return
        try:
            for key, _ in with_prefix(self._transaction.cursor(self._databases[database]), prefix):
                yield key
        except lmdb.Error as error:
            self._findings.damage(f"LMDB can't read it: {error}", place_of(database, prefix))

    def head(self, incarnation: int) -> Head | None:
        """Return the head of a stream; None if it is missing or unreadable."""
        return readable_head(self.sealed(Database.STREAMS, INCARNATION.pack(incarnation)))

    def close(self) -> None:
        if self._transaction:
            self._transaction.abort()
        if self._env:
            self._env.close()
