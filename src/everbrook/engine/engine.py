"""The engine: load, decide, store, wake.

A command is decided at once against the newest state. Its response is sent when the changes that it depends on are
durable. Readers see durable state only. All calls come from one thread, that of the event loop.
"""

import contextlib
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import overload

from msgspec.structs import replace

from everbrook.engine.blobs import Upload
from everbrook.engine.buckets import Buckets
from everbrook.engine.clock import Clock, Incarnations, Scheduler
from everbrook.engine.commit_thread import Worker
from everbrook.engine.committer import CommitCallbacks, Committer, Parked
from everbrook.engine.expiry import Expiry
from everbrook.engine.faults import Callback, Faults
from everbrook.engine.limits import MAX_COST_RATIO, Limits
from everbrook.engine.listing import Listing
from everbrook.engine.quotas import Capacity, Quotas
from everbrook.engine.readers import Readers
from everbrook.engine.recent_changes import DurableChanges, Ended, RecentChanges, end_of
from everbrook.engine.reclaim import Reclaimer
from everbrook.engine.records import QUOTA_RECORDS
from everbrook.engine.stats import EngineStats
from everbrook.engine.streams import Streams
from everbrook.engine.tuning import DEFAULT_TUNING, EngineTuning
from everbrook.engine.turns import Turns
from everbrook.engine.usage import Usage
from everbrook.engine.watchdogs import Ownership
from everbrook.protocol.append import decide_plainly
from everbrook.protocol.commands import (
    Append,
    Appended,
    Closed,
    Command,
    Create,
    CreateBucket,
    Created,
    Cut,
    Delete,
    DeleteBucket,
    Deleted,
    DeleteSnapshot,
    Duplicate,
    Existing,
    Expire,
    Outcome,
    PublishSnapshot,
    Retain,
    Trim,
    Untouched,
)
from everbrook.protocol.decide import decide
from everbrook.protocol.errors import StreamDamaged, Unavailable
from everbrook.protocol.lifetime import require_incarnation
from everbrook.protocol.state import Change
from everbrook.protocol.subscriptions.subscription import (
    Changed,
    Claim,
    Compact,
    Confirmed,
    Deliver,
    Lapse,
    LinkStreams,
    Report,
    Subscribe,
    Subscription,
    SubscriptionCommand,
    UnlinkStream,
    Unsubscribe,
    WakeUp,
)
from everbrook.storage.api import Pin, Storage


