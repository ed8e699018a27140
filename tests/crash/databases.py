"""LMDB under the recorder: its writes bypass our disk, so each commit is one operation, done or not done."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Self, cast

import lmdb

from everbrook.storage.acid.shard import open_environment
from tests.crash.recorder import RecordingDisk

DATA = "data.mdb"
LOCK = "lock.mdb"


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

    def __enter__(self) -> Self:
        self._transaction.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        leave: Callable[..., object] = self._transaction.__exit__
        leave(*raised)
        self._committed()


class WatchedEnvironment:
    """An environment whose commits are recorded."""

    def __init__(self, environment: lmdb.Environment, disk: RecordingDisk) -> None:
        self._environment = environment
        self._disk = disk
        self._data = Path(environment.path()) / DATA
        self._last = self._transaction()
        disk.committed(self._data, synced=False)

    def _transaction(self) -> int:
        """Give the number of the last transaction that was committed."""
        return int(self._environment.info()["last_txnid"])

    def _committed(self) -> None:
        last = self._transaction()
        if last != self._last:
            self._last = last
            self._disk.committed(self._data)

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
    """Opens environments whose commits are recorded on a disk."""

    def __init__(self, disk: RecordingDisk) -> None:
        self._disk = disk
        self._open: list[lmdb.Environment] = []

    def open(self, folder: Path) -> lmdb.Environment:
        # A commit is an operation by itself here, so there is nothing to wait for.
        environment = open_environment(folder, sync=False)
        self._open.append(environment)
        return cast("lmdb.Environment", WatchedEnvironment(environment, self._disk))

    def abandon(self) -> None:
        """Close what is open, as the end of a process does."""
        while self._open:
            self._open.pop().close()
