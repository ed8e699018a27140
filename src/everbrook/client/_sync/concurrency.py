"""Locks, waiting and background tasks: the one module that is written separately for each side of the client.

The names are the same on both sides, so that the other modules can be generated.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import copy_context
from inspect import iscoroutine
from threading import Lock
from types import TracebackType
from typing import Self, TypeVar, TypeVarTuple, overload

__all__ = ["Condition", "Lock", "Task", "iterate", "place", "resolve", "sleep", "spawn"]

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")


def sleep(secs: float) -> None:
    time.sleep(secs)


class Condition:
    """A lock to enter, and inside it a place to wait until something holds."""

    def __init__(self) -> None:
        self._condition = threading.Condition(Lock())  # not reentrant, as on the other side

    def __enter__(self) -> Self:
        self._condition.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._condition.release()

    def wait_until(self, predicate: Callable[[], bool], timeout_secs: float | None = None) -> bool:
        """Wait, with the lock let go, until the predicate holds. Returns False if it does not in time."""
        return self._condition.wait_for(predicate, timeout_secs)

    def notify_all(self) -> None:
        """Have everyone who waits look again. Needs the lock."""
        self._condition.notify_all()


class Task:
    """Something that runs in the background."""

    def __init__(self, function: Callable[[], object], name: str) -> None:
        self._function = function
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._function()
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is raised to whoever joins
            self._error = error

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return not self._thread.is_alive()

    def join(self) -> None:
        """Wait for its end, and raise what it raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error

    def cancel(self) -> None:
        """Do nothing: a thread can't be stopped from outside. What runs in it has to see for itself when to end."""


def place() -> object:
    """Where connections belong: to a process, and on the other side to its event loop too."""
    return os.getpid()


def spawn(function: Callable[[*Arguments], object], *args: *Arguments, name: str) -> Task:
    """Run a function in the background, in a thread that does not keep the program alive."""
    context = copy_context()  # a task of asyncio has its starter's context too
    return Task(lambda: context.run(function, *args), name)


@overload
def resolve(value: Callable[[], T]) -> T: ...
@overload
def resolve(value: T | Callable[[], T]) -> T: ...
def resolve(value: T | Callable[[], T]) -> T:
    """Return a value as it is, or the result of calling it."""
    given = value() if callable(value) else value
    if iscoroutine(given):
        given.close()
        raise TypeError(f"{value!r} is asynchronous: it goes with AsyncClient, not with Client")
    return given


def iterate(values: Iterable[T]) -> Iterator[T]:
    """The values one by one."""
    return iter(values)
