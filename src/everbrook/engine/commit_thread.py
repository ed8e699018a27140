"""The thread that persists groups, one after the other.

The hand-off is a plain queue. An executor would make a future for each group; nothing reads it, and it costs more than
the queue itself.
"""

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Protocol


class Worker(Protocol):
    """Runs calls one after the other. Every `Executor` with one thread is a worker."""

    def submit(self, fn: Callable[..., object], /, *args: object) -> object:
        """Run a call after those before it. Raises `RuntimeError` if no thread can be started."""

    def shutdown(self) -> None:
        """Take no more calls, and return when the last one has ended."""


class CommitThread:
    """A `Worker` whose thread starts with the first call."""

    def __init__(self) -> None:
        self._steps: SimpleQueue[tuple[Callable[..., object], tuple[object, ...]] | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._stopped = False

    def submit(self, fn: Callable[..., object], /, *args: object) -> None:
        """Run a call, which must not raise: an exception would end the thread."""
        if self._stopped:
            raise RuntimeError("the commit thread has ended")
        if self._thread is None:
            # A daemon thread, so that a sync that never returns does not keep the process alive.
            thread = Thread(target=self._run, name="everbrook-commit", daemon=True)
            thread.start()
            # Set after `start`, which raises if no thread can be started: then a later call tries again.
            self._thread = thread
        self._steps.put((fn, args))

    def _run(self) -> None:
        take = self._steps.get
        while step := take():
            fn, args = step
            fn(*args)
            # Drop the references: the memory of a large group is freed before the wait for the next one.
            del step, fn, args

    def shutdown(self) -> None:
        self._stopped = True
        self._steps.put(None)
        if self._thread is not None:
            self._thread.join()
