"""Doubt: a record that can be read may be in the memory of the machine only, if its process ended before a sync.

Nothing may be answered on its strength before it is on the disk. Logs whose last record is of a time from which not
everything is known to be there are synced when they are opened. If that fails it is not tried again: the next sync
would succeed, and prove nothing.
"""

from contextlib import suppress
from pathlib import Path

from everbrook.protocol.state import Snapshot
from everbrook.storage.disk import Disk
from everbrook.storage.file_blobs import blob_path
from everbrook.storage.files.catalogue import GENERATION_SHIFT, Doubts
from everbrook.storage.files.damage import Damage
from everbrook.storage.files.handles import Syncer, SyncFailed
from everbrook.storage.files.layout import Layout
from everbrook.storage.files.log import StreamLog
from everbrook.storage.files.logs import Logs


class Doubt:
    """Syncs what is doubted when it is met."""

    def __init__(self, disk: Disk, layout: Layout, logs: Logs, syncer: Syncer, doubts: Doubts) -> None:
        self._disk = disk
        self._layout = layout
        self._logs = logs
        self._syncer = syncer
        self.doubts = doubts
        self.failure: SyncFailed | None = None

    def about(self, log: StreamLog) -> bool:
        """Tell whether the end of a log is doubted."""
        return log.number >> GENERATION_SHIFT < max(self.doubts.ends, self.doubts.logs)

    def settle(self, incarnation: int, log: StreamLog) -> None:
        """Return when a log is on the disk as it was read."""
        if not self._syncer.durable or not self.about(log):
            return
        if self.failure:
            raise self.failure
        entirely = log.number >> GENERATION_SHIFT < self.doubts.logs
        first = self._logs.beginnings.of(incarnation) if entirely else log.segment
        try:
            for segment in range(first, log.segment + 1):
                self._sync_segment(incarnation, segment)
            self._syncer.sync(folders=[self._layout.bucket(incarnation)])
            if entirely:
                self._sync_snapshot(log.state.head.kept.snapshot)
        except SyncFailed as failure:
            self.failure = failure
            raise

    def _sync_segment(self, incarnation: int, segment: int) -> None:
        path = self._layout.segment(incarnation, segment)
        try:
            self._sync(path)
        except FileNotFoundError:
            if segment >= self._logs.beginnings.of(incarnation):
                raise Damage(path, 0) from None

    def _sync_snapshot(self, snapshot: Snapshot | None) -> None:
        """Sync the blob of a snapshot. That it is lost is a matter of whoever asks for it."""
        if snapshot and not snapshot.automatic:
            path = blob_path(self._layout.blobs, snapshot.owner, snapshot.blob)
            with suppress(FileNotFoundError):
                self._sync(path)
                self._syncer.sync(folders=[path.parent])

    def _sync(self, path: Path) -> None:
        file = self._disk.open(path)
        try:
            self._syncer.sync([file])
        finally:
            file.close()
