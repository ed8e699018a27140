"""An acid storage whose background work and LMDB environments the test holds."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import ParamSpec, TypeVar

import lmdb

from everbrook.storage import AcidStorage, AcidTuning, OsDisk
from everbrook.storage.acid.rows import CHECKSUM, INCARNATION, with_prefix
from everbrook.storage.acid.shard import open_environment
from everbrook.storage.disk import Disk

Given = ParamSpec("Given")
Result = TypeVar("Result")


class Background(ThreadPoolExecutor):
    """A thread that counts what it is given to do."""

    def __init__(self) -> None:
        super().__init__(1)
        self.submitted = 0

    def submit(self, fn: Callable[Given, Result], /, *args: Given.args, **kwargs: Given.kwargs) -> Future[Result]:
        self.submitted += 1
        return super().submit(fn, *args, **kwargs)

    def finish(self) -> None:
        """Return when everything that it was given is done."""
        self.submit(int).result()

    def hold(self) -> Event:
        """Do nothing more before the event that is returned is set."""
        event = Event()
        self.submit(event.wait, 60)
        return event


class HeldAcid(AcidStorage):
    """An acid storage. `sizes` are those of its tuning that are not the default."""

    def __init__(self, folder: Path, disk: Disk | None = None, *, shard_count: int = 1, **sizes: int) -> None:
        self.background = Background()
        self.environments: list[lmdb.Environment] = []
        super().__init__(
            disk or OsDisk(),
            folder,
            shard_count=shard_count,
            salt=7,
            tuning=AcidTuning(**sizes),
            executor=self.background,
            open_environment=self._open_environment,
        )

    def _open_environment(self, folder: Path) -> lmdb.Environment:
        environment = open_environment(folder)
        self.environments.append(environment)
        return environment

    def settle(self) -> None:
        """Wait for what is done in the background, and let the storage notice."""
        self.background.finish()
        self.apply([])
        self.background.finish()

    def shelved_bytes(self, incarnation: int) -> int:
        """Count the bytes of a stream that LMDB holds."""
        found = 0
        for environment in self.environments:
            chunks = environment.open_db(b"chunks", create=False)
            with environment.begin() as transaction:
                rows = with_prefix(transaction.cursor(chunks), INCARNATION.pack(incarnation))
                found += sum(len(value) - CHECKSUM.size for _, value in rows)
        return found
