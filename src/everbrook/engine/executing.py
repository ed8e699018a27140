"""Executing commands: each is decided at once against the newest state, and answered when it is durable."""

import contextlib
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import overload

from everbrook.engine.clock import Clock, Incarnations, Scheduler
from everbrook.engine.commit_thread import Worker
from everbrook.engine.committer import CommitCallbacks, Committer, Parked
from everbrook.engine.faults import Callback
from everbrook.engine.limits import Limits
from everbrook.engine.moves import Ended, Moves
from everbrook.engine.ownership import Ownership
from everbrook.engine.quotas import Quotas
from everbrook.engine.reading import Reading
from everbrook.engine.reclaiming import Reclaimer
from everbrook.engine.records import QUOTA_RECORDS
from everbrook.engine.stream import Stream
from everbrook.engine.streams import Streams
from everbrook.engine.tuning import DEFAULT_TUNING, EngineTuning
from everbrook.engine.upkeep import Upkeep
from everbrook.engine.usage import Usage
from everbrook.protocol.change import Change, Drop, Edit, Write
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
from everbrook.protocol.decide import decide
from everbrook.protocol.errors import StreamDamaged, TooManyProducers, Unavailable
from everbrook.protocol.incarnation import require_incarnation
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
from everbrook.protocol.state import Head
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
from everbrook.storage.memory import producer_bytes


