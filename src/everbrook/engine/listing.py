"""Listings: the streams whose names begin with a prefix, scanned in the storage, with the state in memory on top.

A scan reads durable heads in the order of the names, so it loads no stream.
"""

from collections.abc import Iterator

from everbrook.engine.clock import Clock
from everbrook.engine.streams import Streams
from everbrook.protocol.lifetime import deadline, ended, last_touch
from everbrook.protocol.state import Head
from everbrook.storage.api import Storage

Named = list[tuple[bytes, Head | None]]
"""Names with their durable heads. A damaged stream has no head."""


class Listing:
    """Lists streams by the prefix of their names."""

    def __init__(self, storage: Storage, clock: Clock, streams: Streams, counting_slice: int) -> None:
        """`counting_slice` is the number of names that `heads` scans at a time."""
        self._storage = storage
        self._clock = clock
        self._streams = streams
        self._counting_slice = counting_slice

    def count(self, prefix: bytes) -> int:
        """Count the streams whose names begin with `prefix`. One that has just expired may be among them."""
        return self._storage.count(prefix)

    def living(self, prefix: bytes, after: bytes, limit: int) -> Named:
        """Return the living streams whose names begin with `prefix`, in order."""
        found: Named = []
        go_on_after: bytes | None = after
        while go_on_after is not None and len(found) < limit:
            living, go_on_after = self.scan(prefix, go_on_after, limit - len(found))
            found += living
        return found

    def scan(self, prefix: bytes, after: bytes, limit: int) -> tuple[Named, bytes | None]:
        """Return the living streams among the next `limit` names, and the name to continue after, if there are more."""
        now = self._clock.now()
        found = self._storage.scan(prefix, after, limit)
        living = [(name, head) for name, head in found if head is None or self.lives(head, now)]
        return living, found[-1][0] if len(found) == limit else None

    def lives(self, head: Head, now: int) -> bool:
        """Return whether a stream is neither deleted nor expired, without loading it."""
        if head.deleted or not head.identity.mortal:
            return not head.deleted
        stream = self._streams.in_memory(head.identity.name)[0]
        if stream:
            return not ended(stream.committed, stream, now)
        end = deadline(head.identity, last_touch(head.written_at, self._streams.started_at, now))
        return end is None or now < end

    def scan_newest(self, prefix: bytes, after: bytes, limit: int) -> tuple[list[Head], bytes | None]:
        """Do what `scan` does, but return the newest heads. Streams without a durable state are left out."""
        found, go_on_after = self.scan(prefix, after, limit)
        return list(self._newest(found)), go_on_after

    def arriving(self, prefix: bytes) -> list[Head]:
        """Return the newest heads of the streams below `prefix` that no scan finds: they are not durable yet."""
        heads = self._streams.arriving_heads(prefix)
        return [head for head in heads if self._streams.in_memory(head.identity.name)[0] is None]

    def heads(self, prefix: bytes) -> Iterator[Head]:
        """Yield the newest heads of all streams whose names begin with `prefix`, deleted and expired ones included."""
        after = b""
        while found := self._storage.scan(prefix, after, self._counting_slice):
            yield from self._newest(found)
            after = found[-1][0]
        yield from self.arriving(prefix)

    def _newest(self, found: Named) -> Iterator[Head]:
        """Yield the newest heads of durable streams. One whose removal is pending, or that is damaged, has none."""
        for name, head in found:
            durable, newest = self._streams.in_memory(name)
            if newest:
                yield newest.head
            elif head and not durable:
                yield head
