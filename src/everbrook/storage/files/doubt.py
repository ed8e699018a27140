"""Doubt: a record that can be read may be in the memory of the machine only, if its process ended before a sync.

Nothing may be answered on its strength before it is on the disk. Logs whose last record is of a time from which not
everything is known to be there are synced when they are opened. If that fails it is not tried again: the next sync
would succeed, and prove nothing.
"""

from everbrook.storage.disk import Disk
from everbrook.storage.files.catalogue import GENERATION_SHIFT
from everbrook.storage.files.handles import Syncer, SyncFailed
from everbrook.storage.files.layout import Layout
from everbrook.storage.files.log import StreamLog


class Doubt:
    """Knows the generation before which records are doubted."""

    def __init__(self, disk: Disk, layout: Layout, syncer: Syncer, generation: int) -> None:
        self._disk = disk
        self._layout = layout
        self._syncer = syncer
        self.generation = generation
        self.failure: SyncFailed | None = None

    def settle(self, incarnation: int, log: StreamLog) -> None:
        """Return when the end of a log is on the disk."""
        if not self._syncer.durable or log.number >> GENERATION_SHIFT >= self.generation:
            return
        if self.failure:
            raise self.failure
        file = self._disk.open(self._layout.segment(incarnation, log.segment))
        try:
            self._syncer.sync([file])
            self._syncer.sync(folders=[self._layout.bucket(incarnation)])
        except SyncFailed as failure:
            self.failure = failure
            raise
        finally:
            file.close()
