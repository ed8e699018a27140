"""Buckets: their deletion, their quotas and their usage."""

from collections.abc import Callable
from contextlib import suppress

import msgspec

from everbrook.engine.clock import Clock, Incarnations
from everbrook.engine.limits import UNLIMITED
from everbrook.engine.listing import Listing
from everbrook.engine.quotas import Quota, Quotas, StoredQuota
from everbrook.engine.records import QUOTA_RECORDS
from everbrook.engine.streams import Streams
from everbrook.engine.usage import Amount
from everbrook.protocol.commands import Append, Create, Delete, DeleteBucket, Expire, Outcome
from everbrook.protocol.content_type import JSON
from everbrook.protocol.errors import BucketNotFound, StreamDamaged, quoted
from everbrook.protocol.path import bucket_prefix, bucket_record
from everbrook.protocol.state import Head
from everbrook.storage.api import Storage

EXPIRED_AT_ONCE = 256


class Buckets:
    """The buckets of a server."""

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        incarnations: Incarnations,
        streams: Streams,
        listing: Listing,
        quotas: Quotas,
        execute: Callable[[Append | Create | Delete | DeleteBucket | Expire], Outcome],
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._incarnations = incarnations
        self._streams = streams
        self._listing = listing
        self._quotas = quotas
        self._execute = execute

    def find(self, bucket_id: bytes) -> Head:
        """Return the head of a bucket. Raises `BucketNotFound` if it does not exist (002 §1.3)."""
        bucket = self._streams.visible(bucket_record(bucket_id))
        if bucket is None:
            raise BucketNotFound(f"there is no bucket {quoted(bucket_id)}")
        return bucket.committed

    def expire_some(self, bucket_id: bytes, after: bytes) -> bytes | None:
        """Expire those of the next streams of a bucket whose time has run out, a slice at a time.

        Returns the name after which the next slice begins; None after the last one, or if a stream lives, because then
        the bucket is not deleted.
        """
        now = self._clock.now()
        found = self._storage.scan(bucket_prefix(bucket_id), after, EXPIRED_AT_ONCE)
        for name, head in found:
            if head is None or self._listing.lives(head, now):
                return None
            if head.identity.mortal:
                # A damaged stream can't expire, so it stays, and its bucket with it.
                with suppress(StreamDamaged):
                    self._execute(Expire(name, now))
        return found[-1][0] if len(found) == EXPIRED_AT_ONCE else None

    def delete(self, bucket_id: bytes) -> Outcome:
        """Delete a bucket in which no stream lives. If many streams are expired, call `expire_some` before."""
        self.expire_some(bucket_id, b"")
        outcome = self._execute(DeleteBucket(bucket_id, self._clock.now()))
        self._quotas.forget_bucket(bucket_id)
        return outcome

    def quota(self, bucket_id: bytes) -> Quota:
        """Return the bucket's own quota."""
        self.find(bucket_id)
        return self._quotas.own(bucket_id)

    def set_quota(self, bucket_id: bytes, quota: Quota) -> None:
        """Set the bucket's own quota. Streams that exceed it stay. The quota outlives the bucket."""
        self.find(bucket_id)
        stored = StoredQuota(quota)
        name, now, body = QUOTA_RECORDS + bucket_id, self._clock.now(), msgspec.json.encode(stored)
        if self._streams.stream(name):
            self._execute(Append(name, now, JSON, body))
        else:
            self._execute(Create(name, now, self._incarnations.next(now), JSON, body))
        self._quotas.set(bucket_id, stored)

    def unset_quota(self, bucket_id: bytes) -> None:
        """Remove the own quota of a bucket, if it has one. The bucket need not exist."""
        name = QUOTA_RECORDS + bucket_id
        if self._streams.stream(name):
            self._execute(Delete(name, self._clock.now()))
            self._quotas.set(bucket_id, None)

    def usage(self, bucket_id: bytes) -> tuple[Amount, tuple[int, int]] | None:
        """Return the usage of a bucket, and its bounds in bytes and streams; None if it has no bound."""
        self.find(bucket_id)
        bounds = self._quotas.bounds(bucket_id)
        return None if min(bounds) >= UNLIMITED else (self._quotas.held(bucket_id), bounds)
