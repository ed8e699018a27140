"""Sources of events: iterators, contexts, awaitables and functions, as libraries give them.

The rule: what is opened here is closed here, whether the source or its reader ends first.
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
"""Events, a context that gives them, or a function that is called when they are wanted."""


@asynccontextmanager
async def opened(source: AsyncSource[T]) -> AsyncIterator[AsyncIterator[T]]:
    """Give the events of a source, and close it behind them."""
    # A context may be callable too, as those of contextlib are, so it is looked at first.
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
    """Close a generator, or the connection behind an answer; a plain list needs nothing."""
    close = getattr(given, "aclose", None)
    close = close or getattr(given, "close", None)  # async only
    if close is not None:
        await resolve(close)