class Engine:
    """Executes commands in four steps: load, decide, store, wake.

    Its parts do the rest: `readers` reads streams, `listing` finds them by prefix, `buckets` lists and changes buckets,
    `quotas` bounds the usage of buckets, and `reclaimer` frees the space of removed bytes.
    """

    def __init__(
        self,
        storage: Storage,
        scheduler: Scheduler,
        clock: Clock,
        limits: Limits,
        *,
        tuning: EngineTuning = DEFAULT_TUNING,
        commit_executor: Worker | None = None,
        blob_executor: Executor | None = None,
    ) -> None:
        """Serve the streams of `storage`.

        `commit_executor` persists groups of changes, and `blob_executor` writes and removes blobs, each one step at a
        time. Both are shut down with the engine. The default of each is a thread.
        """
        self.clock = clock
        self.limits = limits
        self.tuning = tuning
        self.faults = Faults(clock, scheduler)
        self.turns = Turns(self.faults, clock)
        self.epoch = storage.epoch
        """The epoch of the store. It changes with each restore, because an offset may mean other bytes afterwards."""
        self.on_roll_back: Callable[[set[bytes]], None] | None = None
        self.on_failure: Callable[[Unavailable], None] | None = None
        """Called when the store is poisoned, after all parked responses have failed."""
        self._storage = storage
        self._duplicates = 0
        self._roomy_bytes = limits.roomy_bytes
        self._incarnations = Incarnations(storage.last_incarnation)
        first = self.new_incarnation()
        # Random, because a number taken from the clock could repeat one of an earlier run, and the tokens of that run
        # would then be accepted.
        self.recent_changes = RecentChanges(int(clock.token()[:16], 16), tuning.recent_changes)
        self._blob_executor = blob_executor or ThreadPoolExecutor(1, "everbrook-blobs")
        self.reclaimer = Reclaimer(storage, self._blob_executor, self.faults)
        self._expiry = Expiry(
            storage, clock, tuning.expiry, self.reclaimer, self._execute_due, self._when_durable_but, self.turns
        )
        self._durable_changes = DurableChanges(self.faults, self.recent_changes, self._expiry)
        self.followers = self._durable_changes.followers
        """Called with each edit that became durable."""
        self._streams = Streams(storage, clock, limits, self._durable_changes, self.faults, tuning.streams)
        self.readers = Readers(storage, clock, limits, self._streams, self.faults, tuning.feed)
        self.listing = Listing(storage, clock, self._streams, tuning.streams.counting_slice)
        usage = Usage(self.listing.heads, self._streams.newest_head)
        self.quotas = Quotas(limits, usage, self.readers.read_all, storage.count(QUOTA_RECORDS))
        self._capacity = Capacity(storage, limits, self._streams, self.quotas)
        self.buckets = Buckets(
            storage, clock, self._incarnations, self._streams, self.listing, self.quotas, self.execute
        )
        callbacks = CommitCallbacks(self._streams.publish, self._roll_back, self._fail)
        self._committer = Committer(storage, clock, callbacks, self.faults, tuning.commit, commit_executor)
        self.turns.when_group_ends = self._committer.when_group_ends
        if storage.refusal:
            self._committer.stop(storage.refusal)
        self._ownership = Ownership(storage, self._lose_folder, self.faults, tuning.ownership)
        if storage.blocking:
            # Blobs with numbers from `first` on belong to uploads of this run, so the search for orphans spares them.
            self.reclaimer.sweep(first)

    @property
    def last_change(self) -> int:
        """The number of the newest change. A response that is made now depends on it."""
        return self._committer.last

    @property
    def durable_change(self) -> int:
        """The number up to which all changes are durable."""
        return self._committer.durable

    @property
    def pending_secs(self) -> float:
        """How long the oldest pending change has waited."""
        since = self._committer.pending_since
        return 0.0 if since is None else self.clock.elapsed() - since

    @property
    def stalled_secs(self) -> float:
        """How long changes have waited without any progress; 0 while that is below the bound for a stall."""
        secs = self._committer.silent_secs
        return 0.0 if secs is None or secs < self.tuning.commit.stall_secs else secs

    @property
    def damaged_streams(self) -> int:
        """How many stored streams are marked as damaged."""
        return self._storage.damaged_streams

    @property
    def failure(self) -> Unavailable | None:
        """The reason why the storage takes no more writes; None while it takes them."""
        return self._committer.failure

    def verify_ownership(self) -> str | None:
        """Verify that this process still owns the store. If not, take no more writes. Returns the reason."""
        self._ownership.verify()
        return self._ownership.lost

    def _lose_folder(self, reason: str) -> None:
        """Take no more writes and remove no files. Pending changes fail."""
        self.reclaimer.stop()
        self._committer.poison(reason)

    def when_durable(self, change: int, answer: Parked) -> None:
        """Call `answer` with None when a change is durable, or with the error that prevents it."""
        self._committer.park(change, answer)

    def _when_durable_but(self, newest: int, call: Callable[[], None]) -> None:
        self._committer.park(self._committer.last - newest, lambda _: call())

    def new_incarnation(self) -> int:
        """Return a number for a stream that may be created."""
        return self._incarnations.next(self.clock.now())

    def exists(self, name: bytes) -> bool:
        """Return whether a stream has a name, in the newest state."""
        return self._streams.stream(name) is not None

    def follow_subscriptions(self, find: Callable[[bytes], Subscription | None]) -> None:
        """Let decisions find subscriptions with `find`, by the names of their records."""
        self._streams.subscriptions = find

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
        """Decide on a command and submit its change, or raise the refusal.

        The response, also that of a refusal, may be sent when `last_change` is durable: a refusal, too, can depend on a
        change that is pending.
        """
        if self._committer.failure:
            self._require_storage()
        if isinstance(command, (Append, Create)) and len(command.body) > self.limits.max_stream_bytes:
            self.limits.check_body(command.name, command.body)
        decision = decide(self._streams, command)
        if decision.change:
            # The order matters: a refused command must leave no trace, so all refusals come before `prepare`.
            if self._streams.damaged or self._storage.damaged_streams:
                self._streams.require_whole(decision.change)
            self._capacity.reserve(command, decision.change)
            self._streams.prepare(decision.change)
            self._committer.submit(decision.change)
        # An append without a change, such as a duplicate, still renews the TTL of the stream (§5.1).
        elif isinstance(command, Append) and (stream := self._streams.stream(command.name)):
            stream.touched_at = command.now
            self._duplicates += isinstance(decision.outcome, Duplicate)
        return decision.outcome

    def append(self, command: Append) -> Appended | Closed | Duplicate:
        """Execute an append. One of the most common kind takes a short way to the same result."""
        streams, limits = self._streams, self.limits
        stream = streams.newest_in_memory(command.name)
        if stream is None or self._committer.failure or self.quotas.active or streams.damaged:
            return self.execute(command)
        if len(command.body) > limits.max_stream_bytes or self._storage.damaged_streams:
            return self.execute(command)
        write = decide_plainly(stream, command)
        if write is None or write.head.tail > limits.max_stream_bytes:
            return self.execute(command)
        if self._storage.used_bytes + MAX_COST_RATIO * len(write.data) > self._roomy_bytes:
            return self.execute(command)
        streams.append(stream, write)
        self._committer.submit((write,))
        return Appended(write.head, write.producer)

    def find_ended(self, name: bytes) -> Ended | None:
        """Return the end of a stream that is expired or soft-deleted. None: the name has no durable stream."""
        stream = self._streams.visible(name)
        return None if stream is None else end_of(stream.committed)

    def require_incarnation(self, name: bytes, expected: bytes) -> None:
        """Refuse a change that names another incarnation of the stream."""
        stream = self._streams.stream(name)
        if stream:
            require_incarnation(expected, stream.head.identity, self.epoch)

    def _require_storage(self) -> None:
        if self._committer.failure:
            # One exception object is raised many times: without this its traceback would grow with each raise.
            raise self._committer.failure.with_traceback(None)

    def _execute_due(self, command: Expire | Trim) -> None:
        """Expire or trim a stream. A damaged stream stays, so that its readers get an error and not a 404."""
        if not self.failure:
            with contextlib.suppress(StreamDamaged):
                self.execute(command)

    def _roll_back(self, changes: list[Change]) -> None:
        """Undo changes that the storage refused for want of room. Expiries among them are tried again later."""
        self._expiry.watch_again(self._streams.roll_back(changes))
        self.quotas.forget_changes()
        if self.on_roll_back:
            # The callback comes last: it may read the engine's state, which is rolled back by now.
            names = {edit.head.identity.name for change in changes for edit in change}
            self.faults.run(Callback.ROLL_BACK, self.on_roll_back, names)

    def _fail(self, failure: Unavailable) -> None:
        if self.on_failure:
            self.on_failure(failure)

    # Snapshots

    def begin_snapshot(self, command: PublishSnapshot, size: int = 0) -> Upload:
        """Begin the upload of a snapshot, or refuse it if it could not be published even now.

        It must be within the quotas, both with the `size` that it declares and with the bytes that arrive.
        """
        self._require_storage()
        (edit,) = change = decide(self._streams, command).change
        # The size of the snapshot is not part of this change: its bytes have yet to arrive.
        differences = self.quotas.measure(change) if self.quotas.active else {}
        check_size = partial(self.quotas.check_snapshot, differences)
        check_size(size)
        self.readers.open_blobs.enter()
        upload = Upload(
            self._storage,
            self._blob_executor,
            self.faults,
            lambda: self.last_change,
            (edit.head.identity.incarnation, self.new_incarnation()),
            lambda size: self.limits.check_memory(command.name, size, self._storage),
            self.tuning.uploads,
        )
        upload.on_closed = self.readers.open_blobs.leave
        upload.check_size = check_size
        return upload

    def publish(self, upload: Upload, command: PublishSnapshot) -> Cut:
        """Publish a finished upload. The response may be sent when `last_change` is durable."""
        outcome = self.execute(
            replace(command, owner=upload.owner, blob=upload.blob, size=upload.size, digest=upload.digest)
        )
        # From here on a pending change refers to the blob, so a client that disconnects must not remove it.
        upload.keep()

        def settle(failure: Unavailable | None) -> None:
            # The change was refused for want of room, so nothing refers to the blob. After any other failure the change
            # may be durable, and the blob must stay.
            if failure and not self.failure:
                upload.remove()

        self.when_durable(self.last_change, settle)
        return outcome

    # The whole

    def pin(self, take: Callable[[Pin | None, Exception | None], None]) -> None:
        """Pin the store between two groups, with every change that was acknowledged before, and pass the pin to `take`.

        `take` gets an error if that fails, and None twice if the storage has no files.
        """
        self._committer.between_groups(lambda: self._pin(take))

    def _pin(self, take: Callable[[Pin | None, Exception | None], None]) -> None:
        try:
            self._require_storage()
            pin = self._storage.pin()
        except Exception as error:  # noqa: BLE001 - the caller gets any error
            take(None, error)
        else:
            take(pin, None)

    def inspect(self) -> EngineStats:
        """Return the counters, and the numbers of streams and changes in memory now."""
        committer, streams = self._committer, self._streams
        return EngineStats(
            commits=committer.commits,
            pending=committer.last - committer.durable,
            pending_secs=self.pending_secs,
            parked=committer.parked,
            appended_messages=self._durable_changes.appended_messages,
            appended_bytes=self._durable_changes.appended_bytes,
            duplicates=self._duplicates,
            failed=committer.failure is not None,
            stalled=self.stalled_secs > 0,
            faults=self.faults.counts,
            damaged_streams=self._storage.damaged_streams,
            memory_bytes=self._storage.used_bytes,
            loaded_bytes=streams.loaded_bytes,
            checkpoints=self._storage.checkpoints,
            resident_streams=streams.resident,
            newest_streams=streams.newest,
            arriving_streams=streams.arriving,
            held_streams=self.reclaimer.held,
            changed_streams=self.recent_changes.count,
            expiring=self._expiry.expiring,
            trimming=self._expiry.trimming,
        )

    def close(self) -> None:
        """Cancel all timers, wait for the group that is being persisted, and close the storage.

        A storage that has lost its folder, or whose base is damaged, stays open until the process ends: closing it
        would write to the folder.
        """
        self._expiry.stop()
        self.reclaimer.stop()
        self._ownership.stop()
        self._committer.close()
        self._blob_executor.shutdown()
        if self._ownership.verify():
            self._storage.close()
