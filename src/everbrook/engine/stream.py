"""A stream in memory: the state that decisions see, the state that readers see, and who waits for more.

`head` is the newest state, `committed` the newest durable one. They differ by the changes on their way to the disk.
"""

from collections import Counter
from collections.abc import Mapping
from itertools import takewhile

from everbrook.engine.feed import Feed
from everbrook.engine.lineage import Lineage
from everbrook.protocol.change import Write
from everbrook.protocol.errors import ProtocolError
from everbrook.protocol.path import bucket_of
from everbrook.protocol.state import Head, Producer
from everbrook.storage.damage import DamageMark
from everbrook.storage.memory import producer_bytes, producers_bytes


class Stream:
    """One incarnation of a stream. It is the `StreamView` of its own decisions."""

    __slots__ = (
        "committed",
        "damage",
        "ended",
        "feed",
        "fork_count",
        "fork_depth",
        "head",
        "lineage",
        "pending_forks",
        "producer_bytes",
        "producer_idle_ms",
        "producers",
        "resident",
        "touched_at",
    )

    def __init__(self, head: Head, lineage: Lineage, producer_idle_ms: int | None) -> None:
        self.head = head
        self.committed = head
        self.lineage = lineage
        self.producers: dict[bytes, Producer] = {}
        self.producer_bytes = 0
        self.producer_idle_ms = producer_idle_ms
        self.fork_count = 0
        self.fork_depth = 0
        self.pending_forks = 0
        self.touched_at = head.written_at
        self.damage: DamageMark | None = None
        self.feed: Feed | None = None
        self.ended: ProtocolError | None = None
        self.resident = True

    @property
    def followed(self) -> bool:
        """Whether somebody waits at the tail."""
        return bool(self.feed)

    def producer(self, producer_id: bytes) -> Producer | None:
        """Give what the stream remembers of a producer."""
        return self.producers.get(producer_id)

    def idle_producers(self, now: int) -> tuple[bytes, ...]:
        """Give the producers that have been silent for longer than they are remembered, if that is bounded.

        One with a position is always remembered: its writer resumes from it.
        """
        if self.producer_idle_ms is None:
            return ()
        before = now - self.producer_idle_ms
        idle = takewhile(lambda item: item[1].seen_at < before, self.producers.items())
        return tuple(producer_id for producer_id, producer in idle if producer.position is None)

    @property
    def idle(self) -> bool:
        """Whether the stream can leave memory and come back from the storage as it is.

        Nothing of it is on its way or waited for, and no read has postponed its end, which only memory knows.
        """
        if self.lineage.unapplied or self.pending_forks or self.feed:
            return False
        return not self.head.identity.slides or self.touched_at <= self.head.written_at

    def count_fork(self, change: int) -> None:
        """Count a fork that came or went; it is not durable yet."""
        self.fork_count += change
        self.pending_forks += 1

    def write(self, write: Write) -> None:
        """Take over the state that a change on its way to the disk will have made durable."""
        self.head = write.head
        self.touched_at = max(self.touched_at, write.head.written_at)
        self.lineage.unapplied.append(write)
        for producer_id in write.forgotten:
            self.producer_bytes -= producer_bytes(producer_id, self.producers.pop(producer_id))
        if write.producer_id is not None and write.producer is not None:
            # In the order of their last appends, so that the idle ones come first.
            before = producer_bytes(write.producer_id, self.producers.pop(write.producer_id, None))
            self.producer_bytes += producer_bytes(write.producer_id, write.producer) - before
            self.producers[write.producer_id] = write.producer

    def remember(self, producers: Mapping[bytes, Producer]) -> None:
        """Take over what the storage remembers of producers."""
        self.producers = dict(producers)
        self.producer_bytes = producers_bytes(self.producers)

    def commit(self) -> None:
        """Show readers the oldest change on its way, which is durable now."""
        self.committed = self.lineage.unapplied.pop(0).head
        self.lineage.applied = self.committed.tail
        if self.feed:
            self.feed.wake()

    def end(self, error: ProtocolError) -> None:
        """Tell those who read the stream, now and later, that it has ended."""
        self.ended = error
        if self.feed:
            self.feed.end(error)

    def is_boundary(self, offset: int) -> bool:
        """Tell whether a message begins or ends at `offset`."""
        return self.lineage.is_boundary(offset)

    def boundary_at_or_before(self, offset: int) -> int:
        """Give the last message boundary not greater than `offset`."""
        return self.lineage.boundary_at_or_before(offset)

    def boundary_after(self, offset: int) -> int:
        """Give the first message boundary greater than `offset`."""
        return self.lineage.boundary_after(offset)

    def append_end(self, offset: int) -> int:
        """Give the end of the append that holds the byte at `offset`."""
        return self.lineage.append_end(offset)

    def seek(self, offset: int, count: int, bound: int) -> int:
        """Go `count` messages on from a boundary, backwards if negative, but not beyond `bound`."""
        return self.lineage.seek(offset, count, bound)

    def first_since(self, start: int, end: int, time: int) -> int:
        """Give where the first message between two boundaries begins that was appended at `time` or later."""
        return self.lineage.first_since(start, end, time)


class ProducerBytes:
    """About how much memory the producers of loaded streams take, in all and by bucket."""

    def __init__(self) -> None:
        self.all = 0
        self._by_bucket = Counter[bytes | None]()

    def beside(self, name: bytes) -> int:
        """Give what those take whose streams are in the bucket of this one, or are in none as it is."""
        return self._by_bucket[bucket_of(name)]

    def add(self, stream: Stream, more_bytes: int) -> None:
        """Count more, or less, for a stream."""
        if more_bytes:
            bucket_id = bucket_of(stream.head.identity.name)
            self.all += more_bytes
            self._by_bucket[bucket_id] += more_bytes
            if not self._by_bucket[bucket_id]:
                del self._by_bucket[bucket_id]
