"""Ownership: a storage that has lost the folder of its store, or whose base is damaged, must not be written to."""

import logging
from collections.abc import Callable

from everbrook.engine.clock import Timer
from everbrook.engine.faults import Callback, Faults
from everbrook.engine.tuning import OwnershipTuning
from everbrook.storage.api import Storage

logger = logging.getLogger(__name__)


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
