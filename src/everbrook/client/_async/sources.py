"""Sources of events: the iterators, contexts, awaitables and functions that libraries return.

The rule: a source that is opened here is closed here, whether the source or its reader ends first.
"""

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from inspect import isawaitable
from typing import Any, TypeAlias, TypeVar

from everbrook.client._async.concurrency import iterate, resolve

T = TypeVar("T")

AsyncEvents: TypeAlias = AsyncIterable[T] | Iterable[T] | AbstractAsyncContextManager[AsyncIterable[T]]
AsyncSource: TypeAlias = (
    AsyncEvents[T]
    | Awaitable[AsyncEvents[T]]  # async only
    | Callable[[], AsyncEvents[T] | Awaitable[AsyncEvents[T]]]
)
"""Events, a context manager of events, or a function that returns one of them."""


@asynccontextmanager
async def opened(source: AsyncSource[T]) -> AsyncIterator[AsyncIterator[T]]:
    """Open a source, yield the iterator of its events, and close the source afterwards."""
    # A context manager of contextlib is callable too, and must be entered, not called: so it is tested for first.
    given: Any = source if isinstance(source, AbstractAsyncContextManager) else await resolve(source)
    if isawaitable(given):  # async only
        given = await given
    if isinstance(given, AsyncIterable | Iterable):
        try:
            yield iterate(given)
        finally:
            await _close(given)
    elif isinstance(given, AbstractAsyncContextManager):
        async with given as events:
            yield iterate(events)
    else:
        raise TypeError(
            "events are an async iterator, a context that gives one, or a function that gives one of these, "
            f"got {type(given).__name__}"
        )


async def _close(given: object) -> None:
    """Close a generator, or the connection of a model's response. A plain list has no `close`."""
    close = getattr(given, "aclose", None)
    close = close or getattr(given, "close", None)  # async only
    if close is not None:
        await resolve(close)
