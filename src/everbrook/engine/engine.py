"""The engine: load, decide, store, wake.

A command is decided at once against the newest state and answered when what it rests on is durable; readers see durable
state only. All calls come from one thread, the loop's.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import overload

import msgspec
from msgspec.structs import replace

from everbrook.engine.clock import Clock, Incarnations, Scheduler
from everbrook.engine.committer import Committer, Parked
from everbrook.engine.feed import Batch, Feed, Reader
from everbrook.engine.limits import UNLIMITED, Limits
from everbrook.engine.moves import Moves
from everbrook.engine.quotas import QUOTA_RECORDS, Quota, Quotas, StoredQuota
from everbrook.engine.reclaiming import Reclaimer
from everbrook.engine.stream import Stream
from everbrook.engine.streams import Streams
from everbrook.engine.survey import EngineSurvey
from everbrook.engine.upkeep import Upkeep
from everbrook.engine.uploads import Upload
from everbrook.engine.usage import Held, Usage
from everbrook.protocol.change import Change, Edit, Write
from everbrook.protocol.commands import (
    Append,
    Command,
    Create,
    CreateBucket,
    Delete,
    DeleteBucket,
    DeleteSnapshot,
    Expire,
    PublishSnapshot,
    Retain,
    Trim,
)
from everbrook.protocol.content_type import JSON
from everbrook.protocol.decide import decide
from everbrook.protocol.errors import BucketNotFound, StreamDamaged, StreamNotFound, Unavailable, quoted
from everbrook.protocol.lifetime import end_error, ended, missing
from everbrook.protocol.messages import unpack
from everbrook.protocol.offset import Sentinel
from everbrook.protocol.outcomes import (
    Appended,
    Closed,
    Created,
    Cut,
    Deleted,
    Duplicate,
    Existing,
    Outcome,
    Untouched,
)
from everbrook.protocol.path import bucket_prefix, bucket_record
from everbrook.protocol.query import ReadQuery
from everbrook.protocol.reading import Page, begin, end_of_read, locate, page_from
from everbrook.protocol.state import Head, Snapshot
from everbrook.protocol.subscriptions.commands import (
    Claim,
    Compact,
    Deliver,
    Lapse,
    LinkStreams,
    Report,
    Subscribe,
    SubscriptionCommand,
    UnlinkStream,
    Unsubscribe,
    WakeUp,
)
from everbrook.protocol.subscriptions.outcomes import Changed, Confirmed
from everbrook.protocol.subscriptions.state import Subscription
from everbrook.storage.api import Storage
from everbrook.storage.blobs import BlobReader
from everbrook.storage.index import Messages
from everbrook.storage.pin import Pin

EXPIRY_RETRY_MS = 10_000
EXPIRED_AT_ONCE = 256


class Engine:
    """Executes commands and serves readers, for one server."""

    def __init__(self, storage: Storage, scheduler: Scheduler, clock: Clock, limits: Limits) -> None:
        self.clock = clock
        self.limits = limits
        self._storage = storage
        self.scheduler = scheduler
        self._incarnations = Incarnations(storage.last_incarnation)
        first = self.new_incarnation()
        self.moves = Moves(first)
        self.followers: list[Callable[[Edit], None]] = []
        self.on_roll_back: Callable[[set[bytes]], None] | None = None
        self._appended_messages = self._appended_bytes = self._duplicates = 0
        self._blob_worker = ThreadPoolExecutor(1, "everbrook-blobs")
        self._reclaimer = Reclaimer(storage, scheduler, self._blob_worker)
        self._upkeep = Upkeep(storage, scheduler, clock, self._reclaimer, self._execute_due)
        self._streams = Streams(storage, scheduler, clock.now(), limits.producer_idle_ms, self)
        self._committer = Committer(storage, scheduler, self._streams.publish, self._roll_back)
        usage = Usage(self._streams.heads, self._streams.newest_head)
        self._quotas = Quotas(limits, usage, self.read_all, storage.count(QUOTA_RECORDS))
        self._usage = usage
        if storage.blocking:
            self._reclaimer.sweep(first)

    # Deciding

    @property
    def last_change(self) -> int:
        """The number of the newest change: what an answer given now rests on."""
        return self._committer.last

    @property
    def durable_change(self) -> int:
        """The number up to which every change is durable."""
        return self._committer.durable

    @property
    def failure(self) -> Unavailable | None:
        """Why the storage takes no more writes, if it does not."""
        return self._committer.failure

    def when_durable(self, change: int, answer: Parked) -> None:
        """Call `answer` when a change is durable, or with the reason why it never will be."""
        self._committer.park(change, answer)

    def new_id(self, prefix: str) -> str:
        """Give an id that nobody can guess."""
        return prefix + self.clock.token()

    def new_incarnation(self) -> int:
        """Give a number for a stream that may be created."""
        return self._incarnations.next(self.clock.now())

    @overload
    def execute(self, command: Create) -> Created | Existing: ...

    @overload
    def execute(self, command: CreateBucket) -> Created: ...

    @overload
    def execute(self, command: Subscribe) -> Changed | Confirmed: ...

    @overload
    def execute(self, command: Unsubscribe) -> Deleted: ...

    @overload
    def execute(self, command: Claim | Report | Compact) -> Changed: ...

    @overload
    def execute(self, command: LinkStreams | UnlinkStream | WakeUp | Lapse | Deliver) -> Changed | Untouched: ...

    @overload
    def execute(self, command: PublishSnapshot | DeleteSnapshot | Retain) -> Cut: ...

    @overload
    def execute(self, command: Trim) -> Cut | Untouched: ...

    @overload
    def execute(self, command: Append) -> Appended | Closed | Duplicate: ...

    @overload
    def execute(self, command: Delete | Expire | DeleteBucket) -> Deleted | Untouched: ...

    def execute(self, command: Command | SubscriptionCommand) -> Outcome:
        """Decide on a command and set its change on its way, or raise why not.

        The answer, a refusal too, may be told when `last_change` is durable.
        """
        if self._committer.failure:
            self._require_storage()
        if isinstance(command, (Append, Create)) and len(command.body) > self.limits.max_stream_bytes:
            self.limits.check_body(command.body)
        decision = decide(self._streams, command)
        if decision.change:
            self._check_limits(decision.change[-1])
            if self._quotas.active:
                self._quotas.follow(self._quotas.check(decision.change))
            self._streams.prepare(decision.change)
            self._committer.submit(decision.change)
        elif isinstance(command, Append) and (stream := self._streams.stream(command.name)):
            stream.touched_at = command.now
            self._duplicates += isinstance(decision.outcome, Duplicate)
        return decision.outcome

    def _require_storage(self) -> None:
        if self._committer.failure:
            raise self._committer.failure.with_traceback(None)

    def _check_limits(self, edit: Edit) -> None:
        """Refuse a change that brings too much. What it brings is in its last edit: those before it only clear."""
        if not isinstance(edit, Write):
            return
        self.limits.check(edit, self._storage)
        if edit.producer_id is None:
            return
        stream = self._streams.stream(edit.head.identity.name)
        if stream and edit.producer_id not in stream.producers:
            self.limits.check_producers(len(stream.producers) - len(edit.forgotten))

    def _execute_due(self, command: Expire | Trim) -> None:
        """Do what time asks for. What is damaged stays, for whoever asks for it to be told."""
        if not self.failure:
            with contextlib.suppress(StreamDamaged):
                self.execute(command)

    def arrived(self, stream: Stream) -> None:
        """A stream was created or loaded."""
        self._upkeep.watch(stream)

    def left(self, stream: Stream) -> None:
        """A stream was dropped, or left memory."""
        self._upkeep.forget(stream)

    def became_durable(self, stream: Stream, edit: Edit, before: Head) -> None:
        """An edit is durable, and readers see it."""
        if isinstance(edit, Write) and edit.data:
            self._appended_messages += len(edit.ends)
            self._appended_bytes += len(edit.data)
        if self.moves.noting:
            self.moves.note(edit.head.identity.name)
        for follow in self.followers:
            follow(edit)
        self._upkeep.follow(stream, edit, before)

    def _roll_back(self, changes: list[Change]) -> None:
        """Forget changes that there was no room for. An expiry among them is tried again when there may be."""
        not_before = self.clock.now() + EXPIRY_RETRY_MS
        for stream in self._streams.roll_back(changes):
            self._upkeep.watch_again(stream, not_before)
        self._quotas.forget_changes()
        if self.on_roll_back:
            self.on_roll_back({edit.head.identity.name for change in changes for edit in change})

    # Buckets and listings

    def listed(self, prefix: bytes, after: bytes, limit: int) -> list[tuple[bytes, Head | None]]:
        """Give the streams that live and whose names begin with `prefix`, in order. A damaged one has no head."""
        return self._streams.listed(prefix, after, limit, self.clock.now())

    def list_some(
        self, prefix: bytes, after: bytes, limit: int
    ) -> tuple[list[tuple[bytes, Head | None]], bytes | None]:
        """Give what lives among the next `limit` names, and after which name to go on, if there are more."""
        return self._streams.list_some(prefix, after, limit, self.clock.now())

    def find_bucket(self, bucket_id: bytes) -> Head:
        """Give a bucket that is there (002 §1.3)."""
        bucket = self._streams.visible(bucket_record(bucket_id))
        if bucket is None:
            raise BucketNotFound(f"there is no bucket {quoted(bucket_id)}")
        return bucket.committed

    def count(self, prefix: bytes) -> int:
        """Count the streams whose names begin with `prefix`. One that has just run out of time may be among them."""
        return self._storage.count(prefix)

    def delete_bucket(self, bucket_id: bytes) -> Deleted | Untouched:
        """Delete a bucket. Streams in it whose time has run out are none, even if nobody has noticed yet."""
        now = self.clock.now()
        for name, head in self._storage.scan(bucket_prefix(bucket_id), b"", EXPIRED_AT_ONCE):
            if head and head.identity.mortal:
                self._execute_due(Expire(name, now))
        outcome = self.execute(DeleteBucket(bucket_id, now))
        self._quotas.forget_bucket(bucket_id)
        return outcome

    def quota(self, bucket_id: bytes) -> Quota:
        """Give the quota that a bucket has of its own."""
        self.find_bucket(bucket_id)
        return self._quotas.own(bucket_id)

    def set_quota(self, bucket_id: bytes, quota: Quota) -> None:
        """Give a bucket a quota of its own. What it holds already, it keeps; the quota outlives the bucket."""
        self.find_bucket(bucket_id)
        stored = StoredQuota(quota)
        name, now, body = QUOTA_RECORDS + bucket_id, self.clock.now(), msgspec.json.encode(stored)
        if self.exists(name):
            self.execute(Append(name, now, JSON, body))
        else:
            self.execute(Create(name, now, self.new_incarnation(), JSON, body))
        self._quotas.set(bucket_id, stored)

    def unset_quota(self, bucket_id: bytes) -> None:
        """Let a bucket have no quota of its own, whether or not it is there."""
        if self.exists(QUOTA_RECORDS + bucket_id):
            self.execute(Delete(QUOTA_RECORDS + bucket_id, self.clock.now()))
            self._quotas.set(bucket_id, None)

    def usage(self, bucket_id: bytes) -> tuple[Held, tuple[int, int]] | None:
        """Give what a bucket holds, and how many bytes and streams it may; None where that is not bounded."""
        self.find_bucket(bucket_id)
        bounds = self._quotas.bounds(bucket_id)
        return None if min(bounds) >= UNLIMITED else (self._usage.of(bucket_id), bounds)

    # Snapshots

    def begin_snapshot(self, command: PublishSnapshot) -> Upload:
        """Begin to take in the bytes of a snapshot, or raise why it could not be published even now."""
        self._require_storage()
        (edit,) = decide(self._streams, command).change
        owner, blob = edit.head.identity.incarnation, self.new_incarnation()
        return Upload(
            self._storage,
            self._blob_worker,
            self.scheduler,
            lambda: self.last_change,
            owner,
            blob,
            self.limits.max_memory_bytes,
        )

    def publish(self, upload: Upload, command: PublishSnapshot) -> Cut:
        """Publish an upload that is finished. The answer may be told when `last_change` is durable."""
        outcome = self.execute(
            replace(command, owner=upload.owner, blob=upload.blob, size=upload.size, digest=upload.digest)
        )
        upload.keep()
        self.when_durable(self.last_change, lambda failure: self._give_up(upload) if failure else None)
        return outcome

    def _give_up(self, upload: Upload) -> None:
        """Remove a blob that there was no room to refer to. After any other failure the change may be durable."""
        if not self.failure:
            upload.remove()

    def open_blob(self, snapshot: Snapshot) -> BlobReader:
        """Begin to read the bytes of a snapshot that has some."""
        return self._storage.blobs.open(snapshot.owner, snapshot.blob)

    def hold(self, stream: Stream) -> None:
        """Let nothing of a stream go while somebody reads it in one go."""
        self._reclaimer.hold(stream)

    def release(self, stream: Stream) -> None:
        """Let go of what was to go meanwhile."""
        self._reclaimer.release(stream)

    # Reading

    def follow_subscriptions(self, find: Callable[[bytes], Subscription | None]) -> None:
        """Let decisions see the subscriptions that `find` knows, by the names of their records."""
        self._streams.subscriptions = find

    def read_all(self, name: bytes) -> Iterator[bytes]:
        """Give everything that a stream retains, page by page; nothing if it is not there."""
        stream = self._streams.visible(name)
        if stream is None:
            return
        offset = stream.committed.kept.earliest
        while offset < stream.committed.tail:
            page = self.page(stream, offset)
            yield unpack(page.head.identity, self.read(stream, page))
            offset = page.end

    def size_of(self, name: bytes) -> int:
        """Give how many bytes a stream retains."""
        stream = self._streams.visible(name)
        return stream.committed.tail - stream.committed.kept.earliest if stream else 0

    def exists(self, name: bytes) -> bool:
        """Tell whether something has a name, in the newest state."""
        return self._streams.stream(name) is not None

    def find(self, name: bytes, now: int) -> Stream:
        """Give a stream that lives, to look at what is durable of it."""
        stream = self._streams.visible(name)
        if stream is None:
            raise missing(self._streams, name)
        if ended(stream.committed, stream, now):
            raise end_error(stream.committed, stream)
        return stream

    def open(self, name: bytes, now: int) -> Stream:
        """Give a stream that lives, to read from it: that begins its sliding time to live anew (§5.1)."""
        stream = self.find(name, now)
        stream.touched_at = now
        return stream

    def current(self, stream: Stream) -> Stream:
        """Give a stream that was found earlier as it is in memory now: it may have left and come back."""
        if stream.resident:
            return stream
        identity = stream.committed.identity
        again = self.find(identity.name, self.clock.now())
        if again.committed.identity.incarnation != identity.incarnation:
            raise StreamNotFound(f"the stream at {quoted(identity.name)} was deleted")
        return again

    def page(self, stream: Stream, offset: int | Sentinel, until: int | None = None) -> Page:
        """Cut the page of a stream that begins at `offset` and does not go beyond `until`."""
        if stream.ended:
            raise stream.ended.with_traceback(None)
        head, lineage = stream.committed, stream.lineage
        start = locate(head, lineage, offset)
        if until is not None:
            until = end_of_read(head, lineage, start, until)
        return page_from(head, lineage, start, self.limits.max_page_bytes, until)

    def begin(self, stream: Stream, query: ReadQuery) -> int:
        """Give where a read begins that looks for its beginning."""
        return begin(stream.committed, stream.lineage, query)

    def messages(self, stream: Stream, page: Page) -> Messages:
        """Give where the messages of a page end, and when they were appended."""
        return stream.lineage.messages(page.start, page.end)

    def read(self, stream: Stream, page: Page) -> bytes:
        """Give the stored bytes of a page."""
        return stream.lineage.read(page.start, page.end) if page.start < page.end else b""

    def batch(self, stream: Stream, page: Page) -> Batch:
        """Give a page with its bytes, for live readers."""
        return Batch(page, self.read(stream, page), self.clock.now())

    def join(self, stream: Stream, reader: Reader) -> None:
        """Let a reader wait that has everything up to the committed tail."""
        feed = stream.feed
        if feed is None:
            feed = Feed(self.scheduler, lambda position: self._next_batch(stream, position))
        feed.join(reader, stream.committed.tail)
        stream.feed = feed

    def leave(self, stream: Stream, reader: Reader) -> None:
        """Let a waiting reader go."""
        if stream.feed:
            stream.feed.leave(reader)
            if not stream.feed:
                # Whoever follows a stream reads it until the last moment (§5.1).
                stream.feed = None
                stream.touched_at = max(stream.touched_at, self.clock.now())

    def _next_batch(self, stream: Stream, position: int) -> Batch | None:
        head = stream.committed
        if position == head.tail and not head.closed:
            return None
        return self.batch(stream, page_from(head, stream.lineage, position, self.limits.max_page_bytes))

    def pin(self, take: Callable[[Pin | None, Exception | None], None]) -> None:
        """Hand over the store as it will be in a moment, with everything that was answered until now, or say why not.

        None without a reason: this storage keeps nothing on a disk.
        """
        self._committer.between_groups(lambda: self._pin(take))

    def _pin(self, take: Callable[[Pin | None, Exception | None], None]) -> None:
        try:
            self._require_storage()
            pin = self._storage.pin()
        except Exception as error:  # noqa: BLE001 - whatever it is, who asked is told
            take(None, error)
        else:
            take(pin, None)

    def survey(self) -> EngineSurvey:
        """Give what is counted, and how things stand."""
        committer = self._committer
        since = committer.pending_since
        return EngineSurvey(
            committer.commits,
            committer.last - committer.durable,
            0.0 if since is None else time.perf_counter() - since,
            committer.parked,
            self._appended_messages,
            self._appended_bytes,
            self._duplicates,
            committer.failure is not None,
            self._storage.used_bytes,
            self._streams.resident,
            self._storage.checkpoints,
        )

    def close(self) -> None:
        """Stop timing, wait for the group on its way, and close the storage."""
        self._upkeep.stop()
        self._reclaimer.stop()
        self._committer.close()
        self._blob_worker.shutdown()
        self._storage.close()
