"""The simplest durable engine: each persisted group is one record of a file, and opening replays the file.

It keeps the contract honest: whatever the suite asks for can be kept across a reopening.
"""

import pickle
from collections.abc import Sequence
from pathlib import Path

from everbrook.protocol.change import Change
from everbrook.storage.memory import MemoryStorage


class JournalStorage(MemoryStorage):
    """A memory storage in front of a file of groups."""

    promise = "streams survive this process"
    blocking = True

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = path.open("a+b")
        self._file.seek(0)
        while self._file.peek(1):
            self.apply(pickle.load(self._file))  # noqa: S301 - a test reads back what it wrote

    def persist(self, group: Sequence[Change]) -> None:
        pickle.dump(tuple(group), self._file)
        self._file.flush()

    def close(self) -> None:
        super().close()
        self._file.close()
