"""The committer: early decision, late answer.

Changes that arrive while a group is on its way to the disk form the next group: one sync for all of them. An answer is
parked until what it rests on is durable. If a group fails the store is poisoned: everything pending fails, and every
later write, until the store is opened anew; after a failed sync nobody knows what the disk holds.
"""

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor

from msgspec import Struct

from everbrook.engine.clock import Scheduler
from everbrook.engine.inspection import Commits
from everbrook.protocol.change import Change
from everbrook.protocol.errors import Unavailable
from everbrook.storage.api import Storage, StorageFull

Parked = Callable[[Unavailable | None], None]


MAX_REMEMBERED_REFUSALS = 64


class Refused(Struct, frozen=True):
    """Numbers of changes that there was no room for."""

    first: int
    last: int
    failure: Unavailable


class Committer:
    """Orders changes, makes them durable in groups, and releases the answers that wait for them."""

    def __init__(
        self,
        storage: Storage,
        scheduler: Scheduler,
        publish: Callable[[Change], None],
        roll_back: Callable[[list[Change]], None],
        executor: Executor | None = None,
    ) -> None:
        """Hand each change to `publish` once it is durable and visible, in order.

        All that is on its way goes to `roll_back` when there is no room for it. `executor` persists the groups of a
        storage that blocks, one after the other; it is shut down with the committer. The default is a thread.
        """
        self._storage = storage
        self._scheduler = scheduler
        self._publish = publish
        self._roll_back = roll_back
        self._executor = (executor or ThreadPoolExecutor(1, "everbrook-commit")) if storage.blocking else None
        self._queue: list[Change] = []
        self._under_way = False
        self._queue_since = 0.0
        self._group_since: float | None = None
        self._parked: deque[tuple[int, Parked]] = deque()
        self._between: list[Callable[[], None]] = []
        self._refused: deque[Refused] = deque(maxlen=MAX_REMEMBERED_REFUSALS)
        self.last = 0
        self.durable = 0
        self.failure: Unavailable | None = None
        self.commits = Commits()

    @property
    def pending_since(self) -> float | None:
        """When the oldest change came that is not durable yet, by `time.perf_counter`."""
        if self._group_since is not None:
            return self._group_since
        return self._queue_since if self._queue else None

    @property
    def parked(self) -> int:
        """How many answers wait."""
        return len(self._parked)

    def submit(self, change: Change) -> None:
        """Take a change in. Its number is `last` until the next one comes."""
        self.last += 1
        if self._executor is None:
            self._storage.apply((change,))
            self.durable = self.last
            self._publish(change)
            return
        if not self._queue:
            self._queue_since = time.perf_counter()
        self._queue.append(change)
        if not self._under_way:
            self._under_way = True
            self._scheduler.call_soon(self._start)

    def park(self, number: int, answer: Parked) -> None:
        """Call `answer` when change `number` is durable, or with the reason why it never will be."""
        if number <= self.durable:
            answer(next((past.failure for past in self._refused if past.first <= number <= past.last), None))
        elif self.failure:
            answer(self.failure)
        else:
            self._parked.append((number, answer))

    def between_groups(self, call: Callable[[], None]) -> None:
        """Call when nothing is on its way to the disk, and all that was is visible or has failed."""
        if self._under_way and not self.failure:
            self._between.append(call)
        else:
            call()

    def _call_between(self) -> None:
        between, self._between = self._between, []
        for call in between:
            call()

    def _start(self) -> None:
        group, self._queue = self._queue, []
        if self._executor and not self.failure:
            self._group_since = self._queue_since
            self._executor.submit(self._persist, group)

    def _persist(self, group: list[Change]) -> None:
        error: BaseException | None = None
        began = time.perf_counter()
        try:
            self._storage.persist(group)
        except BaseException as raised:  # noqa: BLE001 - whatever it is, the group is not known to be durable
            error = raised
        self.commits.sync.observe(time.perf_counter() - began)
        self._scheduler.call_soon_threadsafe(self._finish, group, error)

    def _finish(self, group: list[Change], error: BaseException | None) -> None:
        self._group_since = None
        self.commits.sizes.observe(len(group))
        if self.failure:
            return
        if isinstance(error, StorageFull):
            self._refuse(group, error)
            return
        if error:
            self._fail(f"the storage failed and takes no more writes until it is restarted: {error}")
            return
        self._storage.apply(group)
        self.durable += len(group)
        for change in group:
            self._publish(change)
        self._release()
        if self._between:
            self._call_between()
        if self._queue:
            self._start()
        else:
            self._under_way = False

    def _release(self) -> None:
        while self._parked and self._parked[0][0] <= self.durable:
            self._parked.popleft()[1](None)

    def _refuse(self, group: list[Change], error: StorageFull) -> None:
        """Give up what there is no room for, and all that was decided on top of it. The storage is as it was.

        The numbers of what was refused are settled and never come back: an answer must not rest on another change.
        """
        self.commits.refused += 1
        failure = Unavailable(f"nothing can be stored now: {error}")
        refused = group + self._queue
        self._queue = []
        self._under_way = False
        self._refused.append(Refused(self.durable + 1, self.last, failure))
        # What is decided from now on rests on a number that no change has.
        self.last += 1
        self.durable = self.last
        self._roll_back(refused)
        self._answer_all(failure)
        self._call_between()

    def _answer_all(self, failure: Unavailable) -> None:
        parked, self._parked = self._parked, deque()
        for _, answer in parked:
            answer(failure)

    def _fail(self, reason: str) -> None:
        """Take nothing more, and tell those who wait that they wait in vain."""
        self.failure = Unavailable(reason)
        self._queue.clear()
        self._answer_all(self.failure)
        self._call_between()

    def close(self) -> None:
        """Let the group on its way reach the disk, and take nothing more. What waits is told so."""
        if self._executor is not None:
            self._executor.shutdown()
        if self.failure is None:
            self._fail("the server is stopping")
