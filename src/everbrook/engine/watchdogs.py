"""Watchdogs of the storage: commits that stall, and a store that must not be written to any more.

A commit stalls when changes wait and none becomes durable, as with a sync that never returns. `StallWatch` sets one
timer while changes wait, and none otherwise. It logs a stall once, with the stack of the thread that persists, and its
end once. `Ownership` finds that the folder of the store was lost, or that its base is damaged.
"""

import logging
import sys
import traceback
from collections.abc import Callable

from everbrook.engine.clock import Timer
from everbrook.engine.faults import Callback, Faults
from everbrook.engine.tuning import CommitTuning, OwnershipTuning
from everbrook.storage.api import Storage

logger = logging.getLogger(__name__)


def stack_of(thread_id: int) -> str:
    """Return the stack of a thread as it is now, the innermost call last, as a traceback shows it."""
    frame = sys._current_frames().get(thread_id)  # noqa: SLF001 - documented, in spite of its name
    return "".join(traceback.format_stack(frame)) if frame else f"thread {thread_id} has ended"


class StallWatch:
    """Watches a committer for as long as changes wait."""

    def __init__(
        self,
        faults: Faults,
        tuning: CommitTuning,
        silent_secs: Callable[[], float | None],
        where: Callable[[], str],
    ) -> None:
        """`silent_secs` returns how long there was no progress (None: no change waits), and `where` the stack."""
        self._faults = faults
        self._tuning = tuning
        self._silent_secs = silent_secs
        self._where = where
        self._timer: Timer | None = None
        self._reported = False

    def start(self) -> None:
        """Begin to watch, unless the watch is running already."""
        if self._timer is None:
            self._look_in(self._tuning.stall_secs)

    def _look_in(self, secs: float) -> None:
        self._timer = self._faults.later(Callback.STALL, secs, self._look, failed=self._look_again)

    def _look_again(self) -> None:
        self.stop()
        self._look_in(self._tuning.stall_secs)

    def _look(self) -> None:
        self._timer = None
        secs, bound = self._silent_secs(), self._tuning.stall_secs
        stalled = secs is not None and secs >= bound
        if stalled and not self._reported:
            logger.error(
                "changes wait, and none has become durable for %.1f s; the commit thread:\n%s", secs, self._where()
            )
        elif self._reported and not stalled:
            logger.warning("changes become durable again")
        self._reported = stalled
        if secs is not None:
            delay_secs = self._tuning.recheck_secs if stalled else bound - secs
            self._look_in(delay_secs)

    def stop(self) -> None:
        """Stop watching."""
        if self._timer:
            self._timer.cancel()


class Ownership:
    """Asks the storage periodically whether it may still be written to. A loss is final until a restart."""

    def __init__(self, storage: Storage, fail: Callable[[str], None], faults: Faults, tuning: OwnershipTuning) -> None:
        """Call `fail` once, with the reason, when the storage may not be written to any more."""
        self._storage = storage
        self._fail = fail
        self._timer: Timer | None = None
        self.lost: str | None = None
        if storage.blocking:
            self._timer = faults.every(Callback.LOCK, tuning.check_secs, self._check)

    def _check(self) -> None:
        if not self.verify():
            self.stop()

    def verify(self) -> bool:
        """Ask the storage now whether it may still be written to."""
        if self.lost is None and (reason := self._storage.verify()):
            self.lost = reason
            logger.error("the store takes no more writes: %s", reason)
            self._fail(f"the store takes no more writes until the server is restarted: {reason}")
        return self.lost is None

    def stop(self) -> None:
        """Stop asking."""
        if self._timer:
            self._timer.cancel()
