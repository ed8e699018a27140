"""Reading the logs of streams: from their last segment, and further back where older bytes are asked for."""

from bisect import bisect_right
from pathlib import Path

from everbrook.protocol.state import Identity
from everbrook.storage.disk import Disk
from everbrook.storage.files.damage import Damage
from everbrook.storage.files.index import SegmentIndex
from everbrook.storage.files.layout import Layout, last_segment
from everbrook.storage.files.log import EVERYTHING, StreamLog, first_record, proves_loss
from everbrook.storage.record import FRAME, LOG_HEADER

_FIRST_READ_BYTES = 4096


class Logs:
    """All logs of a store, for reading."""

    def __init__(self, disk: Disk, layout: Layout) -> None:
        self._disk = disk
        self._layout = layout

    def open(self, incarnation: int, limit: int = EVERYTHING) -> StreamLog:
        """Read a log up to the record of number `limit`. Only its last segment is read."""
        log = self._open_at(incarnation, last_segment(self._disk, self._layout, incarnation), limit)
        log.target = log.number
        return log

    def _open_at(self, incarnation: int, segment: int, limit: int) -> StreamLog:
        path = self._layout.segment(incarnation, segment)
        data = self._read_new(path) if segment else self._read(path)
        found = first_record(data)
        if found and found[1].number <= limit:
            log = StreamLog(segment, *found)
            log.take(path, data, 0, limit)
            return log
        if segment == 0:
            raise Damage(path, 0)
        before = self._open_at(incarnation, segment - 1, limit)
        if not found and not before.hidden and proves_loss(data, 0, before.salt, before.number):
            raise Damage(path, 0)
        return before

    def _read(self, path: Path, start: int = 0, size: int = -1) -> bytes:
        try:
            return self._disk.read(path, start, size)
        except FileNotFoundError:
            raise Damage(path, start) from None

    def _read_new(self, path: Path) -> bytes:
        """Read a segment that was seen just now. The writing side may have taken it back since."""
        try:
            return self._disk.read(path)
        except FileNotFoundError:
            return b""

    def identity(self, incarnation: int) -> Identity | None:
        """Tell what stream a log belongs to, if at least its beginning can be read."""
        try:
            return self._begin(self._layout.segment(incarnation, 0), 0).state.head.identity
        except Damage:
            return None

    def follow(self, incarnation: int, log: StreamLog) -> None:
        """Read a log on to its target."""
        while log.number < log.target:
            path = self._layout.segment(incarnation, log.segment)
            log.take(path, self._read(path, log.position), log.position, log.target)
            if log.number < log.target:
                self._enter_next(incarnation, log)

    def _enter_next(self, incarnation: int, log: StreamLog) -> None:
        path = self._layout.segment(incarnation, log.segment + 1)
        found = first_record(self._read(path))
        if found is None or found[1].number != log.number:
            raise Damage(path, 0)
        log.starts[log.segment] = log.index.first
        log.enter(log.segment + 1, *found)

    def find(self, incarnation: int, log: StreamLog, offset: int) -> int:
        """Give the segment before the one that `log` has come to which holds the byte at `offset`."""
        numbers = range(log.segment)
        return bisect_right(numbers, offset, key=lambda number: self._start(incarnation, log, number)) - 1

    def _start(self, incarnation: int, log: StreamLog, segment: int) -> int:
        start = log.starts.get(segment)
        if start is None:
            first = self._begin(self._layout.segment(incarnation, segment), segment)
            start = log.starts[segment] = first.index.first
        return start

    def _begin(self, path: Path, segment: int) -> StreamLog:
        """Read the first record of a segment, which seldom is long."""
        data = self._read(path, 0, _FIRST_READ_BYTES)
        if len(data) == _FIRST_READ_BYTES:
            length = FRAME.unpack_from(data, LOG_HEADER.size)[2]
            data = self._read(path, 0, max(_FIRST_READ_BYTES, LOG_HEADER.size + FRAME.size + length))
        found = first_record(data)
        if found is None:
            raise Damage(path, 0)
        return StreamLog(segment, *found)

    def index(self, incarnation: int, log: StreamLog, segment: int) -> SegmentIndex:
        """Index a segment before the last: every byte of it must be a record, up to where the next one begins."""
        path = self._layout.segment(incarnation, segment)
        data = self._read(path)
        found = first_record(data)
        if found is None:
            raise Damage(path, 0)
        read = StreamLog(segment, *found)
        read.take(path, data, 0, EVERYTHING)
        following = log.index.first if segment + 1 == log.segment else self._start(incarnation, log, segment + 1)
        if read.position < len(data) or read.index.tail != following:
            raise Damage(path, read.position)
        return read.index
