"""Quotas: how much the whole store and each bucket may hold. The engine decides, so that they are exact.

A bucket's own quota is kept in a record beside the streams, and is that of the name: who may delete a bucket and create
it again must not be rid of its bound by that. What holds less than before, or as much, is never refused. Subscriptions
and producers are bounded by the same quota beside the streams, so that none takes the others' room.
"""

from collections.abc import Callable, Iterator

import msgspec
from msgspec import Struct

from everbrook.engine.limits import UNLIMITED, Limits
from everbrook.engine.records import QUOTA_RECORDS, is_own
from everbrook.engine.usage import EVERYTHING, Differences, Held, Usage
from everbrook.protocol.change import Change
from everbrook.protocol.errors import BucketFull, StoreFull, TooManySubscriptions, quoted
from everbrook.protocol.path import bucket_of


class Quota(Struct, frozen=True, omit_defaults=True):
    """What a bucket may hold. What is None is as the settings say."""

    max_bytes: int | None = None
    max_streams: int | None = None


NO_QUOTA = Quota()


class StoredQuota(Struct, frozen=True):
    """A quota as it is stored."""

    quota: Quota


_stored = msgspec.json.Decoder(list[StoredQuota])


class Quotas:
    """Refuses changes that would hold too much."""

    def __init__(self, limits: Limits, usage: Usage, read: Callable[[bytes], Iterator[bytes]], known: int) -> None:
        """Take how to read a record, and how many buckets have a quota of their own."""
        self._limits = limits
        self._usage = usage
        self._read = read
        self._own: dict[bytes, StoredQuota | None] = {}
        bounds = (limits.max_total_bytes, limits.max_bucket_bytes, limits.max_bucket_streams)
        self.active = known > 0 or min(bounds) < UNLIMITED

    def own(self, bucket_id: bytes) -> Quota:
        """Give the quota that was set for a bucket."""
        if bucket_id not in self._own:
            self._own[bucket_id] = self._load(bucket_id)
        stored = self._own[bucket_id]
        return stored.quota if stored else NO_QUOTA

    def _load(self, bucket_id: bytes) -> StoredQuota | None:
        last = None
        for body in self._read(QUOTA_RECORDS + bucket_id):
            last = _stored.decode(body)[-1]
        return last

    def set(self, bucket_id: bytes, stored: StoredQuota | None) -> None:
        """Take over a quota that is on its way to the disk, or that there is none any more."""
        self.active = True
        self._own[bucket_id] = stored

    def bounds(self, bucket_id: bytes) -> tuple[int, int]:
        """Give how many bytes and how many streams a bucket may hold."""
        own, limits = self.own(bucket_id), self._limits
        max_bytes = limits.max_bucket_bytes if own.max_bytes is None else own.max_bytes
        return max_bytes, limits.max_bucket_streams if own.max_streams is None else own.max_streams

    def measure(self, change: Change) -> Differences:
        """Give by how much a change makes more or less of what is held: what to `follow` once it is on its way."""
        for name in {edit.head.identity.name for edit in change}:
            self._measure(bucket_of(name))
        return self._usage.differences(change)

    def check(self, change: Change) -> Differences:
        """Measure a change, and refuse it if it would hold too much. What the server writes by itself is not refused:
        acks and quotas, without which nobody could make room.
        """
        differences = self.measure(change)
        for scope, more in differences.items():
            if more.size <= 0 and more.streams <= 0:
                continue
            if scope != EVERYTHING:
                self._check_bucket(scope, more, self.bounds(scope))
            elif more.size > 0 and not all(is_own(edit.head.identity.name) for edit in change):
                self._check_store(more.size)
        return differences

    def _measure(self, bucket_id: bytes | None) -> None:
        """See that what is bounded is measured: what a change does to it is known only then."""
        if self._limits.max_total_bytes < UNLIMITED:
            self._usage.of(EVERYTHING)
        if bucket_id is not None and min(self.bounds(bucket_id)) < UNLIMITED:
            self._usage.of(bucket_id)

    def _check_store(self, more_bytes: int) -> None:
        most = self._limits.max_total_bytes
        if most < UNLIMITED and self._usage.of(EVERYTHING).size + more_bytes > most:
            raise StoreFull(f"all streams together hold at most {most} bytes")

    def _check_bucket(self, bucket_id: bytes, more: Held, bounds: tuple[int, int]) -> None:
        max_bytes, max_streams = bounds
        if min(bounds) >= UNLIMITED:
            return
        held = self._usage.of(bucket_id)
        if more.size > 0 and held.size + more.size > max_bytes:
            raise BucketFull(f"the bucket {quoted(bucket_id)} holds at most {max_bytes} bytes")
        if more.streams > 0 and held.streams + more.streams > max_streams:
            raise BucketFull(f"the bucket {quoted(bucket_id)} holds at most {max_streams} streams")

    def check_producers(self, name: bytes, size: int) -> None:
        """Refuse a producer of a stream if those of its bucket would take more bytes of memory than streams may hold.

        They are counted where their streams are in memory, beside the streams.
        """
        bucket_id = bucket_of(name)
        if bucket_id is not None and size > (most := self.bounds(bucket_id)[0]):
            raise BucketFull(f"the producers of the bucket {quoted(bucket_id)} take at most {most} bytes of memory")

    def check_subscriptions(self, root: bytes, held: Held, more: Held) -> None:
        """Refuse more subscriptions below a stream root than there may be, or that name more than they may.

        A bucket has no more of them than it may have streams, and no more bytes in them than in its streams.
        """
        count, size = held.streams + more.streams, held.size + more.size
        if more.streams and count > self._limits.max_subscriptions:
            raise TooManySubscriptions(
                f"there are at most {self._limits.max_subscriptions} subscriptions below {quoted(root)}"
            )
        self._check_store(more.size)
        bucket_id = bucket_of(root)
        if bucket_id is None:
            return
        max_bytes, max_streams = self.bounds(bucket_id)
        if size > max_bytes:
            raise BucketFull(f"the subscriptions of the bucket {quoted(bucket_id)} hold at most {max_bytes} bytes")
        if more.streams and count > max_streams:
            raise BucketFull(f"the bucket {quoted(bucket_id)} has at most {max_streams} subscriptions")

    def follow(self, change: Change, differences: Differences) -> None:
        """Count a change that is on its way."""
        self._usage.follow(change, differences)

    def forget_changes(self) -> None:
        """Measure and load again: changes came to nothing."""
        self._own.clear()
        self._usage.forget()

    def forget_bucket(self, bucket_id: bytes) -> None:
        """Count again what a bucket holds: it is gone. Its quota stays."""
        self._usage.forget(bucket_id)
        if self._own.get(bucket_id) is None:
            # Nothing is remembered of it. A quota of its own outlives it, and may not be durable yet.
            self._own.pop(bucket_id, None)
