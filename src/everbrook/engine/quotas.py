"""Quotas and capacity: refuses a change for which a stream, the memory, a bucket or the store has no room.

The check is part of the decision, so quotas are exact. A bucket's own quota is stored in a record under the bucket's
name. It outlives the bucket: otherwise a client could remove its quota by deleting and creating the bucket. A change
that adds nothing is never refused. Subscriptions and producers have the same bounds as streams, but are counted
separately, so that none takes the room of the others.
"""

from collections.abc import Callable, Iterator

import msgspec
from msgspec import Struct

from everbrook.engine.limits import UNLIMITED, Limits
from everbrook.engine.records import QUOTA_RECORDS, is_own
from everbrook.engine.streams import Streams
from everbrook.engine.usage import EVERYTHING, Amount, Differences, Usage
from everbrook.protocol.commands import Command, Create
from everbrook.protocol.errors import BucketFull, StoreFull, TooManyProducers, TooManySubscriptions, quoted
from everbrook.protocol.path import bucket_of
from everbrook.protocol.state import Change, Write
from everbrook.protocol.subscriptions.subscription import SubscriptionCommand, WakeUp
from everbrook.storage.api import Storage
from everbrook.storage.memory import producer_bytes


class Quota(Struct, frozen=True, omit_defaults=True):
    """The quota of a bucket. For a bound of None the settings apply."""

    max_bytes: int | None = None
    max_streams: int | None = None


NO_QUOTA = Quota()


class StoredQuota(Struct, frozen=True):
    """A quota as it is stored."""

    quota: Quota


_stored = msgspec.json.Decoder(list[StoredQuota])


class Quotas:
    """Refuses changes that would exceed a quota."""

    def __init__(self, limits: Limits, usage: Usage, read: Callable[[bytes], Iterator[bytes]], known: int) -> None:
        """`read` yields the messages of a record. `known` is the number of buckets with a quota of their own."""
        self._limits = limits
        self._usage = usage
        self._read = read
        self._own: dict[bytes, StoredQuota | None] = {}
        bounds = (limits.max_total_bytes, limits.max_bucket_bytes, limits.max_bucket_streams)
        self.active = known > 0 or min(bounds) < UNLIMITED

    def own(self, bucket_id: bytes) -> Quota:
        """Return the quota that was set for a bucket."""
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
        """Set the quota of a bucket, or None if it was removed. The change of its record is pending."""
        self.active = True
        self._own[bucket_id] = stored

    def bounds(self, bucket_id: bytes) -> tuple[int, int]:
        """Return how many bytes and how many streams a bucket may hold."""
        own, limits = self.own(bucket_id), self._limits
        max_bytes = limits.max_bucket_bytes if own.max_bytes is None else own.max_bytes
        return max_bytes, limits.max_bucket_streams if own.max_streams is None else own.max_streams

    def held(self, bucket_id: bytes) -> Amount:
        """Return what a bucket holds."""
        return self._usage.of(bucket_id)

    def measure(self, change: Change) -> Differences:
        """Return by how much a change increases or reduces the usage, for `follow` once the change is submitted."""
        # Before the differences: a scope that is measured after the change was prepared would count it twice.
        for name in {edit.head.identity.name for edit in change}:
            self._measure(bucket_of(name))
        return self._usage.differences(change)

    def check(self, change: Change) -> Differences:
        """Measure a change, and refuse it if it would exceed a quota.

        The server's own records, such as acks and quotas, are not refused by the bound of the store: without them no
        client could make room.
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

    def check_snapshot(self, differences: Differences, size: int) -> None:
        """Refuse a snapshot of `size` bytes. `differences` are those of its publication without these bytes."""
        for scope, others in differences.items():
            more = Amount(0, others.size + size)
            if scope != EVERYTHING:
                self._check_bucket(scope, more, self.bounds(scope))
            elif more.size > 0:
                self._check_store(more.size)

    def _measure(self, bucket_id: bytes | None) -> None:
        """Measure the scopes that have a bound: differences are right only for measured scopes."""
        if self._limits.max_total_bytes < UNLIMITED:
            self._usage.of(EVERYTHING)
        if bucket_id is not None and min(self.bounds(bucket_id)) < UNLIMITED:
            self._usage.of(bucket_id)

    def _check_store(self, more_bytes: int) -> None:
        most = self._limits.max_total_bytes
        if most < UNLIMITED and self._usage.of(EVERYTHING).size + more_bytes > most:
            raise StoreFull(f"all streams together hold at most {most} bytes")

    def _check_bucket(self, bucket_id: bytes, more: Amount, bounds: tuple[int, int]) -> None:
        max_bytes, max_streams = bounds
        if min(bounds) >= UNLIMITED:
            return
        held = self._usage.of(bucket_id)
        if more.size > 0 and held.size + more.size > max_bytes:
            raise BucketFull(f"the bucket {quoted(bucket_id)} holds at most {max_bytes} bytes")
        if more.streams > 0 and held.streams + more.streams > max_streams:
            raise BucketFull(f"the bucket {quoted(bucket_id)} holds at most {max_streams} streams")

    def check_producers(self, name: bytes, size: int) -> None:
        """Refuse a new producer of a stream if the producers of its bucket would exceed the quota with their memory.

        Producers of loaded streams are counted, separately from the bytes of the streams.
        """
        bucket_id = bucket_of(name)
        if bucket_id is not None and size > (most := self.bounds(bucket_id)[0]):
            raise BucketFull(f"the producers of the bucket {quoted(bucket_id)} take at most {most} bytes of memory")

    def check_subscriptions(self, root: bytes, held: Amount, more: Amount) -> None:
        """Refuse subscriptions below a stream root that exceed the bounds of their number or bytes.

        The bounds of a bucket's subscriptions are those of its streams.
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
        """Count a pending change."""
        self._usage.follow(change, differences)

    def forget_changes(self) -> None:
        """Measure usage and load quotas again, after pending changes were rolled back."""
        self._own.clear()
        self._usage.forget()

    def forget_bucket(self, bucket_id: bytes) -> None:
        """Measure the usage of a deleted bucket again. Its quota stays."""
        self._usage.forget(bucket_id)
        if self._own.get(bucket_id) is None:
            # Only the absence of a quota is forgotten. An own quota outlives the bucket, and may be pending.
            self._own.pop(bucket_id, None)


