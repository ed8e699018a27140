"""LMDB under the recorder: its writes bypass our disk, so each commit is one operation, done or not done.

That is only so if LMDB syncs. An environment that would not is refused: no image of its file would be safe.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import lmdb

from everbrook.storage import lmdb_base
from everbrook.storage.base_rows import DATA, Database, unseal
from everbrook.storage.base_state import APPLIED, NUMBER
from tests.crash.simulation.recorder import RecordingDisk

LOCK = "lock.mdb"


class Unsynced(AssertionError):
    """The commits of an environment are not on the disk when they return."""


def require_sync(environment: lmdb.Environment) -> None:
    """Refuse an environment whose commits a power failure can undo or take apart."""
    flags = environment.flags()
    if not flags["sync"] or not flags["metasync"] or flags["map_async"]:
        raise Unsynced(f"LMDB is opened so that its commits are not synced: {flags}")


class WatchedTransaction:
    """A transaction that tells when it has been committed."""

    def __init__(self, transaction: lmdb.Transaction, committed: Callable[[], None]) -> None:
        self._transaction = transaction
        self._committed = committed

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - it stands in for all of a transaction
        return getattr(self._transaction, name)

    def commit(self) -> None:
        self._transaction.commit()
        self._committed()


class WatchedEnvironment:
    """An environment whose commits are recorded."""

    def __init__(self, environment: lmdb.Environment, disk: RecordingDisk) -> None:
        self._environment = environment
        self._disk = disk
        self._data = Path(environment.path()) / DATA
        self._last = self._transaction()
        disk.committed(self._data, synced=False, applied=self._applied())

    def _transaction(self) -> int:
        """Give the number of the last transaction that was committed."""
        return int(self._environment.info()["last_txnid"])

    def _applied(self) -> int:
        """Give the number of the last change that is in the base."""
        with self._environment.begin() as transaction:
            named = transaction.get(Database.META)
        if named is None:
            return 0
        database = self._environment.open_db(Database.META, create=False)
        with self._environment.begin(db=database) as transaction:
            sealed = transaction.get(APPLIED)
        return int(NUMBER.unpack(unseal(APPLIED, sealed) or b"")[0]) if sealed else 0

    def _committed(self) -> None:
        last = self._transaction()
        if last != self._last:
            self._last = last
            self._disk.committed(self._data, applied=self._applied())

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - it stands in for all of an environment
        return getattr(self._environment, name)

    def open_db(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401
        database = self._environment.open_db(*args, **options)
        self._committed()
        return database

    def begin(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401
        transaction = self._environment.begin(*args, **options)
        if not options.get("write"):
            return transaction
        return WatchedTransaction(transaction, self._committed)


class Databases:
    """Opens environments as the storage does, and records their commits on a disk."""

    def __init__(self, disk: RecordingDisk) -> None:
        self._disk = disk
        self._open: list[lmdb.Environment] = []

    def open(self, folder: Path) -> lmdb.Environment:
        # It does sync, which in a folder in memory takes no time.
        environment = lmdb_base.open_environment(folder)
        self._open.append(environment)
        require_sync(environment)
        return cast("lmdb.Environment", WatchedEnvironment(environment, self._disk))

    def abandon(self) -> None:
        """Close what is open, as the end of a process does."""
        while self._open:
            self._open.pop().close()
