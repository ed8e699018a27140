"""The reading side: the logs of the streams that were asked for lately, read on as they grow."""

import logging
from array import array
from collections.abc import Iterator
from contextlib import contextmanager

from everbrook.protocol.change import Change
from everbrook.protocol.errors import StreamDamaged, Unavailable
from everbrook.protocol.state import Head
from everbrook.storage.disk import Disk
from everbrook.storage.files.cache import Cache
from everbrook.storage.files.damage import Damage
from everbrook.storage.files.doubt import Doubt
from everbrook.storage.files.handles import SyncFailed
from everbrook.storage.files.heads import Heads
from everbrook.storage.files.index import SegmentIndex
from everbrook.storage.files.layout import Layout
from everbrook.storage.files.log import StreamLog
from everbrook.storage.files.logs import Logs
from everbrook.storage.files.tuning import FilesTuning
from everbrook.storage.index import Messages

logger = logging.getLogger(__name__)


class Reader:
    """Reads streams. `applied` is the number of the last change that is visible."""

    def __init__(self, disk: Disk, layout: Layout, logs: Logs, doubt: Doubt, applied: int, tuning: FilesTuning) -> None:
        self._disk = disk
        self._layout = layout
        self._logs = logs
        self._doubt = doubt
        self.hot: Cache[int, StreamLog] = Cache(tuning.hot_bytes, lambda log: log.weight)
        self.older: Cache[tuple[int, int], SegmentIndex] = Cache(tuning.older_bytes, lambda index: index.weight)
        self._heads = Heads()
        self._reported: set[tuple[str, int]] = set()
        self.damages: list[Damage] = []
        self.applied = applied

    @contextmanager
    def _confined(self) -> Iterator[None]:
        """Report damage, and make it a matter of the one stream that was asked for. So is what can't be relied on."""
        try:
            yield
        except SyncFailed as failure:
            raise Unavailable("it is not known whether the stream is on the disk: a sync failed") from failure
        except Damage as damage:
            self.report(damage)
            raise StreamDamaged("what is stored of the stream is not what was written") from damage

    def report(self, damage: Damage) -> None:
        """Tell whoever keeps the log of the server, once."""
        place = (str(damage.path), damage.position)
        if place not in self._reported:
            self._reported.add(place)
            self.damages.append(damage)
            logger.error("%s", damage)

    def apply(self, number: int, change: Change) -> None:
        """Let the streams that are being read know how far they may be read."""
        for edit in change:
            log = self.hot.peek(edit.head.identity.incarnation)
            if log:
                log.target = number
            self._heads.apply(edit)

    def forget(self, incarnation: int) -> None:
        """Let go of a stream that was dropped."""
        log = self.hot.peek(incarnation)
        if log:
            self._forget_before(incarnation, log, log.segment)
        self.hot.forget(incarnation)

    def _forget_before(self, incarnation: int, log: StreamLog, segment: int) -> None:
        for each in range(self._logs.beginnings.of(incarnation), segment):
            self.older.forget((incarnation, each))
            log.starts.pop(each, None)

    def let_go(self, incarnation: int, floor: int) -> range:
        """Let a log begin with the segment that holds the byte at `floor`. Gives the segments before it."""
        with self._confined():
            log = self._log(incarnation)
            before = self._logs.beginnings.of(incarnation)
            first = self._logs.find(incarnation, log, floor)
        if first > before:
            self._forget_before(incarnation, log, first)
            self._logs.beginnings.move(incarnation, first)
        return range(before, first)

    def head(self, incarnation: int) -> Head:
        """Give a head. It is remembered, what it was read from is not."""
        head = self._heads.get(incarnation)
        if head is None:
            with self._confined():
                head = (self._log(incarnation) if self.hot.peek(incarnation) else self._open(incarnation)).state.head
            self._heads.put(head)
        return head

    def has(self, incarnation: int) -> bool:
        """Tell whether there is anything of a log."""
        return self.hot.peek(incarnation) is not None or self._logs.first(incarnation) is not None

    def log(self, incarnation: int) -> StreamLog:
        """Give a log, read as far as it is visible."""
        with self._confined():
            return self._log(incarnation)

    def _log(self, incarnation: int) -> StreamLog:
        log = self.hot.use(incarnation)
        if log is None:
            log = self._open(incarnation)
            self.hot.put(incarnation, log)
        elif log.number < log.target:
            self._logs.follow(incarnation, log)
        return log

    def _open(self, incarnation: int) -> StreamLog:
        log = self._logs.open(incarnation, self.applied)
        self._doubt.settle(incarnation, log)
        return log

    def _index_at(self, incarnation: int, offset: int) -> tuple[int, SegmentIndex]:
        """Give the segment that holds the byte at `offset`, and its index."""
        log = self._log(incarnation)
        if offset >= log.index.first or log.segment == 0:
            return log.segment, log.index
        segment = self._logs.find(incarnation, log, offset)
        index = self.older.use((incarnation, segment))
        if index is None:
            index = self._logs.index(incarnation, log, segment)
            self.older.put((incarnation, segment), index)
        return segment, index

    def read(self, incarnation: int, start: int, end: int) -> bytes:
        """Give the bytes from `start` to `end`."""
        with self._confined():
            parts: list[bytes] = []
            while start < end:
                segment, index = self._index_at(incarnation, start)
                part_end = min(end, index.tail)
                parts.append(index.read(self._disk, self._layout.segment(incarnation, segment), start, part_end))
                start = part_end
            return parts[0] if len(parts) == 1 else b"".join(parts)

    def boundary_at_or_before(self, incarnation: int, offset: int) -> int:
        """Give the last message boundary not greater than `offset`."""
        with self._confined():
            return self._index_at(incarnation, offset)[1].boundary_at_or_before(offset)

    def boundary_after(self, incarnation: int, offset: int) -> int:
        """Give the first message boundary greater than `offset`."""
        with self._confined():
            return self._index_at(incarnation, offset)[1].boundary_after(offset)

    def append_end(self, incarnation: int, offset: int) -> int:
        """Give the end of the append that holds the byte at `offset`."""
        with self._confined():
            return self._index_at(incarnation, offset)[1].append_end(offset)

    def time_at(self, incarnation: int, offset: int) -> int:
        """Give the time of the append that holds the byte at `offset`."""
        with self._confined():
            return self._index_at(incarnation, offset)[1].time_at(offset)

    def messages(self, incarnation: int, start: int, end: int) -> Messages:
        """Give the messages that end after `start` and not after `end`."""
        found = Messages(array("Q"), array("Q"))
        with self._confined():
            end = min(end, self._log(incarnation).index.tail)
            while start < end:
                index = self._index_at(incarnation, start)[1]
                part = index.messages_between(start, end)
                found.ends.extend(part.ends)
                found.times.extend(part.times)
                start = index.tail
        return found

    def seek(self, incarnation: int, offset: int, count: int) -> tuple[int, int]:
        """Go `count` messages on, backwards if negative, segment by segment."""
        with self._confined():
            log = self._log(incarnation)
            first = self._logs.start(incarnation, log, self._logs.beginnings.of(incarnation))
            while (count > 0 and offset < log.index.tail) or (count < 0 and offset > first):
                index = self._index_at(incarnation, offset if count > 0 else offset - 1)[1]
                offset, count = index.seek(offset, count)
        return offset, count

    def clear(self) -> None:
        """Let go of everything."""
        self._heads.clear()
        self.hot.clear()
        self.older.clear()
