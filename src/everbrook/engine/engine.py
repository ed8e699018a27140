"""The engine: load, decide, store, wake.

A command is decided at once against the newest state and answered when what it rests on is durable; readers see durable
state only. All calls come from one thread, the loop's.
"""

import contextlib
from typing import overload

from everbrook.engine.clock import Clock, Incarnations, Scheduler
from everbrook.engine.committer import Committer, Parked
from everbrook.engine.expiry import ExpiryPatrol, ExpirySweep
from everbrook.engine.feed import Batch, Feed, Reader
from everbrook.engine.limits import Limits
from everbrook.engine.stream import Stream
from everbrook.engine.streams import Streams
from everbrook.protocol.change import Change, Edit, Write
from everbrook.protocol.commands import Append, Command, Create, Delete, Expire
from everbrook.protocol.decide import decide
from everbrook.protocol.errors import StreamDamaged, StreamNotFound, Unavailable, quoted
from everbrook.protocol.lifetime import deadline, end_error, ended
from everbrook.protocol.offset import Sentinel
from everbrook.protocol.outcomes import Appended, Closed, Created, Deleted, Duplicate, Existing, Outcome, Untouched
from everbrook.protocol.reading import Page, locate, page_from
from everbrook.storage.api import Storage

EXPIRY_RETRY_MS = 10_000


class Engine:
    """Executes commands and serves readers, for one server."""

    def __init__(self, storage: Storage, scheduler: Scheduler, clock: Clock, limits: Limits) -> None:
        self.clock = clock
        self.limits = limits
        self._storage = storage
        self.scheduler = scheduler
        self._incarnations = Incarnations()
        self._expiry = ExpirySweep(scheduler, clock, self._expire)
        self._streams = Streams(
            storage, clock.now(), limits.producer_idle_ms, self._watch, self._expiry.forget, self._make_room
        )
        self._committer = Committer(storage, scheduler, self._streams.publish, self._roll_back)
        self._patrol = ExpiryPatrol(storage, scheduler, clock, self._expire_name)

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
        decision = decide(self._streams, command)
        if decision.change:
            self._check_limits(decision.change[-1])
            self._streams.prepare(decision.change)
            self._committer.submit(decision.change)
        elif isinstance(command, Append) and (stream := self._streams.stream(command.name)):
            stream.touched_at = command.now
        return decision.outcome

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

    def _expire(self, stream: Stream, now: int) -> None:
        """End a stream whose time has run out. One that slides does not while somebody is reading it."""
        if stream.followed and stream.head.identity.ttl_secs is not None:
            stream.touched_at = now
            self._watch(stream)
        else:
            self._expire_name(stream.head.identity.name, now)

    def _expire_name(self, name: bytes, now: int) -> None:
        """End a stream whose time seems to have run out."""
        if not self.failure:
            # What is damaged stays, for whoever asks for it to be told.
            with contextlib.suppress(StreamDamaged):
                self.execute(Expire(name, now))

    def _make_room(self) -> None:
        self.scheduler.call_soon(self._streams.trim)

    def _watch(self, stream: Stream, not_before: int = 0) -> None:
        end = deadline(stream.head.identity, stream.touched_at)
        if end is not None:
            self._expiry.watch(stream, max(end, not_before))

    def _roll_back(self, changes: list[Change]) -> None:
        """Forget changes that there was no room for. An expiry among them is tried again when there may be."""
        not_before = self.clock.now() + EXPIRY_RETRY_MS
        for stream in self._streams.roll_back(changes):
            self._watch(stream, not_before)

    # Reading

    def find(self, name: bytes, now: int) -> Stream:
        """Give a stream that lives, to look at what is durable of it."""
        stream = self._streams.visible(name)
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

    def current(self, stream: Stream) -> Stream:
        """Give a stream that was found earlier as it is in memory now: it may have left and come back."""
        if stream.resident:
            return stream
        identity = stream.committed.identity
        again = self.find(identity.name, self.clock.now())
        if again.committed.identity.incarnation != identity.incarnation:
            raise StreamNotFound(f"the stream at {quoted(identity.name)} was deleted")
        return again

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
                # Whoever follows a stream reads it until the last moment (§5.1).
                stream.feed = None
                stream.touched_at = max(stream.touched_at, self.clock.now())

    def _next_batch(self, stream: Stream, position: int) -> Batch | None:
        head = stream.committed
        if position == head.tail and not head.closed:
            return None
        return self.batch(stream, page_from(head, stream.lineage, position, self.limits.max_page_bytes))

    def close(self) -> None:
        """Stop timing, wait for the group on its way, and close the storage."""
        self._expiry.stop()
        self._patrol.stop()
        self._committer.close()
        self._storage.close()