class Executing(Reading):
    """Executes commands in four steps: load, decide, store, wake."""

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
        super().__init__(storage, scheduler, clock, limits, tuning)
        self._incarnations = Incarnations(storage.last_incarnation)
        first = self.new_incarnation()
        # Random, because a number of the clock could equal that of an earlier run, whose tokens would be accepted then.
        self.moves = Moves(int(clock.token()[:16], 16), tuning.moves)
        self.followers: list[Callable[[Edit], None]] = []
        self.on_roll_back: Callable[[set[bytes]], None] | None = None
        self.on_failure: Callable[[Unavailable], None] | None = None
        """Called when the store is poisoned, after all parked answers."""
        self._appended_messages = self._appended_bytes = self._duplicates = 0
        self._blob_executor = blob_executor or ThreadPoolExecutor(1, "everbrook-blobs")
        self._reclaimer = Reclaimer(storage, self._blob_executor, self.faults)
        self._upkeep = Upkeep(
            storage, clock, tuning, self._reclaimer, self._execute_due, self._when_all_durable, self.faults
        )
        self._streams = Streams(
            storage, clock, limits.producer_idle_ms, self, self.faults, tuning.streams, limits.max_loaded_bytes
        )
        callbacks = CommitCallbacks(self._streams.publish, self._roll_back, self._fail)
        self._committer = Committer(storage, clock, callbacks, self.faults, tuning.commit, commit_executor)
        if storage.refusal:
            self._committer.stop(storage.refusal)
        self._ownership = Ownership(storage, self._lose_folder, self.faults, tuning.ownership)
        usage = Usage(self._streams.heads, self._streams.newest_head)
        self._quotas = Quotas(limits, usage, self.read_all, storage.count(QUOTA_RECORDS))
        self._usage = usage
        self.epoch = storage.epoch
        """A number of the storage that changes with each restore: offsets may mean other bytes afterwards."""
        if storage.blocking:
            self._reclaimer.sweep(first)

    @property
    def last_change(self) -> int:
        """The number of the newest change, on which an answer that is given now depends."""
        return self._committer.last

    @property
    def durable_change(self) -> int:
        """The number up to which all changes are durable."""
        return self._committer.durable

    @property
    def pending_secs(self) -> float:
        """For how long the oldest pending change has waited."""
        since = self._committer.pending_since
        return 0.0 if since is None else self.clock.elapsed() - since

    @property
    def stalled_secs(self) -> float:
        """For how long changes have waited without any progress; 0 while that is below the bound for a stall."""
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
        """Verify that this process still owns the store. If not, take no more writes, and give the reason."""
        self._ownership.verify()
        return self._ownership.lost

    def _lose_folder(self, reason: str) -> None:
        """Take no more writes and remove no files. Pending changes fail."""
        self._reclaimer.stop()
        self._committer.poison(reason)

    def when_durable(self, change: int, answer: Parked) -> None:
        """Call `answer` when a change is durable, or with the reason why it never will be."""
        self._committer.park(change, answer)

    def _when_all_durable(self, call: Callable[[], None]) -> None:
        self._committer.park(self._committer.last, lambda _: call())

    def new_id(self, prefix: str) -> str:
        """Give an id that can't be guessed."""
        return prefix + self.clock.token()

    def new_incarnation(self) -> int:
        """Give a number for a stream that may be created."""
        return self._incarnations.next(self.clock.now())

    def exists(self, name: bytes) -> bool:
        """Tell whether a stream has a name, in the newest state."""
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

        The answer, or the refusal, may be sent when `last_change` is durable.
        """
        if self._committer.failure:
            self._require_storage()
        if isinstance(command, (Append, Create)) and len(command.body) > self.limits.max_stream_bytes:
            self.limits.check_body(command.name, command.body)
        decision = decide(self._streams, command)
        if decision.change:
            if self._streams.damaged or self._storage.damaged_streams:
                self._streams.require_whole(decision.change)
            if command.__class__ is WakeUp:
                self._check_wake(decision.change)
            else:
                self._check_limits(decision.change[-1])
                if command.__class__ is Create:
                    self._check_fork(command)
                if self._quotas.active:
                    self._quotas.follow(decision.change, self._quotas.check(decision.change))
            self._streams.prepare(decision.change)
            self._committer.submit(decision.change)
        elif isinstance(command, Append) and (stream := self._streams.stream(command.name)):
            stream.touched_at = command.now
            self._duplicates += isinstance(decision.outcome, Duplicate)
        return decision.outcome

    def find_ended(self, name: bytes) -> Ended | None:
        """Tell where a stream ended that is gone, if that is still known."""
        stream = self._streams.visible(name)
        if stream is None:
            return self.moves.ended.get(name)
        return Ended(stream.committed.identity.incarnation, stream.committed.tail)

    def require_incarnation(self, name: bytes, expected: bytes) -> None:
        """Refuse a change that names another incarnation of the stream."""
        stream = self._streams.stream(name)
        if stream:
            require_incarnation(expected, stream.head.identity, self.epoch)

    def _check_fork(self, command: Create) -> None:
        """Refuse a fork that would be too deep."""
        source = self._streams.stream(command.fork.source) if command.fork else None
        if source:
            self.limits.check_fork_depth(source.fork_depth + 1)

    def _require_storage(self) -> None:
        if self._committer.failure:
            raise self._committer.failure.with_traceback(None)

    def _check_limits(self, edit: Edit) -> None:
        """Refuse a change that exceeds a limit. Only its last edit adds data: the edits before it remove streams."""
        if not isinstance(edit, Write):
            return
        self.limits.check(edit, self._storage)
        # A close without data adds no more than one producer to a stream.
        if edit.producer_id is None or not edit.data:
            return
        stream = self._streams.stream(edit.head.identity.name)
        if stream and edit.producer_id not in stream.producers:
            self.limits.check_producers(len(stream.producers) - len(edit.forgotten))
            self._check_new_producer(edit.head.identity.name, producer_bytes(edit.producer_id, edit.producer))

    def _check_new_producer(self, name: bytes, size: int) -> None:
        """Refuse a new producer if memory is short, or if its bucket has too many for its quota."""
        if self._streams.lacks_memory_for_producers(name):
            raise TooManyProducers("the server has no memory for more producers of this bucket now")
        if self._quotas.active:
            self._quotas.check_producers(name, self._streams.producer_bytes.beside(name) + size)

    def _check_wake(self, change: Change) -> None:
        """Refuse a wake that its wake stream has no room for. It counts for its bucket, whose limits do not stop it."""
        self._check_limits(change[0])
        for edit in change[1:]:
            if isinstance(edit, Write):
                self.limits.check_wake(edit, self._storage)
        if self._quotas.active:
            self._quotas.follow(change, self._quotas.measure(change))

    def _execute_due(self, command: Expire | Trim) -> None:
        """Expire or trim a stream. A damaged one stays, so that its readers get an error and not a 404."""
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
            head = edit.head
            gone = isinstance(edit, Drop) or head.deleted
            self.moves.note(head.identity.name, Ended(head.identity.incarnation, head.tail) if gone else None)
        if self.followers:
            self.faults.each(Callback.FOLLOWER, self.followers, edit)
        try:
            # Guarded without `Faults.run`, because every append comes here.
            self._upkeep.follow(stream, edit, before)
        except Exception:  # noqa: BLE001 - the patrol, or the next load of the stream, finds what it missed
            self.faults.note(Callback.FOLLOWER)

    def _roll_back(self, changes: list[Change]) -> None:
        """Forget changes that there was no room for. Expiries among them are tried again later."""
        not_before = self.clock.now() + self.tuning.upkeep.retry_ms
        for stream in self._streams.roll_back(changes):
            self._upkeep.watch_again(stream, not_before)
        self._quotas.forget_changes()
        if self.on_roll_back:
            # The callback comes last: it may read the engine's state, which is rolled back by now.
            names = {edit.head.identity.name for change in changes for edit in change}
            self.faults.run(Callback.ROLL_BACK, self.on_roll_back, names)

    def _fail(self, failure: Unavailable) -> None:
        if self.on_failure:
            self.on_failure(failure)
