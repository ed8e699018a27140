"""A stream in memory: the state that decisions see, the state that readers see, and the feed of its live readers.

`head` is the newest state, `committed` the newest durable one. Pending changes are the difference between the two.
"""

from collections import Counter
from collections.abc import Mapping
from itertools import takewhile

from everbrook.engine.feed import Feed
from everbrook.engine.lineage import Lineage
from everbrook.protocol.errors import ProtocolError
from everbrook.protocol.path import bucket_of
from everbrook.protocol.state import Head, Producer, Write
from everbrook.storage.damage import DamageMark
from everbrook.storage.memory import more_producer_bytes, producer_bytes, producers_bytes


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
    def boundaries(self) -> Lineage:
        """Where the messages of the stream begin and end."""
        return self.lineage

    @property
    def followed(self) -> bool:
        """Whether a live reader waits at the tail."""
        return bool(self.feed)

    def producer(self, producer_id: bytes) -> Producer | None:
        """Return the state of a producer, if the stream knows it."""
        return self.producers.get(producer_id)

    def idle_producers(self, now: int) -> tuple[bytes, ...]:
        """Return the producers that may be forgotten: those that have been idle for longer than `producer_idle_ms`.

        A producer with a position is never forgotten, because its writer resumes from the position.
        """
        if self.producer_idle_ms is None:
            return ()
        before = now - self.producer_idle_ms
        idle = takewhile(lambda item: item[1].seen_at < before, self.producers.items())
        return tuple(producer_id for producer_id, producer in idle if producer.position is None)

    @property
    def idle(self) -> bool:
        """Whether the stream can be evicted and loaded again unchanged.

        So it has no pending changes and no live readers. No read may have postponed its expiry either, because the time
        of a read is kept in memory only.
        """
        if self.lineage.unapplied or self.pending_forks or self.feed:
            return False
        return not self.head.identity.slides or self.touched_at <= self.head.written_at

    def count_fork(self, change: int) -> None:
        """Count a fork that a pending change makes or removes."""
        self.fork_count += change
        self.pending_forks += 1

    def write(self, write: Write) -> None:
        """Apply a pending write to the newest state."""
        self.head = write.head
        self.touched_at = max(self.touched_at, write.head.written_at)
        self.lineage.unapplied.append(write)
        for producer_id in write.forgotten:
            self.producer_bytes -= producer_bytes(producer_id, self.producers.pop(producer_id))
        if write.producer_id is not None and write.producer is not None:
            # Move the producer to the end: `idle_producers` relies on the order of the last appends.
            before = self.producers.pop(write.producer_id, None)
            self.producers[write.producer_id] = write.producer
            self.producer_bytes += more_producer_bytes(write.producer_id, before, write.producer)

    def remember(self, producers: Mapping[bytes, Producer]) -> None:
        """Set the producers to those of the storage."""
        self.producers = dict(producers)
        self.producer_bytes = producers_bytes(self.producers)

    def commit(self, count: int = 1) -> None:
        """Make the oldest pending changes visible to readers: they are durable now."""
        unapplied = self.lineage.unapplied
        self.committed = unapplied[count - 1].head
        del unapplied[:count]
        self.lineage.applied = self.committed.tail
        if self.feed:
            self.feed.wake()

    def end(self, error: ProtocolError) -> None:
        """End all reads of the stream with an error, those that begin later too."""
        self.ended = error
        if self.feed:
            self.feed.end(error)


class ProducerBytes:
    """Counts about how much memory the producers of loaded streams take, in all and by bucket."""

    def __init__(self) -> None:
        self.all = 0
        self._by_bucket = Counter[bytes | None]()

    def beside(self, name: bytes) -> int:
        """Return the bytes of the producers in the bucket of a stream. The base surface counts as one bucket."""
        return self._by_bucket[bucket_of(name)]

    def add(self, stream: Stream, more_bytes: int) -> None:
        """Count more bytes for a stream, or fewer if negative."""
        if more_bytes:
            bucket_id = bucket_of(stream.head.identity.name)
            self.all += more_bytes
            self._by_bucket[bucket_id] += more_bytes
            if not self._by_bucket[bucket_id]:
                del self._by_bucket[bucket_id]
