# Written by tools/mirror.py from src/everbrook/client/_async/sources.py: change that file, not this one.
"""Sources of events: the iterators, contexts, awaitables and functions that libraries return.

The rule: a source that is opened here is closed here, whether the source or its reader ends first.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeAlias, TypeVar

from everbrook.client._sync.concurrency import iterate, resolve

T = TypeVar("T")

Events: TypeAlias = Iterable[T] | AbstractContextManager[Iterable[T]]
Source: TypeAlias = Events[T] | Callable[[], Events[T]]
"""Events, a context manager of events, or a function that returns one of them."""


@contextmanager
def opened(source: Source[T]) -> Iterator[Iterator[T]]:
    """Open a source, yield the iterator of its events, and close the source afterwards."""
    # A context manager of contextlib is callable too, and must be entered, not called: so it is tested for first.
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
    """Close a generator, or the connection of a model's response. A plain list has no `close`."""
    close = getattr(given, "close", None)
    if close is not None:
        resolve(close)
