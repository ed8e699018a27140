"""The model of what a stream keeps of its past, and of buckets."""

from msgspec.structs import replace

from everbrook.protocol import Retention, bucket_prefix, bucket_record
from everbrook.protocol.errors import (
    BucketExists,
    BucketNotEmpty,
    BucketNotFound,
    InvalidOffset,
    PreconditionFailed,
    RetentionBeyondSnapshot,
    SnapshotBeyondTail,
    SnapshotNeeded,
    SnapshotNotFound,
    SnapshotSuperseded,
    StreamNotFound,
)
from tests.unit.engine.model.model import Model
from tests.unit.engine.model.model_stream import ModelSnapshot, ModelStream


class RetainingModel(Model):
    """The model with snapshots, cuts and buckets."""

    @property
    def names(self) -> list[bytes]:
        """The names of streams; buckets are records beside them."""
        return [name for name in self.newest if not name.startswith(bucket_record(b""))]

    # Snapshots

    def require_publishable(self, name: bytes, offset: int, now: int, *, first: bool) -> ModelStream:
        """Give the stream of which a snapshot could be published, which may have to be its first."""
        stream = self.find(self.newest, name, now)
        if offset > stream.tail:
            raise SnapshotBeyondTail("beyond")
        stream.require_kept(offset)
        if offset not in stream.boundaries:
            raise InvalidOffset("inside a message")
        if stream.snapshot and offset < stream.snapshot.offset:
            raise SnapshotSuperseded("older")
        if stream.snapshot and first:
            raise PreconditionFailed("not the first")
        return stream

    def could_publish(self, name: bytes, offset: int, now: int, *, first: bool) -> str:
        """Tell that the bytes of a snapshot would be taken in now."""
        self.require_publishable(name, offset, now, first=first)
        return "taken"

    def publish(self, name: bytes, snapshot: ModelSnapshot, now: int, *, keep: bool, first: bool) -> str:
        found = self.find(self.newest, name, now)
        if snapshot.blob is None or found.incarnation != snapshot.blob[0]:
            raise StreamNotFound("of another stream")
        stream = self.require_publishable(name, snapshot.offset, now, first=first)
        return self._cut(stream, stream.earliest if keep else snapshot.offset, snapshot)

    def _cut(self, stream: ModelStream, earliest: int, snapshot: ModelSnapshot | None) -> str:
        changed = replace(stream, earliest=earliest, snapshot=snapshot)
        self.history.append({**self.newest, stream.name: changed})
        return "Cut"

    def delete_snapshot(self, name: bytes, offset: int, now: int) -> str:
        stream = self.find(self.newest, name, now)
        if stream.snapshot is None or stream.snapshot.offset != offset:
            raise SnapshotNotFound("missing")
        if stream.earliest:
            raise SnapshotNeeded("needed")
        return self._cut(stream, 0, None)

    # Retention

    def retain(self, name: bytes, offset: int, now: int) -> str:
        stream = self.find(self.newest, name, now)
        stream.require_kept(offset)
        if offset == stream.earliest:
            return "Cut"
        if stream.snapshot is None or offset > stream.snapshot.offset:
            raise RetentionBeyondSnapshot("not covered")
        if offset not in stream.boundaries:
            raise InvalidOffset("inside a message")
        return self._cut(stream, offset, stream.snapshot)

    def trim(self, name: bytes, now: int) -> str:
        """Cut message after message until the rest is within all bounds, or a client's snapshot begins."""
        stream = self.newest.get(name)
        if stream is None or stream.retention is None or self.ended(stream, now):
            return "Untouched"
        earliest, published = stream.earliest, stream.snapshot if stream.snapshot and stream.snapshot.blob else None
        while not _within(replace(stream, earliest=earliest), stream.retention, now):
            if published and earliest >= published.offset:
                break
            earliest = next(end for _, end, _ in stream.messages if end > earliest)
        if earliest == stream.earliest:
            return "Untouched"
        return self._cut(stream, earliest, published or ModelSnapshot(earliest))

    # Buckets

    def create_bucket(self, bucket_id: bytes, incarnation: int, retention: Retention | None, now: int) -> str:
        name = bucket_record(bucket_id)
        if name in self.newest:
            raise BucketExists("there")
        self._put(ModelStream(name, incarnation, json=True, retention=retention), now, [])
        return "Created"

    def delete_bucket(self, bucket_id: bytes, durable: int, now: int) -> str:
        """Delete a bucket, and before it what has run out of time in it, as far as that is durable."""
        prefix, bucket = bucket_prefix(bucket_id), self.newest.get(bucket_record(bucket_id))
        for name, stream in sorted(self.history[durable].items()):
            if name.startswith(prefix):
                if not stream.mortal:
                    break
                self._expire(name, now)
        if bucket is None:
            raise BucketNotFound("missing")
        if any(name.startswith(prefix) for name in self.newest):
            raise BucketNotEmpty("streams are in it")
        self.history.append(self._without([bucket]))
        return "Deleted"

    def _expire(self, name: bytes, now: int) -> None:
        stream = self.newest.get(name)
        if stream and not stream.deleted and self.ended(stream, now):
            self._end(stream)

    # What is needed

    def blobs(self) -> set[tuple[int, int]]:
        """Give the blobs that a stream or a fork has or began with."""
        streams = self.newest.values()
        snapshots = [each for stream in streams for each in (stream.snapshot, stream.first_snapshot)]
        return {snapshot.blob for snapshot in snapshots if snapshot and snapshot.blob}


def _within(stream: ModelStream, policy: Retention, now: int) -> bool:
    retained = stream.retained
    return (
        (policy.max_bytes is None or sum(end - start for start, end, _ in retained) <= policy.max_bytes)
        and (policy.max_messages is None or len(retained) <= policy.max_messages)
        and all(policy.max_age_secs is None or now - time <= policy.max_age_secs * 1000 for _, _, time in retained)
    )
