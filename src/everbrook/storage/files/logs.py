"""Reading the logs of streams: from their last segment, and further back where older bytes are asked for.

A log begins with the segment that `beginnings` says. If there is none of that number, the folder is listed. A crash may
have interrupted the removal of segments, and left any of them: then there is a gap, and the log is what follows it if
that holds everything the stream retains.
"""

from bisect import bisect_right
from pathlib import Path

from everbrook.protocol.state import Identity
from everbrook.storage.disk import Disk
from everbrook.storage.files.beginnings import Beginnings, runs
from everbrook.storage.files.damage import Damage
from everbrook.storage.files.index import SegmentIndex
from everbrook.storage.files.layout import Layout, exists, last_segment, segments_of
from everbrook.storage.files.log import EVERYTHING, StreamLog, first_record, proves_loss
from everbrook.storage.record import FRAME, LOG_HEADER

_FIRST_READ_BYTES = 4096


class Logs:
    """All logs of a store, for reading."""

    def __init__(self, disk: Disk, layout: Layout) -> None:
        self._disk = disk
        self._layout = layout
        self.beginnings = Beginnings()

    def open(self, incarnation: int, limit: int = EVERYTHING) -> StreamLog:
        """Read a log up to the record of number `limit`. Only its last segment is read."""
        first = self.beginnings.of(incarnation)
        try:
            log = self._open(incarnation, first, limit)
        except Damage:
            # The first segments may have been let go of meanwhile, or it is not known how many were.
            moved = self.first(incarnation)
            if moved in {None, first}:
                raise
            log = self._open(incarnation, moved or 0, limit)
        log.target = log.number
        return log

    def _open(self, incarnation: int, first: int, limit: int) -> StreamLog:
        last = last_segment(self._disk, self._layout, incarnation, first)
        beginning = self._layout.segment(incarnation, first)
        if last > first and not exists(self._disk, beginning):
            raise Damage(beginning, 0)
        return self._open_at(incarnation, first, last, limit)

    def first(self, incarnation: int) -> int | None:
        """Give the first segment of a log, if there is any."""
        first = self.beginnings.of(incarnation)
        if exists(self._disk, self._layout.segment(incarnation, first)):
            return first
        try:
            found = segments_of(self._disk, self._layout.bucket(incarnation), incarnation)
        except FileNotFoundError:
            return None
        return self.locate(incarnation, [number for _, number in found]) if found else None

    def locate(self, incarnation: int, numbers: list[int]) -> int:
        """Find which of the segments that are there is the first of a log, and enter it."""
        first = self.beginnings.of(incarnation)
        if first not in numbers or len(runs([number for number in numbers if number >= first])) > 1:
            first = self._find_first(incarnation, runs(numbers))
            self.beginnings.move(incarnation, first)
        return first

    def _find_first(self, incarnation: int, found: list[range]) -> int:
        for run in reversed(found[1:]):
            if self._suffices(incarnation, run):
                return run.start
        return found[0].start

    def _suffices(self, incarnation: int, run: range) -> bool:
        """Tell whether segments hold everything that their stream retains."""
        try:
            head = self._open_at(incarnation, run.start, run[-1], EVERYTHING).state.head
            first = self._begin(self._layout.segment(incarnation, run.start), run.start)
        except Damage:
            return False
        return first.index.first <= head.kept.earliest

    def _open_at(self, incarnation: int, first: int, segment: int, limit: int) -> StreamLog:
        path = self._layout.segment(incarnation, segment)
        data = self._read_new(path) if segment > first else self._read(path)
        found = first_record(data)
        if found and found[1].number <= limit:
            log = StreamLog(segment, *found)
            log.take(path, data, 0, limit)
            return log
        if segment == first:
            raise Damage(path, 0)
        before = self._open_at(incarnation, first, segment - 1, limit)
        if not found and not before.hidden and proves_loss(data, 0, before.salt, before.number):
            raise Damage(path, 0)
        return before

    def require_retained(self, incarnation: int, log: StreamLog) -> None:
        """Raise `Damage` if a log has lost segments that its stream had not let go of."""
        first = self.beginnings.of(incarnation)
        if first and self.start(incarnation, log, first) > log.state.head.kept.earliest:
            raise Damage(self._layout.segment(incarnation, first - 1), 0)

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
        first = self.first(incarnation)
        if first is None:
            return None
        try:
            return self._begin(self._layout.segment(incarnation, first), first).state.head.identity
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
        """Give the segment up to the one that `log` has come to which holds the byte at `offset`."""
        if offset >= log.index.first:
            return log.segment
        first = self.beginnings.of(incarnation)
        numbers = range(first, log.segment + 1)
        place = bisect_right(numbers, offset, key=lambda number: self.start(incarnation, log, number)) - 1
        if place < 0:
            raise Damage(self._layout.segment(incarnation, first - 1), 0)
        return numbers[place]

    def start(self, incarnation: int, log: StreamLog, segment: int) -> int:
        """Give the offset at which a segment begins, up to the one that `log` has come to."""
        start = log.index.first if segment == log.segment else log.starts.get(segment)
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
        if read.position < len(data) or read.index.tail != self.start(incarnation, log, segment + 1):
            raise Damage(path, read.position)
        return read.index
