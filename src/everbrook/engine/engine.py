"""The engine: load, decide, store, wake.

A command is decided at once against the newest state and answered when what it rests on is durable; readers see durable
state only. All calls come from one thread, the loop's.
"""

from typing import overload

from msgspec.structs import replace

from everbrook.engine.clock import Clock, Incarnations, Scheduler
from everbrook.engine.committer import Committer, Parked
from everbrook.engine.expiry import ExpirySweep
from everbrook.engine.feed import Batch, Feed, Reader
from everbrook.engine.limits import Limits
from everbrook.engine.lineage import Lineage
from everbrook.engine.stream import Stream
from everbrook.protocol.change import Change, Drop, Edit, Write
from everbrook.protocol.commands import Append, Command, Create, Delete, Expire
from everbrook.protocol.decide import decide
from everbrook.protocol.errors import StreamGone, StreamNotFound, Unavailable, quoted
from everbrook.protocol.lifetime import deadline, end_error, ended
from everbrook.protocol.offset import Sentinel
from everbrook.protocol.outcomes import Appended, Closed, Created, Deleted, Duplicate, Existing, Outcome, Untouched
from everbrook.protocol.reading import Page, locate, page_from
from everbrook.protocol.state import Head
from everbrook.storage.api import Storage


class Engine:
    """The streams of one server. It is the `View` of its own decisions."""

    def __init__(self, storage: Storage, scheduler: Scheduler, clock: Clock, limits: Limits) -> None:
        self.clock = clock
        self.limits = limits
        self._storage = storage
        self.scheduler = scheduler
        self._incarnations = Incarnations()
        self._newest: dict[bytes, Stream] = {}
        self._visible: dict[bytes, Stream] = {}
        self._arriving: dict[int, Stream] = {}
        self._committer = Committer(storage, scheduler, self._publish)
        self._expiry = ExpirySweep(scheduler, clock, self._expire)

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

    def new_incarnation(self) -> int:
        """Give a number for a stream that may be created."""
        return self._incarnations.next(self.clock.now())

    @overload
    def execute(self, command: Create) -> Created | Existing: ...

    @overload
    def execute(self, command: Append) -> Appended | Closed | Duplicate: ...

    @overload
    def execute(self, command: Delete | Expire) -> Deleted | Untouched: ...

    def execute(self, command: Command) -> Outcome:
        """Decide on a command and set its change on its way, or raise why not.

        The answer, a refusal too, may be told when `last_change` is durable.
        """
        if self._committer.failure:
            raise self._committer.failure.with_traceback(None)
        if isinstance(command, (Append, Create)):
            self.limits.check_body(command.body)
        decision = decide(self, command)
        if decision.change:
            self._submit(decision.change)
        elif isinstance(command, Append):
            self._newest[command.name].touched_at = command.now
        return decision.outcome

    def _submit(self, change: Change) -> None:
        self._check_limits(change[-1])
        for edit in change:
            if isinstance(edit, Write):
                self._prepare_write(edit)
            else:
                self._prepare_drop(edit)
        self._committer.submit(change)

    def _check_limits(self, edit: Edit) -> None:
        """Refuse a change that brings too much. What it brings is in its last edit: those before it only clear."""
        if not isinstance(edit, Write):
            return
        self.limits.check(edit, self._storage.used_bytes, self._storage.cost_bytes(edit))
        if edit.producer_id is not None:
            producers = self._newest[edit.head.identity.name].producers
            if edit.producer_id not in producers:
                self.limits.check_producers(len(producers) - len(edit.forgotten))

    def _prepare_write(self, write: Write) -> None:
        identity = write.head.identity
        if write.created:
            stream = self._adopt(replace(write.head, tail=identity.first_own_offset))
            self._newest[identity.name] = self._arriving[identity.incarnation] = stream
            if identity.fork:
                self._newest[identity.fork.source].fork_count += 1
        self._newest[identity.name].write(write)

    def _prepare_drop(self, drop: Drop) -> None:
        identity = drop.head.identity
        del self._newest[identity.name]
        if identity.fork and (source := self._newest.get(identity.fork.source)):
            source.fork_count -= 1

    def _publish(self, change: Change) -> None:
        for edit in change:
            if isinstance(edit, Write):
                self._publish_write(edit)
            else:
                stream = self._visible.pop(edit.head.identity.name)
                self._expiry.forget(stream)
                stream.end(StreamNotFound(f"the stream at {quoted(edit.head.identity.name)} was deleted"))

    def _publish_write(self, write: Write) -> None:
        identity = write.head.identity
        if write.created:
            self._visible[identity.name] = self._arriving.pop(identity.incarnation)
        stream = self._visible[identity.name]
        stream.commit()
        if write.head.deleted:
            stream.end(StreamGone(f"the stream at {quoted(identity.name)} was deleted; forks of it live on"))

    def _expire(self, stream: Stream, now: int) -> None:
        """End a stream whose time has run out. One that slides does not while somebody is reading it."""
        if stream.followed and stream.head.identity.ttl_secs is not None:
            stream.touched_at = now
            self._watch(stream)
        elif not self.failure:
            self.execute(Expire(stream.head.identity.name, now))

    def _watch(self, stream: Stream) -> None:
        end = deadline(stream.head.identity, stream.touched_at)
        if end is not None:
            self._expiry.watch(stream, end)

    # Loading

    def stream(self, name: bytes) -> Stream | None:
        """Give the newest state of a stream, for a decision."""
        stream = self._newest.get(name)
        if stream is None and name not in self._visible:
            stream = self._load(name)
        return stream

    def _load(self, name: bytes) -> Stream | None:
        """Bring a stream in from the storage, its sources first: a lineage rests on theirs."""
        record = self._storage.load(name)
        if record is None:
            return None
        chain = [record]
        while (fork := chain[-1].head.identity.fork) and fork.source not in self._newest:
            source = self._storage.load(fork.source)
            assert source is not None  # noqa: S101 - a stream that forks read is never dropped
            chain.append(source)
        for link in reversed(chain):
            stream = self._adopt(link.head)
            stream.producers.update(link.producers)
            stream.fork_count = self._storage.fork_count(link.head.identity.incarnation)
            self._newest[link.head.identity.name] = self._visible[link.head.identity.name] = stream
        return self._newest[name]

    def _adopt(self, head: Head) -> Stream:
        identity = head.identity
        source = self._newest[identity.fork.source].lineage if identity.fork else None
        lineage = Lineage(self._storage, identity, head.tail, source)
        stream = Stream(head, lineage, self.limits.producer_idle_ms)
        stream.touched_at = self.clock.now()
        self._watch(stream)
        return stream

    # Reading

    def find(self, name: bytes, now: int) -> Stream:
        """Give a stream that lives, to look at what is durable of it."""
        stream = self._visible.get(name)
        if stream is None:
            if self._newest.get(name) is None:
                stream = self._load(name)
            if stream is None:
                raise StreamNotFound(f"there is no stream at {quoted(name)}")
        if ended(stream.committed, stream, now):
            raise end_error(stream.committed, stream)
        return stream

    def open(self, name: bytes, now: int) -> Stream:
        """Give a stream that lives, to read from it: that begins its sliding time to live anew (§5.1)."""
        stream = self.find(name, now)
        stream.touched_at = now
        return stream

    def page(self, stream: Stream, offset: int | Sentinel) -> Page:
        """Cut the page of a stream that begins at `offset`."""
        if stream.ended:
            raise stream.ended.with_traceback(None)
        start = locate(stream.committed, stream.lineage, offset)
        return page_from(stream.committed, stream.lineage, start, self.limits.max_page_bytes)

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
                stream.feed = None

    def _next_batch(self, stream: Stream, position: int) -> Batch | None:
        head = stream.committed
        if position == head.tail and not head.closed:
            return None
        return self.batch(stream, page_from(head, stream.lineage, position, self.limits.max_page_bytes))

    def close(self) -> None:
        """Stop timing, wait for the group on its way, and close the storage."""
        self._expiry.stop()
        self._committer.close()
        self._storage.close()
