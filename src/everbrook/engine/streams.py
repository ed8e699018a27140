"""The streams in memory: their newest state for decisions, their durable state for readers, their loading and eviction.

The newest state includes pending changes, the visible one is durable. A stream is loaded at its first use. In a storage
that can load it again, it is evicted when it is idle and memory is short.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Protocol

from msgspec.structs import replace

from everbrook.engine.clock import Clock
from everbrook.engine.faults import Callback, Faults
from everbrook.engine.limits import Limits
from everbrook.engine.lineage import Lineage
from everbrook.engine.stream import ProducerBytes, Stream
from everbrook.engine.tuning import DEFAULT_TUNING, StreamsTuning
from everbrook.protocol.errors import StreamDamaged, StreamGone, StreamNotFound, quoted
from everbrook.protocol.lifetime import last_touch
from everbrook.protocol.state import Change, Drop, Edit, Head, Write
from everbrook.protocol.subscriptions.subscription import Subscription
from everbrook.storage.api import Record, Storage
from everbrook.storage.damage import Damaged
from everbrook.storage.memory import STREAM_BYTES


class Observer(Protocol):
    """The interface of an observer of the streams in memory."""

    def arrived(self, stream: Stream) -> None:
        """A stream was created or loaded."""

    def left(self, stream: Stream) -> None:
        """A stream was dropped or evicted."""

    def appended(self, stream: Stream, writes: Sequence[Write]) -> None:
        """Appends to a stream are durable, and readers see them."""

    def became_durable(self, stream: Stream, edit: Edit, before: Head) -> None:
        """Any other edit is durable, and readers see it. `before` is the head that it replaced."""


class Streams:
    """Keeps the streams in memory. It is the `View` of decisions."""

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        limits: Limits,
        observer: Observer,
        faults: Faults,
        tuning: StreamsTuning = DEFAULT_TUNING.streams,
    ) -> None:
        """Report every loaded and evicted stream, and every durable edit, to `observer`.

        If the storage can load streams again, those in memory take about `limits.max_loaded_bytes`. A loaded stream
        counts as used when the server started, because uses by readers are not stored.
        """
        self._storage = storage
        self._clock = clock
        self.started_at = clock.now()
        self._producer_idle_ms = limits.producer_idle_ms
        self._faults = faults
        self._tuning = tuning
        self._max_loaded_bytes = limits.max_loaded_bytes
        self.producer_bytes = ProducerBytes()
        self._observer = observer
        # The two states of each name in memory. Both hold the same object, unless a creation or a removal is pending: a
        # stream that is being created is only in `_newest`, one that is being removed only in `_visible`. A name that
        # is in neither is looked up in the storage.
        self._newest: dict[bytes, Stream] = {}
        self._visible: dict[bytes, Stream] = {}
        self.visible_in_memory = self._visible.get
        """Returns the durable state of a stream by its name, if it is in memory."""
        self.newest_in_memory = self._newest.get
        """Returns the newest state of a stream by its name, if it is in memory."""
        # By incarnation, because one name may be created, removed and created again within one group.
        self._arriving: dict[int, Stream] = {}
        self._eviction_scheduled = False
        self.damaged: set[int] = set()
        """The incarnations of loaded streams that are damaged. They take no more data."""
        self.subscriptions: Callable[[bytes], Subscription | None] = lambda _: None

    @property
    def resident(self) -> int:
        """How many streams are in memory with a durable state."""
        return len(self._visible)

    @property
    def loaded_bytes(self) -> int:
        """About how much memory the loaded streams take, with their producers."""
        return STREAM_BYTES * len(self._visible) + self.producer_bytes.all

    def lacks_memory_for_producers(self, name: bytes) -> bool:
        """Return whether a new producer of a stream must be refused.

        It must if loaded streams exceed their memory in spite of evictions, and the producers of this stream's bucket
        take more than an eighth of it. So a bucket with few producers does not pay for the producers of others.
        """
        share = self._max_loaded_bytes // 8
        if not self._storage.blocking or self.loaded_bytes <= self._max_loaded_bytes + share:
            return False
        return self.producer_bytes.beside(name) > share

    @property
    def newest(self) -> int:
        """How many streams are in memory with a newest state."""
        return len(self._newest)

    @property
    def arriving(self) -> int:
        """How many streams were created by pending changes."""
        return len(self._arriving)

    def residents(self) -> tuple[Stream, ...]:
        """Return the streams in memory that have a durable state."""
        return tuple(self._visible.values())

    def stream(self, name: bytes) -> Stream | None:
        """Return the newest state of a stream, for a decision."""
        stream = self._newest.get(name)
        if stream is None and name not in self._visible:
            stream = self._load(name)
        return stream

    def visible(self, name: bytes) -> Stream | None:
        """Return a stream that has a durable state, for a reader."""
        stream = self._visible.get(name)
        if stream is None and name not in self._newest:
            stream = self._load(name)
        return stream

    def in_memory(self, name: bytes) -> tuple[Stream | None, Stream | None]:
        """Return the streams that have a name in the durable and in the newest state, without loading them.

        None and a stream: a creation is pending. A stream and None: a removal is. Two different streams: both are.
        """
        return self._visible.get(name), self._newest.get(name)

    def arriving_heads(self, prefix: bytes) -> list[Head]:
        """Return the newest heads of the streams below `prefix` whose creation, and not their removal, is pending."""
        heads = (stream.head for stream in self._arriving.values() if self._is_newest(stream))
        return [head for head in heads if head.identity.name.startswith(prefix)]

    def append(self, stream: Stream, write: Write) -> None:
        """Apply a pending append of a known producer, or of none, to the newest state of its stream."""
        before = stream.producer_bytes
        stream.write(write)
        if stream.producer_bytes != before:
            self.producer_bytes.add(stream, stream.producer_bytes - before)
            self._schedule_eviction()

    def _is_newest(self, stream: Stream) -> bool:
        return self._newest.get(stream.head.identity.name) is stream

    def newest_head(self, name: bytes) -> Head | None:
        """Return the newest head of a stream."""
        stream = self.stream(name)
        return stream.head if stream else None

    def subscription(self, name: bytes) -> Subscription | None:
        """Return a subscription as it is now."""
        return self.subscriptions(name)

    def populated(self, prefix: bytes) -> bool:
        """Return whether there is a stream whose name begins with `prefix`, in the newest state."""
        if self.arriving_heads(prefix):
            return True
        after = prefix
        while found := self._storage.scan(prefix, after, self._tuning.population_slice):
            # A stream that is visible and not among the newest has a pending removal, so it does not count.
            if any(name in self._newest or name not in self._visible for name, _ in found):
                return True
            after = found[-1][0]
        return False

    def _load(self, name: bytes) -> Stream | None:
        """Load a stream from the storage, its sources first: the lineage of a fork refers to that of its source."""
        record = self._storage.load(name)
        if record is None:
            return None
        chain = [record]
        while (fork := chain[-1].head.identity.fork) and fork.source not in self._newest:
            source = self._storage.load(fork.source)
            if source is None:
                raise StreamDamaged(f"the source of the stream at {quoted(name)} was lost")
            chain.append(source)
        for link in reversed(chain):
            stream = self._adopt(link.head)
            self._refresh(stream, link)
            self._newest[link.head.identity.name] = self._visible[link.head.identity.name] = stream
        self._schedule_eviction()
        return self._newest[name]

    def _adopt(self, head: Head) -> Stream:
        identity, fork = head.identity, head.identity.fork
        source = self._newest[fork.source] if fork else None
        if fork and source and source.head.identity.incarnation != fork.source_incarnation:
            raise StreamDamaged(f"the source of the fork, the stream at {quoted(fork.source)}, was lost")
        lineage = Lineage(self._storage, identity, head.tail, source.lineage if source else None)
        stream = Stream(head, lineage, self._producer_idle_ms)
        stream.fork_depth = source.fork_depth + 1 if source else 0
        stream.touched_at = last_touch(head.written_at, self.started_at, self._clock.now())
        self._observer.arrived(stream)
        return stream

    def _refresh(self, stream: Stream, record: Record) -> None:
        """Set a stream to its state in the storage."""
        stream.head = stream.committed = record.head
        before = stream.producer_bytes
        stream.remember(record.producers)
        self.producer_bytes.add(stream, stream.producer_bytes - before)
        stream.fork_count = self._storage.fork_count(record.head.identity.incarnation)
        stream.damage = record.damage
        if stream.damage:
            self.damaged.add(record.head.identity.incarnation)

    def _schedule_eviction(self) -> None:
        if not self._storage.blocking or self._eviction_scheduled:
            return
        if len(self._visible) > self._tuning.max_resident or self.loaded_bytes > self._max_loaded_bytes:
            self._eviction_scheduled = True
            # In a later turn, because the code that runs now may still use the streams.
            self._faults.soon(Callback.EVICTION, self.evict, failed=self._eviction_failed)

    def evict(self) -> None:
        """Evict idle streams in the order in which they were loaded. A stream in use moves to the end of that order."""
        self._eviction_scheduled = False
        before = len(self._visible)
        for name in list(islice(self._visible, self._tuning.eviction_slice)):
            stream = self._visible.pop(name)
            # Pending changes, pending forks and live readers refer to the object itself, so a stream that has any
            # stays.
            if stream.idle and self._is_newest(stream):
                del self._newest[name]
                # A reader that still holds the object finds by this flag that it must load the stream again.
                stream.resident = False
                self._leave(stream)
            else:
                self._visible[name] = stream
        if len(self._visible) < before:
            self._schedule_eviction()

    def _leave(self, stream: Stream) -> None:
        self.producer_bytes.add(stream, -stream.producer_bytes)
        self._observer.left(stream)

    def _eviction_failed(self) -> None:
        """Allow the next load to schedule an eviction after one that failed: otherwise memory would never be freed."""
        self._eviction_scheduled = False

    # Changes

    def require_whole(self, change: Change) -> None:
        """Refuse a change of a damaged stream, unless it deletes the stream."""
        for edit in change:
            incarnation = edit.head.identity.incarnation
            known = incarnation in self.damaged or self._storage.damage_of(incarnation)
            if known and isinstance(edit, Write) and not edit.head.deleted:
                name = edit.head.identity.name
                error = StreamDamaged(f"the stream at {quoted(name)} is damaged and takes no changes")
                self._end_feed(name, incarnation, error)
                raise error

    def note_damage(self, stream: Stream, error: Damaged) -> None:
        """Note damage that a read has found: the damaged stream, perhaps a source of `stream`, takes no more data."""
        self.damaged.add(error.incarnation)
        identity = stream.committed.identity
        while identity.incarnation != error.incarnation and identity.fork:
            source = self._visible.get(identity.fork.source)
            if source is None:
                return
            identity = source.committed.identity
        self._end_feed(identity.name, error.incarnation, error)

    def _end_feed(self, name: bytes, incarnation: int, error: StreamDamaged) -> None:
        """End the live reads of a damaged stream with the error, because it gets no more data."""
        stream = self._visible.get(name)
        if stream and stream.feed and stream.committed.identity.incarnation == incarnation:
            stream.feed.end(error)

    def prepare(self, change: Change) -> None:
        """Apply a pending change to the newest state."""
        for edit in change:
            if isinstance(edit, Drop):
                self._prepare_drop(edit)
                continue
            if edit.created:
                self._prepare_creation(edit)
            self.append(self._newest[edit.head.identity.name], edit)

    def _prepare_creation(self, write: Write) -> None:
        identity = write.head.identity
        # The stream begins without the data of the write, which `prepare` then applies as for any other write.
        stream = self._adopt(replace(write.head, tail=identity.first_own_offset))
        self._newest[identity.name] = self._arriving[identity.incarnation] = stream
        if identity.fork:
            self._newest[identity.fork.source].count_fork(1)

    def _prepare_drop(self, drop: Drop) -> None:
        identity = drop.head.identity
        # Readers keep the stream until its removal is durable. For decisions the name is free at once.
        del self._newest[identity.name]
        if identity.fork and (source := self.stream(identity.fork.source)):
            source.count_fork(-1)

    def publish(self, group: Sequence[Change]) -> None:
        """Apply durable changes to the state that readers see, in their order.

        Appends are shown to the readers of their stream together.
        """
        appends: dict[bytes, list[Write]] = {}
        for change in group:
            edit = change[0]
            if len(change) > 1 or not isinstance(edit, Write) or edit.created or edit.cut or edit.head.deleted:
                self._publish_appends(appends)
                self._publish_change(change)
            elif len(group) == 1:
                self._publish_writes(edit.head.identity.name, (edit,))
            else:
                appends.setdefault(edit.head.identity.name, []).append(edit)
        self._publish_appends(appends)

    def _publish_appends(self, appends: dict[bytes, list[Write]]) -> None:
        for name, writes in appends.items():
            self._publish_writes(name, writes)
        appends.clear()

    def _publish_writes(self, name: bytes, writes: Sequence[Write]) -> None:
        stream = self._visible[name]
        stream.commit(len(writes))
        self._observer.appended(stream, writes)

    def _publish_change(self, change: Change) -> None:
        for edit in change:
            if isinstance(edit, Drop):
                self._publish_drop(edit)
                continue
            if edit.created:
                identity = edit.head.identity
                self._visible[identity.name] = self._arriving.pop(identity.incarnation)
                self._settle_fork(edit)
                self._schedule_eviction()
            stream = self._visible[edit.head.identity.name]
            before = stream.committed
            stream.commit()
            self._observer.became_durable(stream, edit, before)
            # Last, because a reader that is ended may look the stream up again, and must find its new state.
            if edit.head.deleted:
                name = quoted(edit.head.identity.name)
                stream.end(StreamGone(f"the stream at {name} was deleted; forks of it live on"))

    def _publish_drop(self, drop: Drop) -> None:
        name = drop.head.identity.name
        stream = self._visible.pop(name)
        self.damaged.discard(drop.head.identity.incarnation)
        self._leave(stream)
        stream.end(StreamNotFound(f"the stream at {quoted(name)} was deleted"))
        self._settle_fork(drop)
        self._observer.became_durable(stream, drop, stream.committed)

    def _settle_fork(self, edit: Write | Drop) -> None:
        """Count one pending fork less at the source, since the fork, or its removal, is durable now."""
        fork = edit.head.identity.fork
        if fork and (source := self._visible.get(fork.source)):
            source.pending_forks -= 1

    def roll_back(self, changes: Iterable[Change]) -> list[Stream]:
        """Forget all pending changes, which the storage refused. Returns the streams that they would have changed."""
        # Only decisions have seen the streams that were to be created, so no reader has to be ended.
        for arriving in self._arriving.values():
            self._leave(arriving)
        self._arriving.clear()
        identities = [edit.head.identity for change in changes for edit in change]
        names = {identity.name for identity in identities}
        # The sources of pending forks are restored too, because they have counted those forks.
        names.update(identity.fork.source for identity in identities if identity.fork)
        return [stream for name in names if (stream := self._restore(name))]

    def _restore(self, name: bytes) -> Stream | None:
        self._newest.pop(name, None)
        stream, record = self._visible.get(name), self._storage.load(name)
        if stream is None or record is None:
            return None
        # The object is kept, because readers hold it. The storage has the last durable state.
        stream.lineage.unapplied.clear()
        stream.pending_forks = 0
        self._refresh(stream, record)
        self._newest[name] = stream
        return stream
