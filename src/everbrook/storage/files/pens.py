"""Pens: where the next record of each stream goes, for the streams that were written to lately."""

from contextlib import suppress
from pathlib import Path

from everbrook.protocol.change import Write
from everbrook.protocol.state import Head
from everbrook.storage.disk import Disk
from everbrook.storage.files.cache import Cache
from everbrook.storage.files.damage import Damage
from everbrook.storage.files.doubt import Doubt
from everbrook.storage.files.handles import Handles, Syncer
from everbrook.storage.files.layout import Layout, exists, segments_of
from everbrook.storage.files.log import proves_loss
from everbrook.storage.files.logs import Logs
from everbrook.storage.files.state import StreamState, pack_state
from everbrook.storage.files.tuning import FilesTuning
from everbrook.storage.packing import pack_edit
from everbrook.storage.record import frame, log_header

# A segment is at least so many times as large as the state that it begins with.
_STATE_SHARE = 8
_PRODUCER_BYTES = 48


class Pen:
    """The end of a log. Before anything is in a segment, `position` is 0."""

    __slots__ = ("number", "position", "salt", "segment", "state")

    def __init__(self, state: StreamState, salt: int) -> None:
        self.segment = 0
        self.position = 0
        self.number = 0
        self.salt = salt
        self.state = state

    def outgrown(self, segment_bytes: int) -> bool:
        """Tell whether the next record begins a segment."""
        return self.position >= max(segment_bytes, len(self.state.producers) * _PRODUCER_BYTES * _STATE_SHARE)


class Pens:
    """The pens of a store, and the files under them."""

    def __init__(
        self, disk: Disk, layout: Layout, logs: Logs, doubt: Doubt, syncer: Syncer, *, salt: int, tuning: FilesTuning
    ) -> None:
        self._disk = disk
        self._layout = layout
        self._logs = logs
        self._doubt = doubt
        self._salt = salt
        self._segment_bytes = tuning.segment_bytes
        self._pens: Cache[int, Pen] = Cache(tuning.pens_bytes, lambda pen: pen.state.weight)
        self.syncer = syncer
        self.handles = Handles(disk, tuning.open_files)

    @property
    def weight(self) -> int:
        """How much memory the pens take."""
        return self._pens.weight

    def path(self, incarnation: int, pen: Pen) -> Path:
        """Give the file that a pen writes to."""
        return self._layout.segment(incarnation, pen.segment)

    def take(self, incarnation: int, write: Write) -> Pen:
        """Give the pen of a stream for a write."""
        pen = self._pens.use(incarnation)
        if pen is None:
            pen = self._new(write.head) if write.created else self._open(incarnation)
            self._pens.put(incarnation, pen)
        return pen

    def _new(self, head: Head) -> Pen:
        return Pen(StreamState(head, {}), self._salt)

    def _open(self, incarnation: int) -> Pen:
        """Find the end of a log, and cut off what was torn behind it."""
        log = self._logs.open(incarnation)
        pen = Pen(log.state, log.salt)
        pen.segment, pen.position, pen.number = log.segment, log.position, log.number
        if self._doubt.about(log):
            self._remove_after(incarnation, log.segment)
        file = self.handles.use(self.path(incarnation, pen))
        if file.size > log.position:
            file.truncate(log.position)
            self.syncer.sync([file])
        self._doubt.settle(incarnation, log)
        return pen

    def _remove_after(self, incarnation: int, segment: int) -> None:
        """Remove the segments after the last one: they were torn, or a power failure took what lay before them."""
        folder = self._layout.bucket(incarnation)
        later = [path for path, number in segments_of(self._disk, folder, incarnation) if number > segment]
        for path in later:
            self._disk.remove(path)
        if later:
            self.syncer.sync(folders=[folder])

    def write(self, pen: Pen, writes: list[tuple[int, Write]]) -> bytes:
        """Give the bytes of numbered writes. The pen is at the beginning of a segment if they begin one."""
        parts: list[bytes] = []
        if pen.outgrown(self._segment_bytes):
            self.handles.forget(self.path(writes[0][1].head.identity.incarnation, pen))
            pen.segment, pen.position = pen.segment + 1, 0
            parts.append(log_header(pen.salt, pen.number))
            parts.append(frame(pen.salt, pen.number, pen.number, pack_state(pen.state)))
        elif pen.position == 0:
            parts.append(log_header(pen.salt, writes[0][0]))
        synced = pen.number
        for number, write in writes:
            parts.append(frame(pen.salt, number, synced, pack_edit(write)))
            pen.state.take(write)
            pen.number = number
        return b"".join(parts)

    def lacks(self, write: Write, number: int, salt: int) -> bool:
        """Tell whether a log ends where a write of an earlier time goes on. It may have left nothing whole."""
        incarnation = write.head.identity.incarnation
        try:
            log = self._logs.open(incarnation)
        except Damage as damage:
            if not write.created or not self._torn(incarnation, salt):
                raise
            with suppress(FileNotFoundError):
                self._disk.remove(damage.path)
            return True
        self._doubt.settle(incarnation, log)
        return log.number < number and log.state.head.tail == write.head.tail - len(write.data)

    def _torn(self, incarnation: int, salt: int) -> bool:
        """Tell whether the creation of a stream may have been torn, and nothing followed it."""
        try:
            data = self._disk.read(self._layout.segment(incarnation, 0))
        except FileNotFoundError:
            data = b""
        more = exists(self._disk, self._layout.segment(incarnation, 1))
        return not more and not proves_loss(data, 0, salt, 0)

    def forget(self, incarnation: int) -> None:
        """Let go of a stream that was dropped: an open file would keep its space."""
        pen = self._pens.peek(incarnation)
        if pen:
            self.handles.forget(self.path(incarnation, pen))
            self._pens.forget(incarnation)

    def clear(self) -> None:
        """Let go of every pen."""
        self._pens.clear()

    def close(self) -> None:
        """Close the files."""
        self.clear()
        self.handles.close()
        self.syncer.close()
