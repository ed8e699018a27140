"""The committer: group commit. A change is decided early, and its response is sent when it is durable.

Changes that arrive while a group is being persisted form the next group: one sync for all of them. A response is parked
until the changes that it depends on are durable. If a group fails, the store is poisoned: all pending and later writes
fail until the store is opened again, because it is unknown what the disk holds after a failed sync.

Each callback is guarded separately: one that raises stops neither the others nor the next group. An exception in the
committer's own steps poisons the store, and so does one in `apply` or `publish`, which keep the state that readers see.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from threading import get_ident

from msgspec import Struct

from everbrook.engine.clock import Clock, Timer
from everbrook.engine.commit_thread import CommitThread, Worker
from everbrook.engine.faults import Callback, Faults
from everbrook.engine.stats import Commits
from everbrook.engine.tuning import DEFAULT_TUNING, CommitTuning
from everbrook.engine.watchdogs import StallWatch, stack_of
from everbrook.protocol.errors import Unavailable
from everbrook.protocol.state import Change
from everbrook.storage.api import Storage, StorageFull

logger = logging.getLogger(__name__)

Parked = Callable[[Unavailable | None], None]
"""A parked response. It is called with None when its change is durable, or with the error that prevents that."""


# Older refusals are forgotten: a response is parked soon after its change was submitted.
MAX_REMEMBERED_REFUSALS = 64


class RefusedRange(Struct, frozen=True):
    """The numbers of consecutive changes that the storage refused for want of room, and the error for them."""

    first: int
    last: int
    failure: Unavailable


class CommitCallbacks(Struct, frozen=True):
    """The callbacks by which the committer reports the fate of changes."""

    publish: Callable[[Sequence[Change]], None]
    """Called with changes that are durable and applied, in their order."""
    roll_back: Callable[[list[Change]], None]
    """Called with all pending changes if there is no room for a group."""
    fail: Callable[[Unavailable], None]
    """Called when the store is poisoned, after all parked responses have failed."""


class Committer:
    """Numbers changes, makes them durable in groups, and releases the responses that wait for them."""

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        callbacks: CommitCallbacks,
        faults: Faults,
        tuning: CommitTuning = DEFAULT_TUNING.commit,
        worker: Worker | None = None,
    ) -> None:
        """Commit changes to `storage`.

        `worker` persists the groups of a storage that blocks, one at a time, and is shut down with the committer. The
        default is a thread.
        """
        self._storage = storage
        self._clock = clock
        self._publish = callbacks.publish
        self._callbacks = callbacks
        self._faults = faults
        self._worker = (worker or CommitThread()) if storage.blocking else None
        self._watch = StallWatch(faults, tuning, lambda: self.silent_secs, self._commit_stack)
        self._queue: list[Change] = []
        self._under_way = False
        self._queue_since = 0.0
        self._group_since: float | None = None
        self._progress_at = 0.0
        self._persisting: int | None = None
        self._parked: deque[tuple[int, Parked]] = deque()
        self._between: list[Callable[[], None]] = []
        self._seal_secs = tuning.seal_secs
        self._seal_timer: Timer | None = None
        self._refused: deque[RefusedRange] = deque(maxlen=MAX_REMEMBERED_REFUSALS)
        self.last = 0
        self.durable = 0
        self.failure: Unavailable | None = None
        self.commits = Commits()

    @property
    def pending_since(self) -> float | None:
        """When the oldest pending change was submitted, by `Clock.elapsed`."""
        if self._group_since is not None:
            return self._group_since
        return self._queue_since if self._queue else None

    @property
    def silent_secs(self) -> float | None:
        """How long changes have waited since the last group was completed. None: no change waits."""
        since = self.pending_since
        return None if since is None else self._clock.elapsed() - max(since, self._progress_at)

    @property
    def parked(self) -> int:
        """How many responses are parked."""
        return len(self._parked)

    def submit(self, change: Change) -> None:
        """Take a change. It gets the next number, which is `last` until the next call."""
        self.last += 1
        if self._worker is None:
            self._apply_at_once(change)
            return
        if not self._queue:
            self._queue_since = self._clock.elapsed()
            self._watch.start()
        self._queue.append(change)
        if not self._under_way:
            # In a later turn, so that all changes of this turn form one group, which needs one sync.
            self._under_way = True
            self._faults.soon(Callback.COMMIT, self._start, failed=self._step_failed)

    def _apply_at_once(self, change: Change) -> None:
        """Apply a change to a storage that does not block."""
        try:
            self._storage.apply((change,))
            self.durable = self.last
            self._publish((change,))
        except Exception as error:
            # Readers and decisions may have seen a part of the change, and it can't be taken back.
            self._faults.note(Callback.COMMIT)
            raise self.poison(f"a change could not be applied: {error!r}") from error

    def _apply(self, group: Sequence[Change]) -> None:
        self._storage.apply(group)
        self.durable += len(group)
        self._publish(group)

    def park(self, number: int, answer: Parked) -> None:
        """Call `answer` with None when change `number` is durable, or with the error that prevents it."""
        if number <= self.durable:
            # The numbers of refused changes count as durable, so that later numbers can be.
            answer(next((past.failure for past in self._refused if past.first <= number <= past.last), None))
        elif self.failure:
            answer(self.failure)
        else:
            self._parked.append((number, answer))

    def between_groups(self, call: Callable[[], None]) -> None:
        """Call `call` when no group is being persisted, and the last group is applied or has failed."""
        # After a failure no group ends any more, so a call that waited for that would never run.
        if self._under_way and not self.failure:
            self._between.append(call)
        else:
            call()

    def when_group_ends(self, call: Callable[[], None]) -> bool:
        """Call `call` as `between_groups` does. Returns False, and calls nothing, if no changes are pending."""
        if self.pending_since is None:
            return False
        self.between_groups(call)
        return True

    def _call_between(self) -> None:
        between, self._between = self._between, []
        for call in between:
            self._faults.run(Callback.BETWEEN_GROUPS, call)

    def _start(self) -> None:
        # The new list collects the next group while the thread persists this one.
        group, self._queue = self._queue, []
        if self._worker is None or self.failure:
            return
        # In this thread, so that the commit thread does not compete for the interpreter with the requests that arrive.
        self._storage.prepare(group)
        try:
            self._worker.submit(self._persist, group)
        except RuntimeError as error:
            # No thread could be started. Poison in a later turn, because `_finish` may have called this: the responses
            # of its group are durable and must be released first.
            reason = f"the storage takes no more writes until it is restarted: {error}"
            self._faults.soon(Callback.COMMIT, self.poison, reason, error, failed=self._step_failed)
        else:
            self._group_since = self._queue_since

    def _persist(self, group: list[Change]) -> None:
        error: BaseException | None = None
        self._persisting = get_ident()
        began = self._clock.elapsed()
        try:
            self._storage.persist(group)
        except BaseException as raised:  # noqa: BLE001 - after any exception it is unknown whether the group is durable
            error = raised
        # Measured in this thread: the loop may be busy for a while before it calls `_finish`.
        ended = self._clock.elapsed()
        self.commits.sync.observe(ended - began)
        self._persisting = None
        self._faults.soon_threadsafe(Callback.COMMIT, self._finish, group, error, ended, failed=self._step_failed)

    def _commit_stack(self) -> str:
        """Return the stack of the commit thread at this moment."""
        thread = self._persisting
        return "no group is being persisted" if thread is None else stack_of(thread)

    def _finish(self, group: list[Change], error: BaseException | None, ended: float) -> None:
        """Publish a group, start the next one, and only then release responses: the disk must not wait for sockets."""
        self._group_since = None
        self._progress_at = ended
        self.commits.sizes.observe(len(group))
        if self.failure:
            # All responses have failed already. The group may be durable; then the next start recovers it.
            return
        if isinstance(error, StorageFull):
            self._refuse(group, error)
            return
        if error:
            self.poison(f"the storage failed and takes no more writes until it is restarted: {error}", error)
            return
        if raised := self._faults.run(Callback.COMMIT, self._apply, group):
            # It is unknown which changes of the group are visible.
            self.poison(f"changes that are durable could not be applied: {raised!r}")
            return
        # Here no group is being persisted, and every durable change is applied: the moment at which a pin is
        # consistent.
        if self._between:
            self._call_between()
        if self._queue:
            self._start()
        else:
            self._under_way = False
            if self._storage.unsealed:
                self._seal_later()
        self._release()

    def _seal_later(self) -> None:
        """Seal the last group if no other one follows it within `seal_secs`."""
        if self._seal_timer is None:
            self._seal_timer = self._faults.later(
                Callback.COMMIT, self._seal_secs, self._seal_if_idle, self.last, failed=self._seal_again
            )

    def _seal_again(self) -> None:
        self._seal_timer = None
        if not self.failure:
            self._seal_later()

    def _seal_if_idle(self, last: int) -> None:
        self._seal_timer = None
        if self._worker is None or self.failure or self._under_way:
            return
        if self.last == last:
            # In the worker's thread, because the journal has one writer. A group that arrives now waits for the seal.
            self._worker.submit(self._seal)
        else:
            self._seal_later()

    def _seal(self) -> None:
        try:
            self._storage.seal()
        except StorageFull:
            # The journal is unchanged, and the next group will prove the last one durable.
            return
        except BaseException as error:  # noqa: BLE001 - after any exception it is unknown what the disk holds
            reason = f"the storage failed and takes no more writes until it is restarted: {error}"
            self._faults.soon_threadsafe(Callback.COMMIT, self.poison, reason, error, failed=self._step_failed)

    def _release(self) -> None:
        """Release the parked responses whose changes are durable."""
        parked, durable = self._parked, self.durable
        due: list[Parked] = []
        while parked and parked[0][0] <= durable:
            due.append(parked.popleft()[1])
        self._faults.each(Callback.ANSWER, due, None)

    def _refuse(self, group: list[Change], error: StorageFull) -> None:
        """Refuse a group for want of room, and with it all changes that were decided on top of it.

        The storage is unchanged. The numbers of refused changes are not used again, because a response that was parked
        under such a number must not be released by another change.
        """
        self.commits.refused += 1
        failure = Unavailable(f"nothing can be stored now: {error}")
        refused = group + self._queue
        self._queue = []
        self._under_way = False
        self._refused.append(RefusedRange(self.durable + 1, self.last, failure))
        # Skip one number: a response without a change of its own is parked under `last`, and must not fail because of a
        # change that was refused before it.
        self.last += 1
        self.durable = self.last
        if raised := self._faults.run(Callback.COMMIT, self._callbacks.roll_back, refused):
            # Later decisions would see changes that were not stored.
            self.poison(f"changes that did not fit on the disk could not be rolled back: {raised!r}")
            return
        self._answer_all(failure)
        self._call_between()
        if self._storage.unsealed:
            # No other group may follow for a while, so the group before the refused one needs a seal.
            self._seal_later()

    def _answer_all(self, failure: Unavailable) -> None:
        parked, self._parked = self._parked, deque()
        self._faults.each(Callback.ANSWER, (answer for _, answer in parked), failure)

    def poison(self, reason: str, error: BaseException | None = None) -> Unavailable:
        """Take no more changes after an error that leaves the state of the store unknown. Logs the error's stack."""
        if self.failure:
            return self.failure
        logger.critical("the store takes no more writes: %s", reason, exc_info=error)
        failure = self.stop(reason)
        if self._faults.run(Callback.FAILURE, self._callbacks.fail, failure):
            # The callback ends the server. A fault in it must not leave a poisoned server running, so call it once
            # more.
            self._faults.soon(Callback.FAILURE, self._callbacks.fail, failure)
        return failure

    def _step_failed(self) -> None:
        """Poison the store after a fault in a step: without that step no later change would become durable."""
        self.poison("a commit step failed; the log has the reason")

    def stop(self, reason: str) -> Unavailable:
        """Take no more changes, and fail all parked responses with the reason."""
        failure = self.failure = Unavailable(reason)
        self._queue.clear()
        self._watch.stop()
        if self._seal_timer:
            self._seal_timer.cancel()
        self._answer_all(failure)
        self._call_between()
        return failure

    def close(self) -> None:
        """Wait for the group that is being persisted, and take no more changes. Parked responses fail."""
        if self._worker is not None:
            self._worker.shutdown()
        if self.failure is None:
            self.stop("the server is stopping")
