"""The thread that persists groups, one after the other.

The hand-off is a plain queue: a future for each group, which nobody asks, would cost more than the queue itself.
"""

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Protocol


class Worker(Protocol):
    """Takes steps and does them one after the other; every `Executor` of one thread is one."""

    def submit(self, fn: Callable[..., object], /, *args: object) -> object:
        """Do a step after those before it. `RuntimeError`: there is no thread to be had."""

    def shutdown(self) -> None:
        """Return when the last step is done, and take no more."""


class CommitThread:
    """A `Worker` whose thread starts with the first step."""

    def __init__(self) -> None:
        self._steps: SimpleQueue[tuple[Callable[..., object], tuple[object, ...]] | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._stopped = False

    def submit(self, fn: Callable[..., object], /, *args: object) -> None:
        """Do a step that raises nothing."""
        if self._stopped:
            raise RuntimeError("the commit thread has ended")
        if self._thread is None:
            # A daemon, so that a sync that never returns does not keep the process alive.
            thread = Thread(target=self._run, name="everbrook-commit", daemon=True)
            thread.start()
            # Only now: `start` raises if there is no thread to be had, and a later step tries again.
            self._thread = thread
        self._steps.put((fn, args))

    def _run(self) -> None:
        take = self._steps.get
        while step := take():
            fn, args = step
            fn(*args)
            # Hold no group while waiting for the next one.
            del step, fn, args

    def shutdown(self) -> None:
        self._stopped = True
        self._steps.put(None)
        if self._thread is not None:
            self._thread.join()
