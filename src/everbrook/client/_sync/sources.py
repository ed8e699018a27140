# Written by tools/mirror.py from src/everbrook/client/_async/sources.py: change that file, not this one.
"""Sources of events: iterators, contexts, awaitables and functions, as libraries give them.

The rule: what is opened here is closed here, whether the source or its reader ends first.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeAlias, TypeVar

from everbrook.client._sync.concurrency import iterate, resolve

T = TypeVar("T")

Events: TypeAlias = Iterable[T] | AbstractContextManager[Iterable[T]]
Source: TypeAlias = Events[T] | Callable[[], Events[T]]
"""Events, a context that gives them, or a function that is called when they are wanted."""


@contextmanager
def opened(source: Source[T]) -> Iterator[Iterator[T]]:
    """Give the events of a source, and close it behind them."""
    # A context may be callable too, as those of contextlib are, so it is looked at first.
    given: Any = source if isinstance(source, AbstractContextManager) else resolve(source)
    if isinstance(given, Iterable):
        try:
            yield iterate(given)
        finally:
            _close(given)
    elif isinstance(given, AbstractContextManager):
        with given as events:
            yield iterate(events)
    else:
        raise TypeError(
            "events are an iterator, a context that gives one, or a function that gives one of these, "
            f"got {type(given).__name__}"
        )


def _close(given: object) -> None:
    """Close a generator, or the connection behind an answer; a plain list needs nothing."""
    close = getattr(given, "close", None)
    if close is not None:
        resolve(close)