class Capacity:
    """Checks a change against the limits and the quotas, after the decision and before it is submitted."""

    def __init__(self, storage: Storage, limits: Limits, streams: Streams, quotas: Quotas) -> None:
        self._storage = storage
        self.limits = limits
        self._streams = streams
        self._quotas = quotas

    def reserve(self, command: Command | SubscriptionCommand, change: Change) -> None:
        """Count the change of a command for its quotas, or refuse it."""
        if command.__class__ is WakeUp:
            self._reserve_wake(change)
            return
        # Only the last edit adds data: the edits before it remove streams.
        edit = change[-1]
        if isinstance(edit, Write):
            self.limits.check(edit, self._storage)
            # A close without data may add a producer, but only one to each stream: it always passes.
            if edit.producer_id is not None and edit.data:
                self._check_producer(edit, edit.producer_id)
        if command.__class__ is Create:
            self._check_fork(command)
        if self._quotas.active:
            self._quotas.follow(change, self._quotas.check(change))

    def _check_fork(self, command: Create) -> None:
        """Refuse a fork that would be too deep."""
        source = self._streams.stream(command.fork.source) if command.fork else None
        if source:
            self.limits.check_fork_depth(source.fork_depth + 1)

    def _check_producer(self, write: Write, producer_id: bytes) -> None:
        """Refuse a write by a new producer, if its stream has too many or there is no memory for it."""
        stream = self._streams.stream(name := write.head.identity.name)
        if stream and producer_id not in stream.producers:
            self.limits.check_producers(len(stream.producers) - len(write.forgotten))
            self._check_new_producer(name, producer_bytes(producer_id, write.producer))

    def _check_new_producer(self, name: bytes, size: int) -> None:
        """Refuse a new producer if memory is short, or if its bucket has too many for its quota."""
        if self._streams.lacks_memory_for_producers(name):
            raise TooManyProducers("the server has no memory for more producers of this bucket now")
        if self._quotas.active:
            self._quotas.check_producers(name, self._streams.producer_bytes.beside(name) + size)

    def _reserve_wake(self, change: Change) -> None:
        """Refuse a wake for which its wake stream has no room. The bucket's quota counts it, but never refuses it."""
        record, *others = change
        if isinstance(record, Write):
            self.limits.check(record, self._storage)
        for edit in others:
            if isinstance(edit, Write):
                self.limits.check_wake(edit, self._storage)
        if self._quotas.active:
            self._quotas.follow(change, self._quotas.measure(change))
