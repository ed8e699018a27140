"""A storage in which something else happens at a chosen step: between two calls to the disk or to LMDB.

Checkpoints are made when the test says so, in its own thread. So what two threads may do at once is done in every
order, one run after the other, and each of them is repeatable.
"""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar, cast

import lmdb

from everbrook.storage import DurableMode, DurableStorage, JournalTuning, OsDisk, StorageTuning
from everbrook.storage.disk import File, Reader
from everbrook.storage.lmdb_base import open_environment
from tests.unit.storage.engines import SMALL

Given = ParamSpec("Given")
Result = TypeVar("Result")

# Each file of the journal is as large as the one before, so that every one of them may be recycled.
JOURNAL = JournalTuning(first_file_bytes=1 << 12, max_file_bytes=1 << 12)


class Later(Executor):
    """Does what it is given when it is told to, or when it is shut down."""

    def __init__(self) -> None:
        self._given: list[Callable[[], None]] = []

    def submit(self, fn: Callable[Given, Result], /, *args: Given.args, **kwargs: Given.kwargs) -> Future[Result]:
        future: Future[Result] = Future()
        future.set_running_or_notify_cancel()
        self._given.append(partial(_settle, future, partial(fn, *args, **kwargs)))
        return future

    def run(self) -> None:
        """Do everything that it was given so far."""
        while self._given:
            self._given.pop(0)()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002
        self.run()


def _settle(future: "Future[Result]", work: Callable[[], Result]) -> None:
    try:
        future.set_result(work())
    except Exception as error:  # noqa: BLE001 - whoever waits for it is told
        future.set_exception(error)


class Interruption:
    """Does something once, at the step with a given number."""

    def __init__(self) -> None:
        self._left = 0
        self._act: Callable[[], object] | None = None

    def arm(self, number: int, act: Callable[[], object]) -> None:
        """Count the steps from now on."""
        self._left, self._act = number, act

    def step(self) -> None:
        """Tell that something is about to be done, or was done just now."""
        if self._act:
            if not self._left:
                act, self._act = self._act, None
                act()
            self._left -= 1

    def disarm(self) -> bool:
        """Tell whether it was done. From now on it is not."""
        act, self._act = self._act, None
        return act is None


class SteppedFile:
    """A file, each write and sync of which is a step."""

    def __init__(self, file: File, step: Callable[[], None]) -> None:
        self._file = file
        self._step = step

    @property
    def size(self) -> int:
        return self._file.size

    def write_at(self, position: int, data: bytes, *, sync: bool = False) -> None:
        self._step()
        self._file.write_at(position, data, sync=sync)
        self._step()

    def sync(self) -> None:
        self._step()
        self._file.sync()
        self._step()

    def close(self) -> None:
        self._file.close()


class SteppedDisk(OsDisk):
    """A disk on which it is a step to open a file to read it, and everything that is done to a segment."""

    def __init__(self, reading: Interruption, writing: Interruption) -> None:
        self._reading = reading
        self._writing = writing

    def reader(self, path: Path) -> Reader:
        self._reading.step()
        reader = super().reader(path)
        self._reading.step()
        return reader

    def create(self, path: Path) -> File:
        return self._stepped(path, super().create)

    def open(self, path: Path) -> File:
        return self._stepped(path, super().open)

    def _stepped(self, path: Path, opened: Callable[[Path], File]) -> File:
        if path.parent.parent.name != "streams":
            return opened(path)
        self._writing.step()
        file = opened(path)
        self._writing.step()
        return cast("File", SteppedFile(file, self._writing.step))


class SteppedEnvironment:
    """An LMDB environment. It is a step to begin to read it."""

    def __init__(self, env: lmdb.Environment, reading: Interruption) -> None:
        self._env = env
        self._reading = reading
        self.open_db = env.open_db
        self.close = env.close

    def begin(
        self, *, write: bool = False, buffers: bool = False
    ) -> "lmdb.Transaction[bytes] | lmdb.Transaction[memoryview[int]]":
        if not write:
            self._reading.step()
        transaction = self._env.begin(write=write, buffers=True) if buffers else self._env.begin(write=write)
        if not write:
            self._reading.step()
        return transaction


class Stepped:
    """A storage whose checkpoints are made by `background.run()`, and what may come between its steps."""

    def __init__(self, mode: DurableMode) -> None:
        self._mode = mode
        self.background = Later()
        self.reading, self.writing = Interruption(), Interruption()

    def open(self, folder: Path) -> DurableStorage:
        """Open the store in a folder."""
        return DurableStorage(
            SteppedDisk(self.reading, self.writing),
            folder / self._mode.store,
            self._mode,
            salt=7,
            # Changes never wait for a checkpoint: the test makes it, in the thread that would wait.
            tuning=StorageTuning(journal=JOURNAL, max_recent_checkpoints=1 << 20, **SMALL),
            executor=self.background,
            open_environment=self._open_environment,
        )

    def _open_environment(self, folder: Path) -> lmdb.Environment:
        return cast("lmdb.Environment", SteppedEnvironment(open_environment(folder), self.reading))
