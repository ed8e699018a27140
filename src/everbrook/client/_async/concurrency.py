"""Locks, waiting and background tasks: the one module that is written separately for each side of the client.

The names are the same on both sides, so that the other modules can be generated.
"""

import asyncio
import os
from asyncio import Lock
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from inspect import isawaitable
from types import TracebackType
from typing import Any, Self, TypeVar, TypeVarTuple, overload

__all__ = ["Condition", "Lock", "Task", "iterate", "place", "resolve", "sleep", "spawn"]

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

_running: set[asyncio.Task[object]] = set()
"""The event loop holds tasks weakly: without this set, a task that nobody joins could be collected while it runs."""


async def sleep(secs: float) -> None:
    await asyncio.sleep(secs)


class Condition:
    """A lock to enter, and inside it a place to wait until something holds."""

    def __init__(self) -> None:
        self._condition = asyncio.Condition()

    async def __aenter__(self) -> Self:
        await self._condition.acquire()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._condition.release()

    async def wait_until(self, predicate: Callable[[], bool], timeout_secs: float | None = None) -> bool:
        """Wait, with the lock let go, until the predicate holds. Returns False if it does not in time."""
        try:
            async with asyncio.timeout(timeout_secs):
                return await self._condition.wait_for(predicate)
        except TimeoutError:
            # It may hold by now: the lock had to be taken again first.
            return predicate()

    def notify_all(self) -> None:
        """Have everyone who waits look again. Needs the lock."""
        self._condition.notify_all()


class Task:
    """Something that runs in the background."""

    def __init__(self, task: asyncio.Task[object]) -> None:
        self._task = task

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self._task.done()

    async def join(self) -> None:
        """Wait for its end, and raise what it raised. Ends quietly if it was cancelled."""
        await asyncio.wait({self._task})
        if not self._task.cancelled():
            self._task.result()

    def cancel(self) -> None:
        """Have it stop where it waits. A thread, on the other side, can't be stopped: there this does nothing."""
        self._task.cancel()


def place() -> object:
    """Where connections belong: to a process, and on this side to its event loop too."""
    return os.getpid(), asyncio.get_running_loop()


def spawn(function: Callable[[*Arguments], Coroutine[Any, Any, object]], *args: *Arguments, name: str) -> Task:
    """Run a coroutine function in the background."""
    task = asyncio.create_task(function(*args), name=name)
    _running.add(task)
    task.add_done_callback(_running.discard)
    return Task(task)


@overload
async def resolve(value: Callable[[], Awaitable[T]]) -> T: ...
@overload
async def resolve(value: Callable[[], T | Awaitable[T]]) -> T: ...
@overload
async def resolve(value: T | Callable[[], T | Awaitable[T]]) -> T: ...
async def resolve(value: T | Callable[[], T | Awaitable[T]]) -> T:
    """Return a value as it is, or the result of calling it."""
    if not callable(value):
        return value
    given = value()
    return await given if isawaitable(given) else given


def iterate(values: Iterable[T] | AsyncIterable[T]) -> AsyncIterator[T]:
    """Iterate over values that are an iterable or an asynchronous one."""
    return aiter(values) if isinstance(values, AsyncIterable) else _each(values)


async def _each(values: Iterable[T]) -> AsyncIterator[T]:
    for value in values:
        yield value
